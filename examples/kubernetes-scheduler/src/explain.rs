//! Explanations of groups that are not placed: made when there is nothing else to do, and sent as
//! conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use phalanx::kubernetes::watch::Store;
use phalanx::queue::{Gate, GroupState, QuotaReason, Shortage};
use phalanx::{Scheduler, Time};
use tokio::sync::mpsc::UnboundedSender;

use phalanx_kubernetes_client::status::Note;

/// The longest message of a condition, in characters.
const CLIP: usize = 900;
/// The time for which a group must be unschedulable before it is said so.
const DELAY: Duration = Duration::from_secs(1);
/// The least time between two messages about one group.
const REPEAT: Duration = Duration::from_secs(30);
/// An explanation may take one part in so many of the time.
const SHARE: u32 = 20;

/// Groups to explain, and what was said of them.
#[derive(Default)]
pub struct Explanations {
    /// With what is short; without it, they lack members or partners.
    due: BTreeMap<String, (Time, Option<Shortage>)>,
    /// The same in order of time.
    order: BTreeSet<(Time, String)>,
    /// The last message about each group, with its time and number of pods.
    said: BTreeMap<String, (Time, String, usize)>,
    /// The nearest relaxation of each group that was explained in full.
    remedies: BTreeMap<String, String>,
    /// The time before which no explanation is made in full.
    not_before: Time,
    pub off: bool,
}

impl Explanations {
    /// A group for which no place was found, or with no shortage one that is not whole.
    pub fn add(&mut self, group: String, shortage: Option<Shortage>, now: Time) {
        if self.off {
            return;
        }
        let repeat = self.said.get(&group).map(|(at, ..)| at.after(REPEAT));
        let due = repeat.unwrap_or(Time::ZERO).max(now.after(DELAY));
        let due = self.due.get(&group).map_or(due, |(earlier, _)| due.min(*earlier));
        self.take(&group);
        self.order.insert((due, group.clone()));
        self.due.insert(group, (due, shortage));
    }

    /// A group that waits no more, or for something else.
    pub fn forget(&mut self, group: &str) {
        self.take(group);
        self.said.remove(group);
        self.remedies.remove(group);
    }

    /// The last message about a group.
    pub fn said(&self, group: &str) -> Option<&str> {
        self.said.get(group).map(|(_, message, _)| message.as_str())
    }

    /// The nearest relaxation under which a group would start.
    pub fn remedy(&self, group: &str) -> Option<&str> {
        self.remedies.get(group).map(String::as_str)
    }

    fn take(&mut self, group: &str) -> Option<Option<Shortage>> {
        let (due, shortage) = self.due.remove(group)?;
        self.order.remove(&(due, group.to_owned()));
        Some(shortage)
    }

    /// The time of the next message.
    pub fn next(&self) -> Option<Time> {
        self.order.first().map(|(due, _)| *due)
    }

    /// A pod that is left alone.
    pub fn left_alone(
        &self,
        store: &Store,
        notes: &UnboundedSender<Note>,
        namespace: &str,
        name: &str,
        reason: &str,
    ) {
        let pods = store.pod(namespace, name).into_iter().collect();
        if !self.off {
            let _ = notes.send(Note::unschedulable(Vec::new(), pods, &clip(reason)));
        }
    }

    /// Sends what is due, one group at a time.
    pub fn send(
        &mut self,
        scheduler: &Scheduler,
        store: &Store,
        notes: &UnboundedSender<Note>,
        now: Time,
    ) {
        let due = self.order.first().filter(|(due, _)| *due <= now);
        let Some(group) = due.map(|(_, group)| group.clone()) else { return };
        let Some(shortage) = self.take(&group) else { return };
        let message = match (shortage, scheduler.state(&group)) {
            (Some(shortage), _) => self.message(scheduler, &group, &shortage, now),
            (None, Some(GroupState::Gated(gate))) => match gated(store, &gate) {
                Some(message) => clip(&message),
                None => return,
            },
            // It has become whole meanwhile.
            _ => return,
        };
        let pods = store.waiting_pods(&group);
        let last = self.said.insert(group.clone(), (now, message.clone(), pods.len()));
        if last.is_none_or(|(_, said, count)| said != message || count != pods.len()) {
            let mut objects = store.pod_groups(&group);
            // Once true, the condition of a group stays so.
            objects.retain(|object| {
                let name = format!("{}/{}", object.namespace, object.name);
                store.pod_group_scheduled(&name) != Some(true)
            });
            let _ = notes.send(Note::unschedulable(objects, pods, &message));
        }
    }

    fn message(&mut self, scheduler: &Scheduler, group: &str, why: &Shortage, now: Time) -> String {
        let mut message = sentence(why);
        // A placement is not what is missing where quota is.
        if now >= self.not_before && !matches!(why, Shortage::Quota { .. }) {
            let begin = Instant::now();
            self.remedies.remove(group);
            if let Ok(Some(explanation)) = scheduler.explain(group, now) {
                if let Some(remedy) = explanation.remedies.first() {
                    self.remedies.insert(group.to_owned(), remedy.to_string());
                }
                let details = explanation.to_string();
                let details = details.split_once('\n').map_or("", |(_, details)| details);
                message = format!("{message} {}", details.replace("\n  ", " ").replace('\n', "; "));
            }
            self.not_before = now.after(begin.elapsed() * SHARE);
        }
        clip(&message)
    }
}

/// The missing members of a group that is not whole, and the member that is left alone if that is
/// why.
fn gated(store: &Store, gate: &Gate) -> Option<String> {
    match gate {
        Gate::Members { group, have, need } => {
            let lacks = format!("{have} of {need} members of {group} are there.");
            Some(match store.left_alone(group) {
                Some((pod, reason)) => {
                    format!("{lacks} Pod {}/{} is left alone: {reason}.", pod.namespace, pod.name)
                }
                None => match store.quota_in_the_way(group) {
                    Some(reason) => format!("{lacks} {reason}."),
                    None => lacks,
                },
            })
        }
        Gate::Partner { group } => Some(format!("Its partner {group} is not whole.")),
        _ => None,
    }
}

/// A shortage as a sentence for people.
pub fn sentence(shortage: &Shortage) -> String {
    match shortage {
        Shortage::Capacity { requests, needed, available, level, .. } => {
            let place = level.as_ref().map_or(String::new(), |key| format!(" in the best {key}"));
            let requests = requests.iter().map(|(name, amount)| format!("{name} {amount}"));
            let requests: Vec<String> = requests.collect();
            let each = requests.join(", ");
            format!("{needed} pods must fit, and {available} do{place} (each requests {each}).")
        }
        Shortage::Quota { queue, flavor, resource, needed, available, reason } => {
            let why = quota(reason);
            if resource.is_empty() {
                return format!("No quota: queue {queue} does not admit it: {why}.");
            }
            let unit = if resource == "cpu" { "m" } else { "" };
            let flavor = if flavor.is_empty() { "" } else { &format!(" of flavor {flavor}") };
            format!(
                "Too little quota: queue {queue} may have {available}{unit} {resource}{flavor} now, \
                 and the group asks for {needed}{unit}: {why}."
            )
        }
        Shortage::Placement { outcome } => format!("No placement was found ({outcome})."),
        Shortage::Permit { by, reason } => format!("{by} denies it: {reason}."),
        Shortage::Binding { reason } => format!("A binding failed: {reason}."),
        other => format!("{other:?}"),
    }
}

fn quota(reason: &QuotaReason) -> String {
    match reason {
        QuotaReason::Never => "no flavor could ever serve it".to_owned(),
        QuotaReason::Limit { queue } => format!("the limit of {queue} is reached"),
        QuotaReason::UserLimit { queue, limited, limit, resource } => {
            let of = resource.as_deref().unwrap_or("groups at once");
            format!("the limit of {limited} in {queue} is {limit} of {of}")
        }
        QuotaReason::InUse => "the rest is in use".to_owned(),
        QuotaReason::Reclaimable { victims } => {
            format!("{victims} groups would have to give back what they use")
        }
        QuotaReason::PutAside { group } => format!("the rest is put aside for {group}"),
        QuotaReason::Inactive => "it is stopped, or a flavor of it is not there".to_owned(),
        QuotaReason::Refused { reason } => reason.clone(),
        other => format!("{other:?}"),
    }
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(CLIP) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.trim_end().to_owned(),
    }
}
