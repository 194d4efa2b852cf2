//! Leader election: one Lease, held by the replica that schedules.
//!
//! A change of the lease names the version that it is made on, so of two replicas one succeeds.
//! Whether a lease has run out is judged by the own clock: by when it was last seen to change.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::log;

/// A lease, and its times.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// How long a lease holds that is not renewed.
    pub lease: Duration,
    /// How long the leader tries to renew it before it gives up; less than `lease`.
    pub renew: Duration,
    /// The time between two attempts.
    pub retry: Duration,
}

/// One replica's part in the election.
pub struct Lease {
    api: Api,
    settings: Settings,
    identity: String,
    /// The lease as it was last seen.
    seen: Value,
    seen_at: Instant,
}

impl Lease {
    pub fn new(api: Api, settings: Settings) -> Lease {
        let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
        let host = std::env::var("HOSTNAME").unwrap_or(host);
        let start = log::timestamp();
        let identity = format!("{}_{}_{start}", host.trim(), std::process::id());
        Lease { api, settings, identity, seen: Value::Null, seen_at: Instant::now() }
    }

    /// Waits until the lease is held.
    pub async fn acquire(&mut self) {
        log!(info, "the lease is waited for", lease = self.name(), identity = self.identity);
        loop {
            match self.attempt().await {
                Ok(true) => break,
                Ok(false) => {}
                Err(reason) => log!(warn, "the lease cannot be taken", reason = reason),
            }
            tokio::time::sleep(self.settings.retry).await;
        }
        log!(info, "the lease is held", lease = self.name(), identity = self.identity);
    }

    /// Renews the lease until that fails for too long.
    pub async fn keep(&mut self) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < self.settings.renew {
            tokio::time::sleep(self.settings.retry).await;
            let left = self.settings.renew.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.attempt()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => return,
                Ok(Err(reason)) => log!(warn, "the lease cannot be renewed", reason = reason),
                Err(_) => return,
            }
        }
    }

    /// Gives the lease up, so that another replica need not wait for its end.
    pub async fn release(&mut self) {
        if self.holder() == self.identity {
            let mut lease = self.seen.clone();
            lease["spec"]["holderIdentity"] = "".into();
            lease["spec"]["leaseDurationSeconds"] = 1.into();
            let _ = self.api.put(&self.path(), &lease).await;
        }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    fn collection(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.settings.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.settings.name)
    }

    fn holder(&self) -> &str {
        self.seen["spec"]["holderIdentity"].as_str().unwrap_or("")
    }

    /// Takes or renews the lease; false if another replica holds it.
    async fn attempt(&mut self) -> Result<bool, String> {
        // Others see the lease as held from some time after this one.
        let begin = Instant::now();
        let answer = self.api.get(&self.path()).await?;
        match answer.status {
            200 => {
                let lease: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
                if version(&lease) != version(&self.seen) {
                    self.seen_at = Instant::now();
                }
                self.seen = lease;
            }
            404 => self.seen = Value::Null,
            _ => return Err(answer.message()),
        }
        let seconds = self.seen["spec"]["leaseDurationSeconds"].as_u64().unwrap_or(0);
        let ended = self.seen_at.elapsed() > Duration::from_secs(seconds);
        let held = !self.holder().is_empty() && self.holder() != self.identity;
        if held && !ended {
            return Ok(false);
        }
        let now = log::timestamp();
        let mut lease = self.seen.clone();
        if lease.is_null() {
            lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": self.settings.name, "namespace": self.settings.namespace},
                "spec": {},
            });
        }
        let spec = &mut lease["spec"];
        if spec["holderIdentity"] != self.identity.as_str() {
            spec["holderIdentity"] = self.identity.clone().into();
            spec["acquireTime"] = now.clone().into();
            spec["leaseTransitions"] = (spec["leaseTransitions"].as_u64().unwrap_or(0) + 1).into();
        }
        spec["renewTime"] = now.into();
        spec["leaseDurationSeconds"] = self.settings.lease.as_secs().max(1).into();
        let answer = if self.seen.is_null() {
            self.api.post(&self.collection(), &lease).await?
        } else {
            self.api.put(&self.path(), &lease).await?
        };
        match answer.status {
            200..=299 => {
                self.seen = serde_json::from_slice(&answer.body).unwrap_or_default();
                self.seen_at = Instant::now();
                self.api.fence(begin + self.settings.lease);
                Ok(true)
            }
            409 => Ok(false),
            _ => Err(answer.message()),
        }
    }
}
