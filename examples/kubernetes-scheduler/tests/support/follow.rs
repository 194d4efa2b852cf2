//! Objects of a collection, followed by lists and watches for ever.

use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use http::{Method, Request};
use kube::core::WatchEvent;
use serde_json::Value;

use super::api::Api;

/// Pause before a list is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// News of a collection.
pub enum News {
    /// All objects of it, in place of what was known.
    All(Vec<Value>),
    /// A new object, or one that changed.
    Put(Value),
    /// An object that is gone, as it was last.
    Gone(Value),
    /// The watch ended: nothing is known until the next list.
    Lost,
}

/// Follows the collection at a path; after each end of a watch, whatever the reason, it lists anew.
pub async fn follow(api: &Api, path: &str, mut tell: impl FnMut(News)) {
    loop {
        let Ok(mut list) = api.send::<Value>(&Method::GET, path, None).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
        let Value::Array(items) = list["items"].take() else { panic!("{path} is no list") };
        tell(News::All(items));
        let uri = format!("{path}?watch=true&resourceVersion={version}");
        let request = Request::get(uri).body(Vec::new()).expect("the path is an address");
        if let Ok(events) = api.client().request_events::<Value>(request).await {
            let mut events = pin!(events);
            while let Ok(Some(event)) = events.try_next().await {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        tell(News::Put(object));
                    }
                    WatchEvent::Deleted(object) => tell(News::Gone(object)),
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(_) => break,
                }
            }
        }
        tell(News::Lost);
        tokio::time::sleep(PAUSE).await;
    }
}
