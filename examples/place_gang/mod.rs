//! The program: arguments, input, answer.

mod decide;
mod draw;
mod explain;
#[cfg(feature = "kubernetes")]
mod located;
#[cfg(feature = "kubernetes")]
mod manifests;
#[cfg(not(feature = "kubernetes"))]
#[path = "no_manifests.rs"]
mod manifests;
mod openb;
#[cfg(feature = "kubernetes")]
#[allow(
    clippy::format_push_string,
    clippy::single_match_else,
    reason = "texts for people, a line at a time"
)]
mod reading;

use std::fmt::Write;

use phalanx::Framework;
#[cfg(feature = "cel")]
use phalanx::claims::Cel as Selectors;
#[cfg(all(feature = "devices", not(feature = "cel")))]
use phalanx::claims::NoSelectors as Selectors;
#[cfg(feature = "devices")]
use phalanx::plugins::{DynamicResources, KubernetesProfile};

use crate::common::cli::{Arguments, DONE, Finish, Mistake, NO, Program};

/// The program's arguments.
pub(crate) const PROGRAM: Program = Program {
    usage: "\
Places gangs of pods on a cluster, each whole or not at all.

Usage: place_gang [--cluster FILE --workload FILE] [OPTIONS]
       place_gang --manifests FILE [--cluster FILE] [OPTIONS]

Without files it places a training gang on openb, Alibaba's GPU cluster of 1,213 nodes.

Options:
  --cluster FILE        nodes and whatever runs on them, as Kubernetes manifests
  --workload FILE       pods that wait, and their groups
  --manifests FILE      the same, on openb if neither file has nodes
  --profile NAME        binpack, spread or kubernetes [binpack]
  --as-stored           the manifests are an API server's, not a person's: take them as they are
  --output text|json    how to answer [text]
  --reading json        place nothing: say of each document of FILE, a line each, which fields are
                        honoured, which are refused (its pods are left alone), which are ignored
  --help                this text

Files are read with --features kubernetes, named before --example. They are JSON, or YAML with one document or several; lists will do, and so will gzip. Bound pods
in either file run. An unbound pod without a group is a group of one. Jobs and their like (JobSet,
LeaderWorkerSet, PyTorchJob, RayCluster and others) become groups of the pods that their controllers
would make. Groups are placed in order of priority, then of the files, each after those before it.

Exit code: 0 all groups placed; 1 some group not placed; 2 misuse, bad input.
",
    options: &["--cluster", "--workload", "--manifests", "--profile", "--output", "--reading"],
    flags: &["--as-stored"],
};

/// The program.
///
/// # Errors
/// The arguments, or the files they name, cannot be used.
pub(crate) fn run(arguments: &Arguments) -> Result<Finish, Mistake> {
    if arguments.value("--reading").is_some() {
        arguments.word("--reading", &["json"])?;
        let Some(file) = arguments.value("--manifests") else {
            return Err(Mistake::Usage("--reading needs --manifests".into()));
        };
        return manifests::account(file, arguments.flag("--as-stored")).map_err(Mistake::Input);
    }
    let as_json = arguments.word("--output", &["text", "json"])? == "json";
    let profile = arguments.word("--profile", &["binpack", "spread", "kubernetes"])?;
    let (mut scene, notes) = scene(arguments)?;
    let framework = profile_framework(profile, scene.has_claims);
    let before = scene.cluster.clone();
    let decisions = decide::all(&mut scene.cluster, &framework, &scene.groups)
        .map_err(|error| Mistake::Input(format!("{}: {error}", scene.source)))?;
    let out = if as_json {
        decide::json(&decisions)
    } else {
        draw::scene(&scene, &before, profile, &decisions)
    };
    let placed = decisions.iter().all(|decision| decision.outcome == "placed");
    let mut finish = Finish::with(if placed { DONE } else { NO }, out);
    for note in notes {
        let _ = writeln!(finish.err, "note: {note}");
    }
    Ok(finish)
}

/// A cluster and what waits for a place on it.
#[derive(Debug)]
pub(crate) struct Scene {
    /// The title.
    title: String,
    /// The files it is from, for complaints.
    source: String,
    cluster: phalanx::Cluster,
    /// In the order in which they are placed.
    groups: Vec<phalanx::PodGroup>,
    /// Whether there are claims of devices, or classes that serve them.
    has_claims: bool,
}

/// The scene that the arguments name, and remarks on single objects.
fn scene(arguments: &Arguments) -> Result<(Scene, Vec<String>), Mistake> {
    let as_stored = arguments.flag("--as-stored");
    let openb = || openb::scene().map_err(|error| Mistake::Input(error.to_string()));
    let value = |name| arguments.value(name);
    match (value("--cluster"), value("--workload"), value("--manifests")) {
        (_, Some(_), Some(_)) => {
            Err(Mistake::Usage("--workload and --manifests are two words for one".into()))
        }
        (cluster, None, Some(file)) => {
            let (mut scene, mut notes) = manifests::read(cluster.unwrap_or(file), file, as_stored)
                .map_err(Mistake::Input)?;
            if scene.cluster.node_count() == 0 && cluster.is_none() {
                let openb = openb()?;
                scene.title = format!("{file} on openb");
                scene.cluster = openb.cluster;
                notes.push(format!("{file} has no nodes: those of openb are taken"));
            }
            Ok((scene, notes))
        }
        (Some(cluster), Some(workload), None) => {
            manifests::read(cluster, workload, as_stored).map_err(Mistake::Input)
        }
        (None, None, None) if as_stored => {
            Err(Mistake::Usage("--as-stored needs --cluster and --workload".into()))
        }
        (None, None, None) => Ok((openb()?, vec![])),
        (Some(_), None, None) => Err(Mistake::Usage("--cluster needs --workload".into())),
        (None, Some(_), None) => Err(Mistake::Usage("--workload needs --cluster".into())),
    }
}

/// A profile, with the strategy that is natural to it.
fn profile_framework(profile: &str, has_claims: bool) -> Framework {
    let own = match profile {
        "kubernetes" => Framework::kubernetes(),
        "spread" => Framework::spread(),
        _ => Framework::default(),
    };
    if has_claims { with_claims(profile, own) } else { own }
}

#[cfg(feature = "devices")]
fn with_claims(profile: &str, own: Framework) -> Framework {
    if profile == "kubernetes" {
        return KubernetesProfile::new().claims(Selectors).framework();
    }
    let builder = DynamicResources::add_to(own.to_builder(), Selectors);
    builder.build().unwrap_or(own)
}

/// Only manifests have claims, and they bring the feature.
#[cfg(not(feature = "devices"))]
fn with_claims(_: &str, own: Framework) -> Framework {
    own
}
