//! Objects of a collection, followed by lists and watches for ever.

use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use http::{Method, Request};
use kube::core::WatchEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::api::Api;

/// Pause before a list is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// News of a collection of objects, or of the parts of them that a follower reads.
pub enum News<T = Value> {
    /// All objects of it, in place of what was known.
    All(Vec<T>),
    /// A new object, or one that changed.
    Put(T),
    /// An object that is gone, as it was last.
    Gone(T),
    /// The watch ended: nothing is known until the next list.
    Lost,
}

#[derive(Deserialize)]
struct List<T> {
    metadata: ListMeta,
    items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

/// Follows the collection at a path; after each end of a watch, whatever the reason, it lists anew.
pub async fn follow<T>(api: &Api, path: &str, mut tell: impl FnMut(News<T>))
where
    T: DeserializeOwned + Clone,
{
    loop {
        let Ok(list) = api.send::<List<T>>(&Method::GET, path, None).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        tell(News::All(list.items));
        let version = list.metadata.resource_version;
        let uri = format!("{path}?watch=true&resourceVersion={version}");
        let request = Request::get(uri).body(Vec::new()).expect("the path is an address");
        if let Ok(events) = api.client().request_events::<T>(request).await {
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
