//! A gang scheduler for Kubernetes, built on `phalanx`.
//!
//! ```text
//!  watch ──events──▶ decide (one thread, owns the Scheduler) ──orders──▶ bind
//!    ▲                  ▲   └──notes──▶ status                            │
//!    │                  └──────────────reports────────────────────────────┤
//!    └──────────────────────────  API server  ◀───────────────────────────┘
//! ```
//!
//! All that talks to the API server is in `client/`, a package of its own.

pub mod ask; // questions: why, what-if, snapshot
pub mod command; // the command line that asks them
pub mod config; // command line and configuration file
pub mod decide; // the decisions: inputs in, orders and notes out
pub mod explain; // why a group waits, when there is time to say so
pub mod kube_config; // the profile of a KubeSchedulerConfiguration
pub mod live; // queues that change while groups run
pub mod metrics; // Prometheus text
pub mod overview; // the state, for the page
pub mod page; // HTML
pub mod profile; // plugins, levels and queue rules from the configuration
pub mod reload; // the configuration, read anew
pub mod reservations; // room that Koordinator's reservations keep
pub mod scale; // nodes that would start groups
pub mod serve; // the page, questions, metrics and health over HTTP

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use phalanx::model::Amounts;
use phalanx_kubernetes_client::api::Api;
use phalanx_kubernetes_client::discovery::Discovery;
use phalanx_kubernetes_client::lease::Lease;
use phalanx_kubernetes_client::{bind, log, objects, status, watch};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Settings, Start};
use crate::decide::{Decider, Input, Leftovers, Pulse};
use crate::live::Live;
use crate::profile::Parts;

/// The longest time for requests under way to end when the program stops.
const FAREWELL: Duration = Duration::from_secs(20);

/// Runs the scheduler until it is told to stop. Exit code 0: it was; 1: it cannot go on; 2: misuse, or a
/// configuration that makes no sense.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let read = text(arguments).and_then(|arguments| Settings::read(arguments.into_iter()));
    let settings = match read {
        Ok(Start::Run(settings)) => *settings,
        Ok(Start::Show(text)) => {
            use std::io::Write;
            let Err(error) = writeln!(std::io::stdout(), "{text}") else {
                return ExitCode::SUCCESS;
            };
            eprintln!("kubernetes-scheduler: standard output: {error}");
            return ExitCode::FAILURE;
        }
        Err(reason) => {
            eprintln!("kubernetes-scheduler: {reason}");
            return ExitCode::from(2);
        }
    };
    let name = settings.scheduler_name.clone();
    let made = match Made::new(&settings) {
        Ok(made) => made,
        Err(reason) => {
            eprintln!("kubernetes-scheduler: {reason}");
            return ExitCode::from(2);
        }
    };
    // One thread for all I/O; the decisions have another.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(run(settings, made)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            log!(error, "the scheduler ends", scheduler = name, reason = reason);
            ExitCode::FAILURE
        }
    }
}

/// Arguments as text, or the first that is none.
fn text(arguments: impl Iterator<Item = OsString>) -> Result<Vec<String>, String> {
    let text = |argument: OsString| {
        let is_none = |argument: OsString| format!("{} is not UTF-8", argument.display());
        argument.into_string().map_err(is_none)
    };
    arguments.map(text).collect()
}

/// Everything that follows from the configuration alone.
struct Made {
    salt: u64,
    parts: Parts,
    scheduler: phalanx::Scheduler,
    store: phalanx::kubernetes::watch::Store,
    live: Live,
    provisioning: scale::Provisioning,
}

impl Made {
    fn new(settings: &Settings) -> Result<Made, String> {
        let file = &settings.file;
        // Schedulers side by side break ties differently, so that they meet less.
        let salt = settings
            .scheduler_name
            .bytes()
            .fold(0, |salt: u64, byte| salt.wrapping_mul(31).wrapping_add(byte.into()));
        let queues = profile::tenants(file, &[], &Amounts::default())?;
        let live = Live::new(file.clone(), queues.as_ref());
        let parts = Parts::new(file, salt)?;
        let local = queues.as_ref().and_then(|queues| queues.local.clone());
        let store = profile::store(file, &settings.scheduler_name, &parts, local);
        let scheduler = parts.scheduler(queues.map(|queues| queues.tenants))?;
        let provisioning = scale::Provisioning::new(file)?;
        Ok(Made { salt, parts, scheduler, store, live, provisioning })
    }
}

async fn run(settings: Settings, made: Made) -> Result<(), String> {
    let start = Instant::now();
    let name = settings.scheduler_name.clone();
    let api = Api::connect(settings.kubeconfig.as_deref()).await?;
    let pulse = Arc::new(Pulse::default());
    let (leading, leads) = tokio::sync::watch::channel(None);
    if let Some(address) = settings.listen {
        let counts = Arc::clone(api.counts());
        let health = serve::Health { pulse: Arc::clone(&pulse), start, inputs: leads, api: counts };
        serve::start(address, &settings.file.serving, health).await?;
    }
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;

    let election = &settings.file.leader_election;
    let mut lease =
        (election.enabled && !settings.dry_run).then(|| Lease::new(api.clone(), election.into()));
    if let Some(lease) = &mut lease {
        tokio::select! {
            () = lease.acquire() => {}
            _ = terminated.recv() => return Ok(()),
            _ = interrupted.recv() => return Ok(()),
        }
    }

    let (inputs, receiver) = std::sync::mpsc::channel();
    let (orders, ordered) = tokio::sync::mpsc::unbounded_channel();
    let (notes, noted) = tokio::sync::mpsc::unbounded_channel();
    let _ = leading.send(Some(inputs.clone()));
    let mut explanations = explain::Explanations::default();
    explanations.off = settings.dry_run;
    let gangs = settings.file.workloads == config::Workloads::Gangs;
    let decider = Decider {
        scheduler: made.scheduler,
        store: made.store,
        inputs: receiver,
        orders,
        notes,
        pulse,
        start,
        metrics: metrics::Metrics::default(),
        explanations,
        kinds: watch::sources(gangs).map(|source| source.kind).collect(),
        synced: Default::default(),
        waiting: Default::default(),
        nominated: Default::default(),
        dry_run: settings.dry_run,
        event_per_pod: settings.file.events.per_pod,
        leftovers: Leftovers::Unknown,
        decisions: Default::default(),
        parts: made.parts,
        live: made.live,
        reservations: Default::default(),
        provisioning: made.provisioning,
        api: Arc::clone(api.counts()),
    };
    let deciding = std::thread::Builder::new().name("decide".to_owned());
    let deciding = deciding.spawn(move || decider.run()).map_err(|error| error.to_string())?;
    let bindings = (&settings.file.bindings).into();
    let binding = tokio::spawn(bind::run(api.clone(), bindings, ordered, inputs.clone()));
    let discovery = Arc::new(Discovery::default());
    let writer = status::Writer::new(api.clone(), name.clone(), Arc::clone(&discovery));
    let writing = tokio::spawn(status::run(writer, noted));
    watch_all(&api, &discovery, &settings, &inputs);
    if let Some(path) = settings.path.clone() {
        let (file, inputs) = (settings.file.clone(), inputs.clone());
        tokio::spawn(reload::run(path, file, made.salt, inputs));
    }
    log!(info, "scheduling", scheduler = name, dry_run = settings.dry_run);

    let kept = async {
        match &mut lease {
            Some(lease) => lease.keep().await,
            None => std::future::pending().await,
        }
    };
    let lost = tokio::select! {
        () = kept => true,
        _ = terminated.recv() => false,
        _ = interrupted.recv() => false,
    };
    if lost {
        return Err("the lease is lost".to_owned());
    }
    log!(info, "stopping");
    // Decisions end first; what they have ordered is carried out.
    let _ = inputs.send(Input::Stop);
    let _ = deciding.join();
    let end = async {
        let _ = binding.await;
        let _ = writing.await;
    };
    // Who asks twice does not want to wait.
    let is_done = tokio::select! {
        ended = tokio::time::timeout(FAREWELL, end) => ended.is_ok(),
        _ = terminated.recv() => false,
        _ = interrupted.recv() => false,
    };
    if !is_done {
        log!(warn, "requests under way are given up");
    }
    if let Some(lease) = &mut lease {
        lease.release().await;
    }
    Ok(())
}

/// Starts the watches of everything that is followed.
fn watch_all(api: &Api, discovery: &Arc<Discovery>, settings: &Settings, inputs: &Sender<Input>) {
    for source in watch::sources(settings.file.workloads == config::Workloads::Gangs) {
        let discovery = Arc::clone(discovery);
        tokio::spawn(watch::run(api.clone(), source, discovery, inputs.clone()));
    }
    if settings.file.autoscaling.is_some() {
        for resource in scale::RESOURCES {
            let (api, inputs) = (api.clone(), inputs.clone());
            tokio::spawn(async move {
                let tell = |objects| inputs.send(Input::Provisioning(resource, objects)).is_ok();
                objects::follow(api, resource, tell).await;
            });
        }
    }
    if !settings.file.queues.watch {
        return;
    }
    for resource in live::resources(settings.file.queues.dialect) {
        let (api, inputs) = (api.clone(), inputs.clone());
        tokio::spawn(async move {
            let tell = |objects: Vec<serde_json::Value>| {
                let values = objects.into_iter().map(serde_json::from_value);
                let values = values.filter_map(Result::ok).collect();
                inputs.send(Input::Queues(resource, values)).is_ok()
            };
            objects::follow(api, resource, tell).await;
        });
    }
}
