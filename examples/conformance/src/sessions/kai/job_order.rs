//! The tree of queues whose heads are jobs: pops the job whose turn it is.
//!
//! Queues are compared again only when they come to the head of their siblings: until then they
//! stand where they stood when they, or their siblings, were last moved. So this is a binary heap
//! with the steps of Go's `container/heap`, since what it gives depends on them.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::chunk::{Entry, chunk};
use super::state::State;
use super::world::World;
use phalanx::quota::kai::{
    Contender, ElasticState, KaiJobStanding, KaiQuantities, elastic_state, job_order,
};

/// A queue in the tree.
#[derive(Debug, Default)]
struct QueueNode {
    queue: usize,
    parent: Option<usize>,
    is_leaf: bool,
    /// Nodes, or entries of a leaf, as a heap.
    children: Vec<usize>,
    moved: bool,
}

/// The tree.
#[derive(Debug)]
pub(super) struct JobOrder {
    nodes: Vec<QueueNode>,
    by_queue: BTreeMap<usize, usize>,
    entries: Vec<Entry>,
    /// Whether the last in order goes first.
    victims: bool,
    /// By leaf: what was held by entries that were popped.
    popped: BTreeMap<usize, Vec<KaiQuantities>>,
}

/// The node above the top queues.
const TOP: usize = 0;

impl JobOrder {
    /// A tree of some jobs; those whose queue takes none are left out.
    pub(super) fn new(world: &World, state: &State, jobs: Vec<Entry>, victims: bool) -> JobOrder {
        let mut order = JobOrder {
            nodes: std::vec![QueueNode::default()],
            by_queue: BTreeMap::new(),
            entries: Vec::new(),
            victims,
            popped: BTreeMap::new(),
        };
        // Leaves are full before they are compared.
        let mut leaves: Vec<usize> = Vec::new();
        for entry in jobs {
            let Some(queue) = state.queues[entry.job] else { continue };
            let known = order.by_queue.get(&queue).copied();
            let leaf = known.unwrap_or_else(|| order.add_node(queue, true));
            if known.is_none() {
                leaves.push(leaf);
            }
            order.entries.push(entry);
            order.push(world, state, leaf, order.entries.len() - 1);
        }
        leaves.sort_by_key(|&leaf| order.nodes[leaf].queue);
        // Depth first, so that a queue has children before it is compared.
        for leaf in leaves {
            order.make_chain(state, leaf);
        }
        let mut nodes: Vec<usize> = (1..order.nodes.len()).collect();
        let depth = |order: &JobOrder, at: usize| state.shares.path(order.nodes[at].queue).count();
        nodes.sort_by_key(|&at| (core::cmp::Reverse(depth(&order, at)), order.nodes[at].queue));
        for at in nodes {
            let parent = order.nodes[at].parent.unwrap_or(TOP);
            order.push(world, state, parent, at);
        }
        order
    }

    fn add_node(&mut self, queue: usize, is_leaf: bool) -> usize {
        self.nodes.push(QueueNode { queue, is_leaf, ..QueueNode::default() });
        self.by_queue.insert(queue, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Makes the nodes above a leaf, without entering them; the nodes that are new.
    fn make_chain(&mut self, state: &State, leaf: usize) -> Vec<usize> {
        let mut at = leaf;
        let mut new = std::vec![leaf];
        loop {
            let Some(above) = state.shares.queues[self.nodes[at].queue].parent else {
                self.nodes[at].parent = Some(TOP);
                return new;
            };
            if let Some(&parent) = self.by_queue.get(&above) {
                self.nodes[at].parent = Some(parent);
                return new;
            }
            let parent = self.add_node(above, false);
            self.nodes[at].parent = Some(parent);
            new.push(parent);
            at = parent;
        }
    }

    /// The entry whose turn it is.
    pub(super) fn pop(&mut self, world: &World, state: &State) -> Option<Entry> {
        let mut at = TOP;
        while !self.nodes[at].is_leaf {
            let head = *self.nodes[at].children.first()?;
            if self.nodes[head].moved {
                self.fix(world, state, at);
                self.nodes[head].moved = false;
            } else {
                at = head;
            }
        }
        let entry = self.take(world, state, at)?;
        let entry = self.entries[entry].clone();
        if self.victims {
            let held = state.held(world, entry.job, &entry.pods);
            self.popped.entry(self.nodes[at].queue).or_default().push(held);
        }
        // What is empty leaves; it is the head of its siblings.
        loop {
            let parent = self.nodes[at].parent;
            if !self.nodes[at].children.is_empty() {
                self.mark(at);
                break;
            }
            let Some(parent) = parent else { break };
            self.by_queue.remove(&self.nodes[at].queue);
            self.take(world, state, parent);
            if parent == TOP {
                break;
            }
            at = parent;
        }
        Some(entry)
    }

    /// Adds an entry.
    pub(super) fn insert(&mut self, world: &World, state: &State, entry: Entry) {
        let Some(queue) = state.queues[entry.job] else { return };
        self.entries.push(entry);
        let entry = self.entries.len() - 1;
        let known = self.by_queue.get(&queue).copied();
        let leaf = known.unwrap_or_else(|| self.add_node(queue, true));
        self.push(world, state, leaf, entry);
        if known.is_none() {
            for at in self.make_chain(state, leaf) {
                let parent = self.nodes[at].parent.unwrap_or(TOP);
                self.push(world, state, parent, at);
            }
        }
        self.mark(leaf);
    }

    fn mark(&mut self, mut at: usize) {
        loop {
            self.nodes[at].moved = true;
            match self.nodes[at].parent {
                Some(parent) if parent != TOP => at = parent,
                _ => return,
            }
        }
    }

    fn push(&mut self, world: &World, state: &State, at: usize, child: usize) {
        let mut heap = std::mem::take(&mut self.nodes[at].children);
        heap.push(child);
        let mut place = heap.len() - 1;
        while place > 0 {
            let above = (place - 1) / 2;
            if !self.less(world, state, at, heap[place], heap[above]) {
                break;
            }
            heap.swap(place, above);
            place = above;
        }
        self.nodes[at].children = heap;
    }

    /// Takes the head.
    fn take(&mut self, world: &World, state: &State, at: usize) -> Option<usize> {
        let mut heap = std::mem::take(&mut self.nodes[at].children);
        let last = heap.len().checked_sub(1)?;
        heap.swap(0, last);
        let head = heap.pop();
        self.sink(world, state, at, &mut heap);
        self.nodes[at].children = heap;
        head
    }

    fn fix(&mut self, world: &World, state: &State, at: usize) {
        let mut heap = std::mem::take(&mut self.nodes[at].children);
        self.sink(world, state, at, &mut heap);
        self.nodes[at].children = heap;
    }

    fn sink(&mut self, world: &World, state: &State, at: usize, heap: &mut [usize]) {
        let mut place = 0;
        loop {
            let left = 2 * place + 1;
            if left >= heap.len() {
                return;
            }
            let right = left + 1;
            let other = right < heap.len() && self.less(world, state, at, heap[right], heap[left]);
            let child = if other { right } else { left };
            if !self.less(world, state, at, heap[child], heap[place]) {
                return;
            }
            heap.swap(place, child);
            place = child;
        }
    }

    fn less(&mut self, world: &World, state: &State, at: usize, a: usize, b: usize) -> bool {
        if self.nodes[at].is_leaf {
            let order = job_order(&self.standing(world, state, a), &self.standing(world, state, b));
            return order.is_lt() != self.victims;
        }
        for (node, answer) in [(a, !self.victims), (b, self.victims)] {
            if self.nodes[node].children.is_empty() {
                return answer;
            }
        }
        let (one, other) = (self.contender(world, state, a), self.contender(world, state, b));
        let order = if world.rules.has("proportion") {
            state.shares.compare(&one, &other)
        } else {
            let key = |side: &Contender| {
                let spec = &state.shares.queues[side.queue];
                (spec.created, &spec.name)
            };
            key(&one).cmp(&key(&other))
        };
        order.is_lt() != self.victims
    }

    fn standing<'a>(&self, world: &'a World, state: &State, entry: usize) -> KaiJobStanding<'a> {
        let Entry { job, pods, minima } = &self.entries[entry];
        let spec = &world.jobs[*job];
        let sets = state.pod_sets(world, *job, pods, minima.as_ref());
        KaiJobStanding {
            priority: if world.rules.has("priority") { spec.priority } else { 0 },
            elastic: if world.rules.has("elastic") {
                elastic_state(sets)
            } else {
                ElasticState::At
            },
            since: spec.since,
            name: &spec.name,
        }
    }

    /// A queue with what its best job asks for; looking for it moves the queues below.
    fn contender(&mut self, world: &World, state: &State, node: usize) -> Contender {
        let mut path = Vec::new();
        let mut at = node;
        while !self.nodes[at].is_leaf {
            let Some(best) = self.take(world, state, at) else { break };
            path.push((at, best));
            at = best;
        }
        let mut contender = Contender { queue: self.nodes[node].queue, ..Contender::default() };
        if let Some(&entry) = self.nodes[at].children.first() {
            let entry = &self.entries[entry];
            if self.victims {
                let mut taken = state.held(world, entry.job, &entry.pods);
                for held in self.popped.get(&self.nodes[at].queue).into_iter().flatten() {
                    for (own, amount) in taken.iter_mut().zip(held) {
                        *own += amount;
                    }
                }
                contender.taken = taken;
            } else {
                let pods = chunk(world, state, entry, false);
                contender.request = state.requests(world, entry.job, &pods);
            }
        }
        for (at, best) in path.into_iter().rev() {
            self.push(world, state, at, best);
        }
        contender
    }
}
