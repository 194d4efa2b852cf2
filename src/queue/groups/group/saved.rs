//! Groups as they are saved.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::QueuedGroup;
use crate::base::{ObjectName, Time};
use crate::framework::Strategy;
use crate::model::{Pod, PodGroup};
use crate::queue::groups::losses::Turn;
use crate::queue::groups::run_time::RunTime;
use crate::queue::groups::{Health, MemberState, Members, Phase};
use crate::queue::terms::ids::{QueueKey, Ticket};
use crate::queue::terms::observe::Waits;
use crate::queue::terms::shortage::Shortage;
use crate::queue::terms::wake::WakeCondition;

/// A group as it is saved: its members and what is known of it; the rest follows from them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::queue) struct SavedGroup {
    pub(in crate::queue) root: PodGroup,
    pub(in crate::queue) name: ObjectName,
    pub(in crate::queue) members: BTreeMap<u64, SavedMember>,
    pub(in crate::queue) phase: Phase,
    #[serde(default)]
    phase_since: Time,
    #[serde(default)]
    waits: Waits,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    health: Health,
    #[serde(default)]
    run_time: RunTime,
    #[serde(default)]
    turn: Turn,
    #[serde(default)]
    ready_since: Option<Time>,
    pub(in crate::queue) key: Option<QueueKey>,
    since: Time,
    attempts: u32,
    conflicts: u32,
    #[serde(default)]
    not_before: Time,
    strategy: Option<Strategy>,
    #[serde(default)]
    wake_on: WakeCondition,
    shortage: Option<Shortage>,
    #[serde(default)]
    searches: u32,
    #[serde(default)]
    claims: u32,
    #[serde(default)]
    no_search_before: Time,
}

/// A member as it is saved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::queue) struct SavedMember {
    leaf: usize,
    pod: Pod,
    state: MemberState,
    #[serde(default)]
    ticket: Option<Ticket>,
}

impl QueuedGroup {
    pub(in crate::queue) fn save(&self) -> SavedGroup {
        let members = self.members.iter().map(|(seq, member)| {
            let (leaf, pod) = (member.leaf(), member.pod().clone());
            let (state, ticket) = (member.state(), member.ticket());
            (*seq, SavedMember { leaf, pod, state, ticket })
        });
        SavedGroup {
            root: self.root.clone(),
            name: self.name.clone(),
            members: members.collect(),
            phase: self.phase.clone(),
            phase_since: self.phase_since,
            waits: self.waits,
            paused: self.paused,
            health: self.health,
            run_time: self.run_time,
            turn: self.turn,
            ready_since: self.ready_since,
            key: self.key.clone(),
            since: self.since,
            attempts: self.attempts,
            conflicts: self.conflicts,
            not_before: self.not_before,
            strategy: self.strategy,
            wake_on: self.wake_on.clone(),
            shortage: self.shortage.clone(),
            searches: self.searches,
            claims: self.claims,
            no_search_before: self.no_search_before,
        }
    }

    /// A group that continues from a save. Whether members are on nodes is to be read.
    pub(in crate::queue) fn restore(saved: SavedGroup) -> QueuedGroup {
        let mut leaves: Vec<String> = Vec::new();
        saved.root.visit(&mut |group| {
            if group.groups.is_empty() {
                leaves.push(group.full_name().into());
            }
        });
        let mut members = Members::default();
        for (seq, member) in saved.members {
            members.restore(seq, member.leaf, member.pod, (member.state, member.ticket));
        }
        QueuedGroup {
            root: saved.root,
            name: saved.name,
            leaves,
            members,
            phase: saved.phase,
            phase_since: saved.phase_since,
            waits: saved.waits,
            paused: saved.paused,
            health: saved.health,
            run_time: saved.run_time,
            turn: saved.turn,
            ready_since: saved.ready_since,
            key: saved.key,
            since: saved.since,
            attempts: saved.attempts,
            conflicts: saved.conflicts,
            not_before: saved.not_before,
            strategy: saved.strategy,
            wake_on: saved.wake_on,
            shortage: saved.shortage,
            searches: saved.searches,
            claims: saved.claims,
            no_search_before: saved.no_search_before,
        }
    }
}
