//! Small worlds of claims, and all ways to allocate them.

/// A device: what may be asked of it.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    pub(super) model: usize,
    pub(super) island: usize,
    /// Its use of the counter of its node.
    pub(super) parts: i64,
    /// Its memory, if it has any, and whether several may have parts of that.
    pub(super) memory: Option<i64>,
    pub(super) is_shared: bool,
}

/// Alternatives of one request: how many devices, of which model if any, and how much memory of each;
/// all of it, if that is not said.
pub(super) type Ask = Vec<(usize, Option<usize>, Option<i64>)>;

#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) requests: Vec<Ask>,
    /// Whether all devices are to be of one island.
    pub(super) same: bool,
}

#[derive(Debug, Clone)]
pub(super) struct World {
    /// Devices of each node.
    pub(super) nodes: Vec<Vec<Gpu>>,
    /// The counter of each node.
    pub(super) counter: i64,
    /// Pods that a node takes.
    pub(super) slots: usize,
    pub(super) claims: Vec<Claim>,
    /// The claims of each pod.
    pub(super) pods: Vec<Vec<usize>>,
}

impl World {
    /// The nodes of every other number alone.
    pub(super) fn rack(&self, rack: usize) -> World {
        let nodes = self.nodes.iter().skip(rack).step_by(2).cloned().collect();
        World { nodes, ..self.clone() }
    }
}

/// Devices and counters taken so far.
struct Taken<'a> {
    world: &'a World,
    used: Vec<Vec<bool>>,
    memory: Vec<Vec<i64>>,
    left: Vec<i64>,
    pods: Vec<usize>,
    /// The node of each claim that has its devices.
    homes: Vec<Option<usize>>,
}

/// Whether all pods can have a node with the devices of their claims.
pub(super) fn fits(world: &World) -> bool {
    let memory =
        world.nodes.iter().map(|node| node.iter().map(|gpu| gpu.memory.unwrap_or(0)).collect());
    let mut taken = Taken {
        world,
        used: world.nodes.iter().map(|node| vec![false; node.len()]).collect(),
        memory: memory.collect(),
        left: vec![world.counter; world.nodes.len()],
        pods: vec![0; world.nodes.len()],
        homes: vec![None; world.claims.len()],
    };
    taken.pod(0)
}

impl Taken<'_> {
    fn pod(&mut self, pod: usize) -> bool {
        if pod == self.world.pods.len() {
            return true;
        }
        (0..self.world.nodes.len()).any(|node| {
            if self.pods[node] == self.world.slots {
                return false;
            }
            self.pods[node] += 1;
            let found = self.claim(pod, 0, node);
            self.pods[node] -= 1;
            found
        })
    }

    fn claim(&mut self, pod: usize, at: usize, node: usize) -> bool {
        let Some(&claim) = self.world.pods[pod].get(at) else { return self.pod(pod + 1) };
        match self.homes[claim] {
            Some(home) => home == node && self.claim(pod, at + 1, node),
            None => {
                self.homes[claim] = Some(node);
                let found = self.request((pod, at, node), 0, &mut Vec::new());
                self.homes[claim] = None;
                found
            }
        }
    }

    fn request(
        &mut self,
        place: (usize, usize, usize),
        request: usize,
        own: &mut Vec<usize>,
    ) -> bool {
        let (pod, at, node) = place;
        let world = self.world;
        let claim = &world.claims[world.pods[pod][at]];
        let Some(ask) = claim.requests.get(request) else {
            let mut islands = own.iter().map(|gpu| world.nodes[node][*gpu].island);
            let first = islands.next();
            let same = islands.all(|island| Some(island) == first);
            return (!claim.same || same) && self.claim(pod, at + 1, node);
        };
        ask.iter().any(|&(count, model, memory)| {
            let before = own.len();
            self.devices(place, request, (count, model, memory), (before, 0), own)
        })
    }

    fn devices(
        &mut self,
        place: (usize, usize, usize),
        request: usize,
        (count, model, memory): (usize, Option<usize>, Option<i64>),
        (before, from): (usize, usize),
        own: &mut Vec<usize>,
    ) -> bool {
        if own.len() - before == count {
            return self.request(place, request + 1, own);
        }
        let node = place.2;
        for gpu in from..self.world.nodes[node].len() {
            let device = &self.world.nodes[node][gpu];
            let (parts, is_shared) = (device.parts, device.is_shared);
            let suits = model.is_none_or(|model| model == device.model)
                && (memory.is_none() || device.memory.is_some());
            let takes = memory.or(device.memory).unwrap_or(0);
            let is_full = self.left[node] < parts || self.memory[node][gpu] < takes;
            if !suits || self.used[node][gpu] || is_full {
                continue;
            }
            self.used[node][gpu] = !is_shared;
            self.left[node] -= parts;
            self.memory[node][gpu] -= takes;
            own.push(gpu);
            let found =
                self.devices(place, request, (count, model, memory), (before, gpu + 1), own);
            own.pop();
            self.left[node] += parts;
            self.memory[node][gpu] += takes;
            self.used[node][gpu] = false;
            if found {
                return true;
            }
        }
        false
    }
}
