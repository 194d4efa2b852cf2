//! A scheduler for Kubernetes with a score of its own: nodes with the label `fast` first.
//!
//! `cargo run --example own_score -- KUBECONFIG` binds the pods whose `schedulerName` is `own-score`.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use phalanx::framework::{Context, Declaration};
use phalanx::kubernetes::watch::Store;
use phalanx::model::PodShape;
use phalanx::queue::Settings;
use phalanx::state::NodeView;
use phalanx::{Cluster, Framework, Scheduler, Score};
use phalanx_kubernetes_client::convert::Follower;
use phalanx_kubernetes_client::{Input, api::Api, bind, discovery::Discovery, watch};

struct FastFirst;

impl Score for FastFirst {
    fn name(&self) -> &str {
        "FastFirst"
    }

    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        if node.label("fast").is_some() { 100 } else { 0 }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kubeconfig = std::env::args_os().nth(1);
    let api = Api::connect(kubeconfig.as_ref().map(std::path::Path::new)).await?;
    let framework = Framework::default().to_builder().score(10, FastFirst).build()?;
    let mut settings = Settings::default();
    settings.evict_half_bound = true; // A binding cannot be taken back.
    let scheduler = Scheduler::new(Cluster::new(), framework, settings);
    let mut follower = Follower::new(scheduler, Store::new("own-score"));

    let (inputs, news) = mpsc::channel::<Input>();
    let (orders, ordered) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(bind::run(api.clone(), bind::Settings::default(), ordered, inputs.clone()));
    let discovery = Arc::new(Discovery::default());
    for source in watch::SOURCES {
        tokio::spawn(watch::run(api.clone(), source, Arc::clone(&discovery), inputs.clone()));
    }
    let deciding = tokio::task::spawn_blocking(move || {
        loop {
            news.recv_timeout(Duration::from_secs(1))
                .into_iter()
                .for_each(|one| follower.take(one));
            while let Ok(one) = news.try_recv() {
                follower.take(one);
            }
            follower.decide().into_iter().for_each(|order| drop(orders.send(order)));
        }
    });
    Ok(deciding.await?)
}
