//! A gang scheduler for Kubernetes, built on `phalanx`.
//!
//! ```text
//!  watch ──events──▶ decide (one thread, owns the Scheduler) ──orders──▶ bind
//!    ▲                  ▲   └──notes──▶ status                            │
//!    │                  └──────────────reports────────────────────────────┤
//!    └──────────────────────────  API server  ◀───────────────────────────┘
//! ```

mod api; // requests to the API server
mod bind; // bindings and evictions, many in flight
mod config; // command line and configuration file
mod decide; // the decisions: inputs in, orders and notes out
mod discovery; // which versions the server serves
mod explain; // why a group waits, when there is time to say so
mod lease; // leader election
mod log; // structured logs
mod metrics; // Prometheus text
mod prepare; // claims and volumes of pods before they are bound
mod profile; // plugins, levels and queue rules from the configuration
mod serve; // /metrics, /healthz, /readyz
mod status; // conditions and events
mod watch; // watches of all kinds

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx::kubernetes::watch::Store;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Settings;
use crate::decide::{Decider, Input, Leftovers, Pulse};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The longest time for requests under way to end when the program stops.
const FAREWELL: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let settings = match Settings::read(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::from(2);
        }
    };
    // One thread for all I/O; the decisions have another.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(|error| error.to_string()).and_then(|rt| rt.block_on(run(settings))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            log!(error, "the scheduler ends", reason = reason);
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: Settings) -> Result<(), String> {
    let start = Instant::now();
    // Schedulers side by side break ties differently, so that they meet less.
    let salt = settings
        .scheduler_name
        .bytes()
        .fold(0, |salt: u64, byte| salt.wrapping_mul(31).wrapping_add(byte.into()));
    let name = settings.scheduler_name.clone();
    let (tenants, queues) = profile::tenants(&settings.file)?.unzip();
    let scheduler = profile::scheduler(&settings.file, salt, tenants)?;
    let store = Store::new(name.clone()).with_claims();
    let store = store.with_levels(settings.file.levels.iter().cloned());
    let store = match queues {
        Some(queues) => store.with_queues(queues),
        None => store,
    };
    let api = api::Api::connect(&settings).await?;
    let pulse = Arc::new(Pulse::default());
    let (leading, leads) = tokio::sync::watch::channel(None);
    if let Some(address) = settings.listen {
        let health = serve::Health { pulse: Arc::clone(&pulse), start, inputs: leads };
        serve::start(address, health).await?;
    }
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;

    let election = settings.file.leader_election.clone();
    let mut lease =
        (election.enabled && !settings.dry_run).then(|| lease::Lease::new(api.clone(), election));
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
    let decider = Decider {
        scheduler,
        store,
        inputs: receiver,
        orders,
        notes,
        pulse,
        start,
        metrics: metrics::Metrics::default(),
        explanations,
        synced: Default::default(),
        waiting: Default::default(),
        nominated: Default::default(),
        dry_run: settings.dry_run,
        event_per_pod: settings.file.events.per_pod,
        leftovers: Leftovers::Unknown,
    };
    let deciding = std::thread::Builder::new().name("decide".to_owned());
    let deciding = deciding.spawn(move || decider.run()).map_err(|error| error.to_string())?;
    let bindings = settings.file.bindings.clone();
    let binding = tokio::spawn(bind::run(api.clone(), bindings, ordered, inputs.clone()));
    let discovery = Arc::new(discovery::Discovery::default());
    let writer = status::Writer::new(api.clone(), name.clone(), Arc::clone(&discovery));
    let writing = tokio::spawn(status::run(writer, noted));
    for source in watch::SOURCES {
        let discovery = Arc::clone(&discovery);
        tokio::spawn(watch::run(api.clone(), source, discovery, inputs.clone()));
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
    if tokio::time::timeout(FAREWELL, end).await.is_err() {
        log!(warn, "requests under way are given up");
    }
    if let Some(lease) = &mut lease {
        lease.release().await;
    }
    Ok(())
}
