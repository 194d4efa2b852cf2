//! Discovery: in which versions the server serves the groups of `scheduling.k8s.io`. It may change
//! while the program runs, because clusters are upgraded.

use std::sync::Mutex;

use phalanx::kubernetes::watch::{ResourceList, SchedulingResource, Served};
use serde::Deserialize;
use tokio::sync::Notify;

use crate::api::Api;
use crate::log;

const GROUP: &str = "/apis/scheduling.k8s.io";

/// The answer of `GET /apis/<group>`.
#[derive(Deserialize)]
struct Group {
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

/// The versions that the server was last seen to serve.
#[derive(Default)]
pub struct Discovery {
    served: Mutex<Served>,
    changed: Notify,
}

impl Discovery {
    /// Asks the server. An error says that there is no answer; what was served last stays.
    pub async fn ask(&self, api: &Api) -> Result<Served, String> {
        let group = api.get(GROUP).await?;
        let versions = match group.status {
            200 => {
                let group: Group =
                    serde_json::from_slice(&group.body).map_err(|error| error.to_string())?;
                group.versions
            }
            404 => Vec::new(),
            _ => return Err(group.message()),
        };
        let mut lists = Vec::new();
        for GroupVersion { version } in versions {
            let list = api.get(&format!("{GROUP}/{version}")).await?;
            match list.status {
                200 => {
                    let list: ResourceList =
                        serde_json::from_slice(&list.body).map_err(|error| error.to_string())?;
                    lists.push(list);
                }
                // It went between the two answers.
                404 => {}
                _ => return Err(list.message()),
            }
        }
        let served = Served::new(&lists);
        let mut last = self.served.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *last != served {
            for resource in SchedulingResource::ALL {
                let version = served.version(resource).map_or("none", |version| version.name());
                log!(info, "scheduling.k8s.io", resource = resource.name(), version = version);
            }
            *last = served.clone();
            self.changed.notify_waiters();
        }
        Ok(served)
    }

    /// Waits until an answer differs from the one before it.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The versions that the server was last seen to serve.
    pub fn last(&self) -> Served {
        self.served.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}
