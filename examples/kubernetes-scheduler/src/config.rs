//! Settings: the command line and the configuration file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx_kubernetes_client::{bind, lease};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

/// The program's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    pub kubeconfig: Option<PathBuf>,
    pub scheduler_name: String,
    pub dry_run: bool,
    pub listen: Option<SocketAddr>,
    /// The configuration file, to be read anew when it changes.
    pub path: Option<PathBuf>,
    pub file: File,
}

/// The configuration file. `config.yaml` beside the manifests shows every field.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct File {
    pub scheduler_name: Option<String>,
    pub profile: Profile,
    pub plugins: Plugins,
    pub strategy: Option<phalanx::Strategy>,
    /// Label keys of nodes from the coarsest level to the finest.
    pub levels: Vec<String>,
    pub queues: Queues,
    /// Whether groups that do not fit preempt, and how.
    pub preemption: Option<Preemption>,
    pub timeouts: Timeouts,
    pub bindings: Bindings,
    pub events: Events,
    pub leader_election: LeaderElection,
    pub serving: Serving,
    /// Nodes that could be added.
    pub autoscaling: Option<Autoscaling>,
    /// Where gangs come from beside groups.
    pub workloads: Workloads,
    /// A `KubeSchedulerConfiguration` of which the profile is taken; relative to this file.
    pub kube_scheduler_configuration: Option<PathBuf>,
}

/// The page and the questions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Serving {
    /// Files in PEM, relative to the configuration file; both or none.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// A file with the token that requests must have.
    pub token: Option<PathBuf>,
}

/// Nodes that could be added, and requests for them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Autoscaling {
    /// A file with templates of nodes, relative to the configuration file.
    pub templates: PathBuf,
    /// The class of the ProvisioningRequests that are answered.
    #[serde(default = "provisioning_class")]
    pub provisioning_class: String,
}

fn provisioning_class() -> String {
    "phalanx.dev/plan".to_owned()
}

/// Workloads that are gangs by themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Workloads {
    /// A pod that names no group is a group of one.
    #[default]
    None,
    /// The pods of a Job, JobSet, LeaderWorkerSet and their kin start together.
    Gangs,
}

/// The profile that plugins start from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Profile {
    /// Packs tightly: `Framework::default()`.
    #[default]
    Pack,
    /// Spreads: `Framework::spread()`.
    Spread,
    /// As kube-scheduler's default profile: `Framework::kubernetes()`.
    Kubernetes,
}

/// Changes of the profile's plugins.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Plugins {
    /// Filters of the profile to leave out.
    pub disabled: Vec<Spanned<String>>,
    /// Weights of scores, by name; 0 leaves a score out.
    pub weights: BTreeMap<String, Spanned<u32>>,
    /// Scores beside those of the profile.
    pub scores: Vec<OwnScore>,
}

/// A score with its arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnScore {
    pub name: ScoreName,
    #[serde(default = "one")]
    pub weight: u32,
    /// Resources with their weights.
    pub resources: BTreeMap<String, u32>,
    /// Points of the curve of `RequestedToCapacityRatio`: percent used, and a score of 0 to 10.
    #[serde(default)]
    pub shape: Vec<(u8, u8)>,
}

fn one() -> u32 {
    1
}

/// A score that takes arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ScoreName {
    MostAllocated,
    LeastAllocated,
    RequestedToCapacityRatio,
    NodeResourcesBalancedAllocation,
    ScarceResourceAvoidance,
}

/// The queues.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Queues {
    /// The rule for groups behind a head that cannot be placed.
    pub head_of_line: phalanx::queue::HeadOfLine,
    /// The same for single queues, by name.
    pub rules: BTreeMap<String, phalanx::queue::HeadOfLine>,
    /// Failures in a row after which a group goes behind its equals.
    pub demote_after: Option<u32>,
    /// Reserve capacity for the first groups that have waited as long.
    pub reserve_after: Option<Span>,
    /// How long a reservation lasts, and how many there are at a time.
    pub reserve_for: Option<Span>,
    pub reservations: Option<usize>,
    /// Lets groups pass the first of the line by a rule of backfill.
    pub backfill: Option<Backfill>,
    /// Follow the queues of the dialect in the API server.
    pub watch: bool,
    /// Fair sharing, in Kueue's dialect.
    pub fair_sharing: bool,
    /// Kueue's manifests of tenants; there are none without this and the next. Relative to the
    /// configuration file.
    pub file: Option<PathBuf>,
    /// The same, here.
    pub objects: Vec<phalanx::kubernetes::Value>,
    /// The rules of tenants.
    pub dialect: Dialect,
}

/// How tenants share quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Dialect {
    /// As Kueue.
    #[default]
    Kueue,
    /// As the crate by itself: guarantees, limits, weighted shares.
    Default,
    Kai,
    Koordinator,
    VolcanoProportion,
    VolcanoCapacity,
    VolcanoDrf,
    Yunikorn,
}

/// Backfill. Run times come from `phalanx.dev/run-time-seconds` or `activeDeadlineSeconds` of pods.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Backfill {
    pub rule: phalanx::queue::BackfillRule,
    /// The longest time from a decision until its pods run.
    pub binding_time: Option<Span>,
}

/// Preemption.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Preemption {
    pub policy: Victims,
    /// Steps that a search for victims may take.
    pub budget: Option<u64>,
    /// How long room is held for a group while its victims go.
    pub timeout: Option<Span>,
    /// How long an eviction may take to begin.
    pub start: Option<Span>,
    /// How long a victim may take to go.
    pub grace: Option<Span>,
    /// Whether victims are searched over quota and room at once. Without it: not in Kueue's dialect.
    pub joint: Option<bool>,
    /// The most units that may move so that a group fits; moves are searched before victims.
    pub moves: u32,
    /// How long a group waits before victims are searched for it.
    pub delay: Option<Span>,
}

/// Pods that may be taken for a group that does not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Victims {
    /// Pods and groups of a lower priority.
    #[default]
    LowerPriority,
    /// Lower ones of its own queue.
    LowerPriorityInQueue,
}

/// Time-outs and back-offs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Timeouts {
    /// How long a gang may stay below its minimum, also half bound, before it is evicted.
    pub below_minimum: Option<Span>,
    /// How long the bindings of a plan may take.
    pub binding: Option<Span>,
    /// How long an unschedulable group may go without a new attempt.
    pub unschedulable: Option<Span>,
    pub first_backoff: Option<Span>,
    pub longest_backoff: Option<Span>,
}

/// Bindings and evictions.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Bindings {
    /// Requests in flight.
    pub in_flight: usize,
    /// How long one binding is tried before it has failed for good.
    #[serde(deserialize_with = "span")]
    pub retry_for: Duration,
    /// How long devices and volumes of a plan may take before its gang has failed.
    #[serde(deserialize_with = "span")]
    pub prepare_for: Duration,
    /// The fate of a gang then.
    pub on_failure: OnFailure,
    /// The grace period of evictions; that of the pod unless set.
    pub eviction_grace_seconds: Option<u32>,
}

impl Default for Bindings {
    fn default() -> Bindings {
        Bindings {
            in_flight: 64,
            retry_for: Duration::from_secs(60),
            prepare_for: Duration::from_secs(600),
            on_failure: OnFailure::Retry,
            eviction_grace_seconds: None,
        }
    }
}

/// The fate of a gang when the binding of a member has failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnFailure {
    /// The others stay, and a new place is looked for until `timeouts.belowMinimum`.
    Retry,
    /// The others stay if the minimum holds without it, else they are evicted at once.
    KeepMinimum,
    /// The others are evicted at once.
    Evict,
}

/// Events, beside one for each gang.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Events {
    /// Whether every bound pod has an event of its own.
    pub per_pod: bool,
}

/// Leader election by a Lease.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LeaderElection {
    pub enabled: bool,
    pub namespace: String,
    pub name: String,
    /// How long a lease holds that is not renewed.
    #[serde(deserialize_with = "span")]
    pub lease: Duration,
    /// How long the leader tries to renew it before it gives up.
    #[serde(deserialize_with = "span")]
    pub renew: Duration,
    /// The time between two attempts.
    #[serde(deserialize_with = "span")]
    pub retry: Duration,
}

impl Default for LeaderElection {
    fn default() -> LeaderElection {
        LeaderElection {
            enabled: false,
            namespace: "kube-system".to_owned(),
            name: "phalanx".to_owned(),
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// The longest time of a configuration: a hundred years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A time such as `90s`, `5m` or `1h30m`.
#[derive(Debug, Clone, Copy)]
pub struct Span(pub Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        let fault =
            || serde::de::Error::custom(format!("{text:?} is not a time such as 90s or 5m"));
        let (mut total, mut number) = (Duration::ZERO, String::new());
        let mut rest = text.chars().peekable();
        while let Some(next) = rest.next() {
            if next.is_ascii_digit() {
                number.push(next);
                continue;
            }
            let count: u64 = number.parse().map_err(|_| fault())?;
            number.clear();
            let part = match next {
                'm' if rest.next_if_eq(&'s').is_some() => Duration::from_millis(count),
                'h' => Duration::from_secs(count.saturating_mul(3_600)),
                'm' => Duration::from_secs(count.saturating_mul(60)),
                's' => Duration::from_secs(count),
                _ => return Err(fault()),
            };
            total = total.checked_add(part).filter(|sum| *sum <= LONGEST).ok_or_else(fault)?;
        }
        if !number.is_empty() || text.is_empty() { Err(fault()) } else { Ok(Span(total)) }
    }
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Span::deserialize(deserializer).map(|span| span.0)
}

impl File {
    /// Reads a file's text. Errors name the line.
    pub fn read(text: &str) -> Result<File, String> {
        if text.trim().is_empty() {
            return Ok(File::default());
        }
        let file: File = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        file.check()?;
        Ok(file)
    }
}

impl File {
    /// Checks what fields say of each other.
    fn check(&self) -> Result<(), String> {
        let election = &self.leader_election;
        let serving = &self.serving;
        let faults = [
            (self.scheduler_name.as_deref() == Some(""), "schedulerName: it is empty"),
            (self.bindings.in_flight == 0, "bindings.inFlight: at least 1"),
            (election.retry.is_zero(), "leaderElection.retry: more than 0s"),
            (election.retry >= election.renew, "leaderElection.retry: less than renew"),
            (election.renew >= election.lease, "leaderElection.renew: less than lease"),
            (election.lease < Duration::from_secs(1), "leaderElection.lease: at least 1s"),
            (
                serving.certificate.is_some() != serving.key.is_some(),
                "serving: certificate and key go together",
            ),
            (
                self.queues.backfill.is_some() && self.queues.reserve_after.is_some(),
                "queues: either backfill or reserveAfter",
            ),
            (
                self.queues.watch && self.queues.dialect == Dialect::Yunikorn,
                "queues.watch: YuniKorn's queues are a file (queues.file), which is followed",
            ),
            (
                self.queues.fair_sharing && self.queues.dialect != Dialect::Kueue,
                "queues.fairSharing: only in the dialect kueue",
            ),
        ];
        match faults.iter().find(|(is_fault, _)| *is_fault) {
            Some((_, reason)) => Err((*reason).to_owned()),
            None => Ok(()),
        }
    }

    /// Makes the files that it names relative to its own folder.
    fn locate(&mut self, path: &Path) {
        let files = [
            &mut self.queues.file,
            &mut self.serving.certificate,
            &mut self.serving.key,
            &mut self.serving.token,
            &mut self.kube_scheduler_configuration,
        ];
        if let Some(own) = &mut self.autoscaling {
            own.templates = path.with_file_name(&own.templates);
        }
        for file in files.into_iter().flatten() {
            *file = path.with_file_name(&*file);
        }
    }
}

impl From<&Bindings> for bind::Settings {
    fn from(own: &Bindings) -> bind::Settings {
        bind::Settings {
            in_flight: own.in_flight,
            retry_for: own.retry_for,
            prepare_for: own.prepare_for,
            eviction_grace_seconds: own.eviction_grace_seconds,
        }
    }
}

impl From<&LeaderElection> for lease::Settings {
    fn from(own: &LeaderElection) -> lease::Settings {
        lease::Settings {
            namespace: own.namespace.clone(),
            name: own.name.clone(),
            lease: own.lease,
            renew: own.renew,
            retry: own.retry,
        }
    }
}

const USAGE: &str = "usage: kubernetes-scheduler [--kubeconfig FILE] [--config FILE] \
[--scheduler-name NAME] [--dry-run] [--listen ADDRESS]

  --kubeconfig FILE      how to reach the API server; inside a cluster, the pod's own account
  --config FILE          the configuration, in YAML; read anew when it changes, or on SIGHUP
  --scheduler-name NAME  the pods to place, by spec.schedulerName (default: phalanx)
  --dry-run              decide and log, and write nothing
  --listen ADDRESS       serve the page, /metrics, /healthz and /readyz, such as 127.0.0.1:10259;
                         a port alone is one of loopback
  --check                read the configuration, say what is wrong, and end
  --help                 this text";

/// The end of reading a command line.
#[derive(Debug)]
pub enum Start {
    Run(Box<Settings>),
    /// The text that was asked for.
    Show(String),
}

impl Settings {
    /// Reads the command line, and the file it names.
    ///
    /// # Errors
    /// One sentence that names the argument or the file.
    pub fn read(mut arguments: impl Iterator<Item = String>) -> Result<Start, String> {
        let mut settings = Settings {
            kubeconfig: None,
            scheduler_name: String::new(),
            dry_run: false,
            listen: None,
            path: None,
            file: File::default(),
        };
        let mut checks = false;
        while let Some(argument) = arguments.next() {
            let (flag, inline) = match argument.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (argument, None),
            };
            let missing = || format!("{flag}: a value is missing (--help lists the arguments)");
            let mut value = || inline.clone().or_else(|| arguments.next()).ok_or_else(missing);
            match flag.as_str() {
                "--help" | "-h" | "--check" | "--dry-run" if inline.is_some() => {
                    return Err(format!("{flag}: it takes no value"));
                }
                "--help" | "-h" => return Ok(Start::Show(USAGE.to_owned())),
                "--check" => checks = true,
                "--kubeconfig" => settings.kubeconfig = Some(value()?.into()),
                "--scheduler-name" => {
                    settings.scheduler_name = value()?;
                    if settings.scheduler_name.is_empty() {
                        return Err(format!("{flag}: the name is empty"));
                    }
                }
                "--dry-run" => settings.dry_run = true,
                "--listen" => {
                    let text = value()?;
                    let address = text.strip_prefix(':').map(|port| format!("127.0.0.1:{port}"));
                    let address = address.as_deref().unwrap_or(&text).parse();
                    let address = address.map_err(|_| format!("--listen: {text} is no address"))?;
                    settings.listen = Some(address);
                }
                "--config" => settings.path = Some(value()?.into()),
                _ => {
                    return Err(format!("{flag}: there is no such argument (--help lists them)"));
                }
            }
        }
        if let Some(path) = &settings.path {
            settings.file = Settings::file(path)?;
        }
        if settings.scheduler_name.is_empty() {
            let name = settings.file.scheduler_name.clone();
            settings.scheduler_name = name.unwrap_or_else(|| "phalanx".to_owned());
        }
        if checks {
            crate::profile::check(&settings.file)?;
            return Ok(Start::Show("the configuration is sound".to_owned()));
        }
        Ok(Start::Run(Box::new(settings)))
    }

    /// Reads a configuration file, and the one of kube-scheduler that it names.
    ///
    /// # Errors
    /// One sentence that names the file, and the line or the field.
    pub fn file(path: &Path) -> Result<File, String> {
        let fault = |error: String| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
        let mut file = File::read(&text).map_err(fault)?;
        file.locate(path);
        Ok(file)
    }
}
