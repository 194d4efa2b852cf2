//! Requests to the API server, and their answers as status and bytes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::{Client, Config};

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest time that an answer may take; watches aside.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The API server.
#[derive(Clone)]
pub struct Api {
    client: Client,
    counts: Arc<Counts>,
    /// The end of the lease, if there is one: writes after it are those of a replica that was stopped.
    fence: Arc<Mutex<Option<Instant>>>,
}

/// Answers to requests so far, by result; for metrics.
#[derive(Debug, Default)]
pub struct Counts {
    /// Status 200 to 299.
    pub taken: AtomicU64,
    /// Status 409: another write came first.
    pub conflicts: AtomicU64,
    /// Status 429: too many requests.
    pub throttled: AtomicU64,
    /// Another status of 400 to 499.
    pub refused: AtomicU64,
    /// Status 500 and more.
    pub failed: AtomicU64,
    /// No answer, or none in time.
    pub lost: AtomicU64,
}

impl Counts {
    fn add(&self, status: Option<u16>) {
        let count = match status {
            None => &self.lost,
            Some(409) => &self.conflicts,
            Some(429) => &self.throttled,
            Some(400..=499) => &self.refused,
            Some(500..) => &self.failed,
            Some(_) => &self.taken,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts by the word of their result.
    pub fn by_result(&self) -> [(&'static str, u64); 6] {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("taken", get(&self.taken)),
            ("conflict", get(&self.conflicts)),
            ("throttled", get(&self.throttled)),
            ("refused", get(&self.refused)),
            ("failed", get(&self.failed)),
            ("lost", get(&self.lost)),
        ]
    }
}

/// An answer of the API server, whatever its status.
pub struct Answer {
    pub status: u16,
    /// The time to wait before the request is sent again, where the server states one.
    pub retry_after: Option<Duration>,
    pub body: Bytes,
}

impl Answer {
    /// The message of a status object, or the body itself, clipped.
    pub fn message(&self) -> String {
        let status: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let message = status.as_ref().and_then(|status| status["message"].as_str());
        let text = message.map_or_else(|| String::from_utf8_lossy(&self.body).into(), String::from);
        format!("{}: {}", self.status, text.chars().take(300).collect::<String>())
    }
}

impl Api {
    /// Connects as a kubeconfig says, or as a pod of the cluster does where there is none.
    ///
    /// # Errors
    /// The file cannot be read, or names no usable cluster; the message says which file.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<Api, String> {
        let config = match kubeconfig {
            Some(path) => {
                let file = kube::config::Kubeconfig::read_from(path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                Config::from_custom_kubeconfig(file, &Default::default())
                    .await
                    .map_err(|error| format!("{}: {error}", path.display()))?
            }
            None => Config::infer().await.map_err(|error| error.to_string())?,
        };
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        Ok(Api { client, counts: Arc::default(), fence: Arc::default() })
    }

    /// Sends a request and reads the whole answer. An error says that there is none: the request
    /// may or may not have taken effect.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<Answer, String> {
        if method != Method::GET && !path.contains(LEASES) && self.is_fenced() {
            return Err("the lease has run out".to_owned());
        }
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, JSON)
            .body(Body::from(body))
            .map_err(|error| error.to_string())?;
        let exchange = async {
            let answer = self.client.send(request).await.map_err(|error| error.to_string())?;
            let retry_after = answer.headers().get(header::RETRY_AFTER);
            let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.map_err(|error| error.to_string())?;
            let retry_after = retry_after.map(Duration::from_secs);
            Ok(Answer { status, retry_after, body: body.to_bytes() })
        };
        let late = |_| Err(format!("no answer within {TIMEOUT:?}"));
        let answer: Result<Answer, String> =
            tokio::time::timeout(TIMEOUT, exchange).await.unwrap_or_else(late);
        self.counts.add(answer.as_ref().ok().map(|answer| answer.status));
        answer
    }

    /// Lets no write out after a time: the end of the lease as it was last renewed. Leases are exempt.
    pub fn fence(&self, until: Instant) {
        *self.fence.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    fn is_fenced(&self) -> bool {
        let until = *self.fence.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() >= until)
    }

    /// Answers so far, by result; clones of this client count together.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Starts a watch; its body goes on until the server or the network ends it.
    ///
    /// # Errors
    /// There is no answer in time.
    pub async fn watch(&self, path: &str) -> Result<Response<Body>, String> {
        let request = Request::get(path).header(header::ACCEPT, JSON).body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let late = |_| Err(format!("no answer within {TIMEOUT:?}"));
        let answer = tokio::time::timeout(TIMEOUT, self.client.send(request)).await;
        let answer =
            answer.map(|answer| answer.map_err(|error| error.to_string())).unwrap_or_else(late);
        self.counts.add(answer.as_ref().ok().map(|answer| answer.status().as_u16()));
        answer
    }

    pub async fn get(&self, path: &str) -> Result<Answer, String> {
        self.call(Method::GET, path, JSON, Vec::new()).await
    }

    pub async fn post(&self, path: &str, body: &serde_json::Value) -> Result<Answer, String> {
        self.call(Method::POST, path, JSON, body.to_string().into_bytes()).await
    }

    pub async fn put(&self, path: &str, body: &serde_json::Value) -> Result<Answer, String> {
        self.call(Method::PUT, path, JSON, body.to_string().into_bytes()).await
    }

    pub async fn delete(&self, path: &str, body: &serde_json::Value) -> Result<Answer, String> {
        self.call(Method::DELETE, path, JSON, body.to_string().into_bytes()).await
    }

    /// Replaces fields, and takes out those that are null.
    pub async fn merge(&self, path: &str, body: &serde_json::Value) -> Result<Answer, String> {
        let content_type = "application/merge-patch+json";
        self.call(Method::PATCH, path, content_type, body.to_string().into_bytes()).await
    }

    /// Patches lists of conditions by type.
    pub async fn patch(&self, path: &str, body: &serde_json::Value) -> Result<Answer, String> {
        let content_type = "application/strategic-merge-patch+json";
        self.call(Method::PATCH, path, content_type, body.to_string().into_bytes()).await
    }
}

const JSON: &str = "application/json";
/// A part of every path of a lease.
const LEASES: &str = "/apis/coordination.k8s.io/";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_write_goes_out_after_the_end_of_the_lease() {
        // Nobody listens there: what is sent fails otherwise.
        let config = Config::new("http://127.0.0.1:1".parse().expect("an address"));
        let client = Client::try_from(config).expect("it names no files");
        let api = Api { client, counts: Arc::default(), fence: Arc::default() };
        let body = serde_json::json!({});
        let reason = async |path: &str| match api.post(path, &body).await {
            Ok(answer) => answer.message(),
            Err(reason) => reason,
        };
        let pods = "/api/v1/namespaces/ml/pods/p/binding";
        assert!(!reason(pods).await.contains("lease"), "there is no lease");
        api.fence(Instant::now() + Duration::from_secs(60));
        assert!(!reason(pods).await.contains("lease"), "it holds");
        api.fence(Instant::now());
        assert_eq!(reason(pods).await, "the lease has run out");
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        assert!(!reason(lease).await.contains("run out"), "a lease may be renewed late");
        let read = api.get("/api/v1/nodes").await.err().unwrap_or_default();
        assert!(!read.contains("lease"), "reads harm nobody: {read}");
    }
}
