//! A client of the API server that knows no kinds: paths and JSON.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Requests in flight when many objects are written.
pub const IN_FLIGHT: usize = 64;

/// The time for which an API server that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(90);

/// A runtime of so many threads.
pub fn runtime(threads: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("the runtime starts")
}

/// The API server, as the user of one kubeconfig.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
}

/// The reason why a request has no result.
#[derive(Debug)]
pub enum Failure {
    /// The server refused: status code and message.
    Refused(u16, String),
    /// No answer: whether the server acted is not known.
    Lost(String),
}

impl Api {
    /// A client as the kubeconfig's user.
    pub async fn new(kubeconfig: &Path) -> Self {
        let file = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig can be read");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options)
            .await
            .expect("the kubeconfig names a cluster");
        let client = kube::Client::try_from(config).expect("the cluster has a usable address");
        Self { client }
    }

    /// One request, once.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Failure> {
        let content = if *method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let bytes = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content)
            .body(bytes)
            .expect("the path is an address");
        let answer = self.client.request(request).await;
        answer.map_err(|error| match error {
            kube::Error::Api(status) => Failure::Refused(status.code, status.message.clone()),
            error => Failure::Lost(error.to_string()),
        })
    }

    /// One request that is repeated while the server is away or overloaded. A POST that finds its
    /// object, and a DELETE that finds none, have succeeded: an earlier try may have been answered
    /// in vain.
    pub async fn persist(&self, method: &Method, path: &str, body: Option<&Value>) -> Value {
        let begin = Instant::now();
        loop {
            match self.send(method, path, body).await {
                Ok(answer) => return answer,
                Err(Failure::Refused(409, _)) if *method == Method::POST => break,
                Err(Failure::Refused(404, _)) if *method == Method::DELETE => break,
                // A server that has just begun has not read all that its admission needs.
                Err(Failure::Refused(403, message)) if message.contains("not yet ready") => {
                    assert!(begin.elapsed() < PATIENCE, "{method} {path}: {message}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(Failure::Refused(code, message)) if code != 429 && code < 500 => {
                    panic!("{method} {path}: {code} {message}")
                }
                Err(failure) if begin.elapsed() > PATIENCE => {
                    panic!("{method} {path}: {failure:?}")
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        Value::Null
    }

    /// The object or list at a path.
    pub async fn get(&self, path: &str) -> Value {
        self.persist(&Method::GET, path, None).await
    }

    /// The objects of a list.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        match self.get(path).await["items"].take() {
            Value::Array(items) => items,
            other => panic!("{path} is no list: {other}"),
        }
    }

    /// A new object in the collection at a path.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        self.persist(&Method::POST, path, Some(object)).await
    }

    /// New objects in the collection at a path, many at a time.
    pub async fn create_all(&self, path: &str, objects: &[Value]) {
        stream::iter(objects)
            .for_each_concurrent(IN_FLIGHT, async |object| {
                self.create(path, object).await;
            })
            .await;
    }

    /// A merge patch of the object at a path.
    pub async fn patch(&self, path: &str, change: &Value) {
        self.persist(&Method::PATCH, path, Some(change)).await;
    }

    /// One merge patch of the objects at many paths.
    pub async fn patch_all(&self, paths: &[String], change: &Value) {
        stream::iter(paths)
            .for_each_concurrent(IN_FLIGHT, async |path| self.patch(path, change).await)
            .await;
    }

    /// The end of the object at a path, without grace: no kubelet would end its pods.
    pub async fn delete(&self, path: &str) {
        let options = serde_json::json!({"gracePeriodSeconds": 0});
        self.persist(&Method::DELETE, path, Some(&options)).await;
    }

    /// The end of the objects at many paths.
    pub async fn delete_all(&self, paths: &[String]) {
        stream::iter(paths)
            .for_each_concurrent(IN_FLIGHT, async |path| self.delete(path).await)
            .await;
    }

    /// The client itself, for watches.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }
}
