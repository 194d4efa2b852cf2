//! Objects of any resource, followed as a whole: for queues and other configuration, of which there are few.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::Value;

use crate::api::Api;
use crate::log;

/// The time after which a watch that ended starts again.
const PAUSE: Duration = Duration::from_secs(1);
/// The same for a resource that is not served, or not allowed.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);
/// The longest silence of a watch.
const SILENCE: Duration = Duration::from_secs(150);

/// A line of a watch.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    word: String,
    object: Value,
}

/// Follows a resource for ever, and tells all its objects whenever one changes, the first time when they
/// are listed. A resource that is not served has none. Ends when `tell` returns false.
pub async fn follow(api: Api, path: &str, tell: impl Fn(Vec<Value>) -> bool + Send) {
    let mut last: Option<BTreeMap<String, Value>> = None;
    loop {
        let wait = match once(&api, path, &mut last, &tell).await {
            Ok(()) => return,
            Err(Some(reason)) => {
                log!(info, "a watch ended", path = path, reason = reason);
                PAUSE
            }
            Err(None) => {
                if last.as_ref().is_none_or(|objects| !objects.is_empty()) {
                    log!(warn, "a resource is not watched", path = path);
                    last = Some(BTreeMap::new());
                    if !tell(Vec::new()) {
                        return;
                    }
                }
                REFUSED_PAUSE
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// One watch. `Ok` says that nobody listens any more; an error without reason, that it is refused.
async fn once(
    api: &Api,
    path: &str,
    last: &mut Option<BTreeMap<String, Value>>,
    tell: &impl Fn(Vec<Value>) -> bool,
) -> Result<(), Option<String>> {
    let and = if path.contains('?') { '&' } else { '?' };
    let path = format!(
        "{path}{and}watch=1&allowWatchBookmarks=true&timeoutSeconds=540&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan"
    );
    let answer = api.watch(&path).await.map_err(Some)?;
    let mut body = match answer.status().as_u16() {
        200 => answer.into_body(),
        401 | 403 | 404 | 422 => return Err(None),
        status => return Err(Some(format!("status {status}"))),
    };
    let (mut objects, mut listed) = (BTreeMap::new(), false);
    let mut buffer = BytesMut::new();
    loop {
        let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Some(error.to_string())),
            Ok(None) => return Err(Some("the server ended it".to_owned())),
            Err(_) => return Err(Some("it fell silent".to_owned())),
        };
        let Ok(data) = frame.into_data() else { continue };
        buffer.extend_from_slice(&data);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end + 1);
            let line: Line =
                serde_json::from_slice(&line).map_err(|error| Some(error.to_string()))?;
            match line.word.as_str() {
                "ADDED" | "MODIFIED" => drop(objects.insert(name(&line.object), line.object)),
                "DELETED" => drop(objects.remove(&name(&line.object))),
                "BOOKMARK" => {
                    let notes = &line.object["metadata"]["annotations"];
                    listed |= notes.get("k8s.io/initial-events-end").is_some();
                }
                _ => return Err(Some("the server forgot its version".to_owned())),
            }
        }
        if listed && last.as_ref() != Some(&objects) {
            *last = Some(objects.clone());
            if !tell(objects.values().cloned().collect()) {
                return Ok(());
            }
        }
    }
}

/// Namespace and name of an object.
fn name(object: &Value) -> String {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", field("namespace"), field("name"))
}
