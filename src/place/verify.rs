//! Checking certificates, without the planner.
//!
//! What is shared with the planner is what defines a request: which keys confine a group, which
//! nodes make a domain, which pods run. Counting, adding up and searching are done here again, in
//! another way: where the planner backtracks over bins, this collects every reachable state.

mod everything;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use self::everything::Everything;
use super::certificate::{Certificate, Lack, Refusal};
use super::domains::running;
use super::error::PlaceError;
use super::request::Request;
use super::topology::ask::keys;
use super::topology::split::{path_of, split};
use crate::base::Time;
use crate::framework::{Context, Framework, Preparation, Reach};
use crate::model::resources::PODS;
use crate::model::{Pod, PodGroup, PodShape};
use crate::state::{Cluster, NodeView, PodView, Row};

/// What is wrong with a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It speaks of another group.
    #[error("group {0} is not the one asked for")]
    Group(String),
    /// The domains listed are not those that the group may go to.
    #[error("group {0}: the domains listed are not its candidates")]
    Candidates(String),
    /// A domain does not lack what is claimed.
    #[error("group {group}: {domain} does not lack what is claimed")]
    Claim {
        /// The group.
        group: String,
        /// The domain.
        domain: String,
    },
    /// A search is claimed that is too large to be repeated here.
    #[error("group {0}: the search is too large to be repeated")]
    TooLarge(String),
    /// The request makes no sense.
    #[error(transparent)]
    Request(#[from] PlaceError),
}

impl Certificate {
    /// Checks every claim against the cluster: that the domains listed are all there are, that
    /// counts and sums are right and too small, and, where everything is said to have been tried,
    /// that trying everything finds nothing.
    ///
    /// O(nodes · filters · claims), but for claims of a search, which take as long as the search;
    /// those are given up beyond a fixed number of states.
    ///
    /// # Errors
    /// The first flaw.
    pub fn verify<'a>(
        &self,
        cluster: &Cluster,
        framework: &Framework,
        request: impl Into<Request<'a>>,
    ) -> Result<(), Flaw> {
        let request = request.into();
        let group = request.group();
        group.check().map_err(PlaceError::from)?;
        let rows = request.rows(cluster);
        let rows = rows.unwrap_or_else(|| cluster.nodes().map(NodeView::row).collect());
        let check = Check { cluster, framework, now: request.now };
        let mut ask = check.ask(group);
        if group.groups.is_empty() {
            ask.need = ask.need.max(1);
        }
        match self.refusal.too_few {
            Some(claim) => {
                let named = ask.find(&self.refusal.group);
                let named = named.ok_or_else(|| Flaw::Group(self.refusal.group.clone()))?;
                let right = claim == (named.all(), named.need) && claim.0 < claim.1;
                let bare = self.refusal.candidates.is_empty() && !ask.countable();
                let domain = String::from("any domain");
                let group = named.name.clone();
                if right && bare { Ok(()) } else { Err(Flaw::Claim { group, domain }) }
            }
            None => check.refusal(&self.refusal, &ask, &rows),
        }
    }
}

/// A domain: its key, its path, its rows.
type Candidate = (Option<String>, Vec<Option<String>>, Vec<Row>);

/// A group or a slice, read from the request.
#[derive(Clone)]
struct Ask<'a> {
    name: String,
    group: &'a PodGroup,
    keys: Vec<Option<&'a str>>,
    pods: Vec<&'a Pod>,
    inside: Vec<Ask<'a>>,
    weight: u32,
    need: u32,
    slice: bool,
}

impl<'a> Ask<'a> {
    fn all(&self) -> u32 {
        let inside: u32 = self.inside.iter().map(|ask| ask.weight).sum();
        self.pods.len() as u32 + inside
    }

    fn countable(&self) -> bool {
        let can = self.inside.iter().filter(|ask| ask.countable()).map(|ask| ask.weight);
        self.pods.len() as u32 + can.sum::<u32>() >= self.need
    }

    fn find(&self, name: &str) -> Option<&Ask<'a>> {
        if self.name == name {
            return Some(self);
        }
        self.inside.iter().find_map(|ask| ask.find(name))
    }

    /// The least that placing it takes of something.
    fn least(&self, of: &dyn Fn(&Pod) -> i64) -> i64 {
        let each = |ask: &Ask<'a>| ask.least(of) / i64::from(ask.weight.max(1));
        let mut units: Vec<i64> = self.pods.iter().map(|pod| of(pod)).collect();
        for ask in &self.inside {
            units.extend(core::iter::repeat_n(each(ask), ask.weight as usize));
        }
        units.sort_unstable();
        units.iter().take(self.need as usize).fold(0, |sum, unit| sum.saturating_add(*unit))
    }

    /// The pods that must all be placed, with their groups.
    fn required(&self) -> Vec<(&'a PodGroup, &'a Pod)> {
        if self.need < self.all() {
            return Vec::new();
        }
        let own = self.pods.iter().map(|&pod| (self.group, pod));
        own.chain(self.inside.iter().flat_map(Ask::required)).collect()
    }
}

struct Check<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
    now: Time,
}

impl<'a> Check<'a> {
    fn ask(&self, group: &'a PodGroup) -> Ask<'a> {
        let mut ask = Ask {
            name: group.full_name(),
            group,
            keys: keys(self.cluster, group),
            pods: Vec::new(),
            inside: group.groups.iter().map(|inner| self.ask(inner)).collect(),
            weight: 1,
            need: group.policy.minimum(),
            slice: false,
        };
        if group.groups.is_empty() {
            let runs = u32::try_from(running(self.cluster, group)).unwrap_or(u32::MAX);
            ask.need = ask.need.saturating_sub(runs);
            let open = |pod: &&Pod| pod.scheduling_gates.is_empty();
            cut(&mut ask, group.pods.iter().filter(open).collect(), 0);
        }
        ask
    }

    /// The domains an ask may go to within some rows, in order.
    fn candidates(&self, ask: &Ask<'a>, rows: &[Row]) -> Vec<Candidate> {
        let mut found = Vec::new();
        for key in &ask.keys {
            let Some(key) = key else {
                found.push((None, Vec::new(), rows.to_vec()));
                continue;
            };
            let Some(id) = self.cluster.label_key(key) else { continue };
            let mut homes = Vec::new();
            if !ask.slice {
                ask.group.visit(&mut |group| {
                    let name = group.full_name();
                    let nodes = self.cluster.group_pods(&name).filter_map(PodView::node);
                    homes.extend(nodes.map(|node| path_of(self.cluster, node.row(), id)));
                });
            }
            let nodes: Vec<u32> = (0..rows.len() as u32).collect();
            for part in split(self.cluster, rows, &nodes, id) {
                if homes.iter().all(|home| home.as_ref() == Some(&part.path)) {
                    let text = |value| String::from(self.cluster.label_text(value));
                    let path = part.path.iter().map(|value| value.map(text)).collect();
                    let rows = part.nodes.iter().map(|&node| rows[node as usize]).collect();
                    found.push((Some(String::from(*key)), path, rows));
                }
            }
        }
        found
    }

    fn refusal(&self, refusal: &Refusal, ask: &Ask<'a>, rows: &[Row]) -> Result<(), Flaw> {
        if refusal.group != ask.name || refusal.too_few.is_some() {
            return Err(Flaw::Group(refusal.group.clone()));
        }
        let expected = self.candidates(ask, rows);
        let same = expected.len() == refusal.candidates.len()
            && expected
                .iter()
                .zip(&refusal.candidates)
                .all(|((key, path, _), listed)| *key == listed.key && *path == listed.path);
        if !same || ask.need == 0 {
            return Err(Flaw::Candidates(ask.name.clone()));
        }
        for ((_, _, rows), listed) in expected.iter().zip(&refusal.candidates) {
            if !self.lacks(&listed.lack, ask, rows)? {
                return Err(Flaw::Claim { group: ask.name.clone(), domain: listed.name() });
            }
        }
        Ok(())
    }

    fn lacks(&self, lack: &Lack, ask: &Ask<'a>, rows: &[Row]) -> Result<bool, Flaw> {
        Ok(match lack {
            Lack::Room { resource, need, free } => {
                let amount = |pod: &Pod| match resource.as_str() {
                    PODS => i64::from(self.judges_room(pod.shape())),
                    _ if self.judges_room(pod.shape()) => pod.shape().requests.of(resource),
                    _ => 0,
                };
                let there = rows.iter().fold(0_i64, |sum, &row| {
                    sum.saturating_add(self.free(row, resource).max(0).min(if resource == PODS {
                        1 << 30
                    } else {
                        i64::MAX
                    }))
                });
                ask.least(&amount) == *need && there == *free && need > free
            }
            Lack::Count { pod, need, fits } => {
                let required = ask.required();
                let Some((leaf, sample)) = required.iter().find(|(_, other)| other.name == *pod)
                else {
                    return Ok(false);
                };
                let alone = self.reads_group(sample.shape());
                let like = |(group, other): &&(&PodGroup, &Pod)| {
                    other.shape() == sample.shape() && (!alone || core::ptr::eq(*group, *leaf))
                };
                let wanted = required.iter().filter(like).count();
                let there = self.count(leaf, sample.shape(), rows);
                wanted == *need as usize && there == i64::from(*fits) && fits < need
            }
            Lack::Members { need, fits } => {
                let mut kinds: Vec<(&PodShape, i64)> = Vec::new();
                for pod in &ask.pods {
                    match kinds.iter_mut().find(|(shape, _)| *shape == &**pod.shape()) {
                        Some((_, count)) => *count += 1,
                        None => kinds.push((pod.shape(), 1)),
                    }
                }
                let there: i64 = kinds
                    .into_iter()
                    .map(|(shape, count)| count.min(self.count(ask.group, shape, rows)))
                    .sum();
                ask.inside.is_empty()
                    && ask.need == *need
                    && there == i64::from(*fits)
                    && fits < need
            }
            Lack::Groups { need, fits, blocked } => {
                let mut left = ask.all();
                let mut seen = BTreeSet::new();
                for refusal in blocked {
                    let inner = ask.inside.iter().find(|inner| inner.name == refusal.group);
                    let inner = inner.ok_or_else(|| Flaw::Group(refusal.group.clone()))?;
                    if !seen.insert(&inner.name) {
                        return Ok(false);
                    }
                    self.refusal(refusal, inner, rows)?;
                    left -= inner.weight;
                }
                left == *fits && ask.need == *need && fits < need
            }
            Lack::Searched => !Everything::new(self).places(ask, rows)?,
        })
    }

    fn judges_room(&self, shape: &PodShape) -> bool {
        self.framework.filters().iter().any(|filter| filter.declare(shape).room)
    }

    fn reads_group(&self, shape: &PodShape) -> bool {
        self.framework.filters().iter().any(|filter| filter.declare(shape).reads_group)
    }

    fn free(&self, row: Row, resource: &str) -> i64 {
        let Some(node) = self.cluster.view(row) else { return 0 };
        match self.cluster.resource(resource) {
            _ if resource == PODS => node.pod_limit().saturating_sub(node.pod_count()),
            Some(id) => node.free(id),
            None => 0,
        }
    }

    /// At most so many pods of a shape pass the filters that read no more than the node and never
    /// change a "no": none if one does not pass now, else what those filters have room for.
    fn passing(&self, leaf: &PodGroup, shape: &PodShape, row: Row) -> i64 {
        let Some(node) = self.cluster.view(row) else { return 0 };
        let mut room = i64::MAX;
        for filter in self.framework.filters() {
            let declared = filter.declare(shape);
            let lasting = match declared.reach {
                Reach::Static => true,
                Reach::Node => declared.monotone && !declared.room,
                _ => false,
            };
            if !lasting || !declared.counters.is_empty() {
                continue;
            }
            let base = Context { now: self.now, ..Context::new(self.cluster, shape) };
            let cx = Context { group: Some(leaf), ..base };
            let (prepared, within) = match filter.prepare(&cx) {
                Preparation::Ready(prepared) => (prepared, true),
                Preparation::Narrow(prepared, rows) => (prepared, rows.contains(row)),
                Preparation::Reject(_) => return 0,
                _ => continue,
            };
            let cx = Context { prepared: &prepared, ..cx };
            if !within || !filter.filter(&cx, node).passes() {
                return 0;
            }
            room = room.min(filter.room(&cx, node).max(1));
        }
        room
    }

    /// How many pods of a shape fit, each node by itself.
    fn count(&self, leaf: &PodGroup, shape: &PodShape, rows: &[Row]) -> i64 {
        let each = |&row: &Row| {
            let passing = self.passing(leaf, shape, row);
            if passing == 0 {
                return 0;
            }
            if !self.judges_room(shape) {
                return passing.min(1 << 30);
            }
            let pods = self.free(row, PODS);
            let requests = shape.requests.iter().filter(|(_, amount)| *amount > 0);
            requests
                .fold(pods, |least, (name, amount)| least.min(self.free(row, name) / amount))
                .clamp(0, passing)
        };
        rows.iter().map(each).sum()
    }
}

/// Cuts the members of an ask into slices, and those into finer ones.
fn cut<'a>(ask: &mut Ask<'a>, pods: Vec<&'a Pod>, depth: usize) {
    let Some(slice) = ask.group.topology.slices.get(depth) else {
        ask.pods = pods;
        return;
    };
    for (number, chunk) in pods.chunks(slice.size.max(1) as usize).enumerate() {
        let size = chunk.len() as u32;
        let mut inner = Ask {
            name: format!("{}[{number}]", ask.name),
            keys: vec![Some(slice.level.as_str())],
            weight: size,
            need: size,
            slice: true,
            ..ask.clone()
        };
        inner.inside = Vec::new();
        cut(&mut inner, chunk.to_vec(), depth + 1);
        ask.inside.push(inner);
    }
}
