//! Autoscaling in the loop: nodes that are bought for what waits, come after a delay, and go when idle.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::autoscale::{Autoscaler, NodeTemplate, ScaleUpRequest};
use phalanx::simulate::{Binding, Faults, NodeChange, World};
use phalanx::{Cluster, Node, Plan, Scheduler, Time};
use serde_json::Value;

/// Nodes bought one after another that go again without a pod, after which no more are bought.
const IN_VAIN: usize = 100;
/// Thousandths of a price.
const THOUSANDTHS: f64 = 1_000.0;

/// Nodes of one kind that can be bought.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pool {
    gpus: u32,
    device: String,
    /// The most at a time.
    most: u32,
    /// From the order until the node is there.
    delay: Duration,
    /// The price of a node for an hour.
    price: f64,
}

impl Pool {
    fn kind(&self, index: usize) -> Kind<'_> {
        Kind { pool: index, gpus: self.gpus, device: &self.device }
    }
}

/// A bought node's kind. Nodes of a pool share a rack of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind<'a> {
    pub(crate) pool: usize,
    pub(crate) gpus: u32,
    pub(crate) device: &'a str,
}

/// The nodes that can be bought, and when they go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pools {
    kinds: Vec<Pool>,
    /// The least time between two looks at what waits.
    every: Duration,
    /// How long a bought node stays without a pod.
    idle: Duration,
}

impl Pools {
    /// Reads `{"every": S, "idle": S, "pools": [{"gpus", "most", "delay", "price", "device"}]}`.
    pub(crate) fn read(value: &Value) -> Result<Pools, String> {
        let map = value.as_object().ok_or("is no object")?;
        let known = |keys: &[&str], map: &serde_json::Map<String, Value>| match map
            .keys()
            .find(|key| !keys.contains(&key.as_str()))
        {
            Some(key) => Err(format!("{key:?} is not known")),
            None => Ok(()),
        };
        known(&["every", "idle", "pools"], map)?;
        let number = |map: &serde_json::Map<String, Value>, key: &str, default: Option<f64>| {
            let found = map.get(key).map_or(default, Value::as_f64);
            found
                .filter(|number| (0.0..=1e9).contains(number))
                .ok_or_else(|| format!("{key}: is a number from 0 to 1e9"))
        };
        let list = map.get("pools").and_then(Value::as_array);
        let list = list.filter(|list| !list.is_empty()).ok_or("pools: is a list of them")?;
        let pool = |value: &Value| {
            let map = value.as_object().ok_or("a pool is an object")?;
            known(&["gpus", "most", "delay", "price", "device"], map)?;
            let device = map.get("device").map_or(Some(""), Value::as_str);
            Ok(Pool {
                gpus: number(map, "gpus", Some(8.0))?.max(1.0) as u32,
                device: device.ok_or("device: is a text")?.to_string(),
                most: number(map, "most", None)?.min(1e5) as u32,
                delay: Duration::from_secs_f64(number(map, "delay", Some(0.0))?),
                price: number(map, "price", Some(0.0))?,
            })
        };
        let pools: Result<Vec<Pool>, String> = list.iter().map(pool).collect();
        let span = |key, default| number(map, key, Some(default)).map(Duration::from_secs_f64);
        Ok(Pools { kinds: pools?, every: span("every", 60.0)?, idle: span("idle", 600.0)? })
    }

    /// The kinds of all nodes that can be there at a time.
    pub(crate) fn all(&self) -> impl Iterator<Item = Kind<'_>> {
        let kinds = self.kinds.iter().enumerate();
        kinds.flat_map(|(index, pool)| (0..pool.most).map(move |_| pool.kind(index)))
    }

    /// How many GPUs they have.
    pub(crate) fn gpus(&self) -> i64 {
        self.kinds.iter().map(|pool| i64::from(pool.most) * i64::from(pool.gpus)).sum()
    }

    /// How many nodes there can be at a time.
    pub(crate) fn largest(&self) -> u32 {
        self.kinds.iter().map(|pool| pool.most).fold(0, u32::saturating_add)
    }
}

/// The nodes that were bought.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bought {
    pub(crate) nodes: usize,
    pub(crate) node_hours: f64,
    pub(crate) gpu_seconds: f64,
    pub(crate) cost: f64,
    /// The autoscaler's refusal to answer, if there was one.
    pub(crate) failed: Option<String>,
}

/// A bought node.
#[derive(Debug, Clone)]
struct Owned {
    node: Node,
    pool: usize,
    /// When it comes, or came.
    from: Time,
    idle_since: Option<Time>,
    is_there: bool,
    was_used: bool,
}

impl Bought {
    /// Counts a node from when it came until now.
    fn pay(&mut self, owned: &Owned, pool: &Pool, now: Time) {
        let hours = now.since(owned.from).as_secs_f64() / 3_600.0;
        self.node_hours += hours;
        self.gpu_seconds += hours * 3_600.0 * f64::from(pool.gpus);
        self.cost += hours * pool.price;
    }
}

/// Makes a node from its number and kind.
type Make = Box<dyn Fn(usize, Kind<'_>) -> Node>;

/// Faults, and nodes that come and go with what waits.
pub(crate) struct Scaling {
    faults: Faults,
    pools: Option<Rc<Pools>>,
    make: Make,
    autoscaler: Autoscaler,
    owned: Vec<Owned>,
    /// The number of the next node.
    next: usize,
    looked: Option<Time>,
    in_vain: usize,
    bought: Rc<RefCell<Bought>>,
    now: Time,
}

impl Scaling {
    /// A world with faults, in which nodes can be bought. `make` makes a node from its number and kind;
    /// `next` is the first number.
    pub(crate) fn new(
        faults: Faults,
        pools: Option<Pools>,
        next: usize,
        make: impl Fn(usize, Kind<'_>) -> Node + 'static,
    ) -> Scaling {
        Scaling {
            faults,
            pools: pools.map(Rc::new),
            make: Box::new(make),
            autoscaler: Autoscaler::new(),
            owned: Vec::new(),
            next,
            looked: None,
            in_vain: 0,
            bought: Rc::default(),
            now: Time::ZERO,
        }
    }

    /// The sums of all that is bought, also after the world is given away.
    pub(crate) fn bought(&self) -> Rc<RefCell<Bought>> {
        Rc::clone(&self.bought)
    }

    /// Notices which nodes have come, gone, and are idle; and counts what those cost that have gone.
    fn follow(&mut self, cluster: &Cluster, pools: &Pools, now: Time) {
        for owned in &mut self.owned {
            owned.is_there |= cluster.node(&owned.node.name).is_some();
        }
        // Nodes that are there may wait for the others, to start a gang together.
        let more_to_come = self.owned.iter().any(|owned| !owned.is_there);
        for owned in &mut self.owned {
            let node = cluster.node(&owned.node.name);
            let is_used = node.is_some_and(|node| node.pods().next().is_some());
            owned.was_used |= is_used;
            if is_used || more_to_come {
                owned.idle_since = None;
            } else if owned.is_there {
                owned.idle_since.get_or_insert(now);
            }
        }
        let mut bought = self.bought.borrow_mut();
        let in_vain = &mut self.in_vain;
        self.owned.retain(|owned| {
            let has_gone = owned.is_there && cluster.node(&owned.node.name).is_none();
            if has_gone {
                bought.pay(owned, &pools.kinds[owned.pool], now);
                *in_vain = if owned.was_used { 0 } else { *in_vain + 1 };
            }
            !has_gone
        });
    }

    /// Orders the cheapest nodes with which what waits starts: all of it, or as much of the front of the
    /// line as the pools have nodes for.
    fn order(&mut self, scheduler: &Scheduler, pools: &Pools, now: Time) {
        let needs = scheduler.needs(now);
        if needs.is_empty() {
            return;
        }
        self.looked = Some(now);
        // Nodes on their way count as there.
        let mut cluster = scheduler.cluster().clone();
        for owned in self.owned.iter().filter(|owned| !owned.is_there) {
            let _ = cluster.add_node(owned.node.clone());
        }
        let templates: Vec<NodeTemplate> = pools
            .kinds
            .iter()
            .enumerate()
            .map(|(index, pool)| {
                let mut node = (self.make)(self.next, pool.kind(index));
                node.name = format!("pool-{index}-{}", self.next);
                let have = self.owned.iter().filter(|owned| owned.pool == index).count() as u32;
                let price = (pool.price * THOUSANDTHS).round() as u64;
                NodeTemplate::new(node, price.max(1)).limit(pool.most.saturating_sub(have))
            })
            .collect();
        let mut count = needs.len();
        while count > 0 {
            let request = ScaleUpRequest::new(needs[..count].iter().cloned());
            let request = request.templates(templates.iter().cloned()).max_nodes(pools.largest());
            let answer = self.autoscaler.scale_up(&cluster, scheduler.framework(), request);
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    let failed = format!("--autoscale: {error}");
                    self.bought.borrow_mut().failed.get_or_insert(failed);
                    return;
                }
            };
            let Some(start) = answer.start() else {
                count /= 2;
                continue;
            };
            for block in &start.blocks {
                let pool = templates.iter().position(|own| own.name() == block.template);
                let Some(pool) = pool else { continue };
                for _ in &block.nodes {
                    let kind = &pools.kinds[pool];
                    let node = (self.make)(self.next, kind.kind(pool));
                    self.next += 1;
                    self.bought.borrow_mut().nodes += 1;
                    self.owned.push(Owned {
                        node,
                        pool,
                        from: now.after(kind.delay),
                        idle_since: None,
                        is_there: false,
                        was_used: false,
                    });
                }
            }
            return;
        }
    }
}

impl World for Scaling {
    fn bind(&mut self, plan: &Plan, now: Time) -> Binding {
        self.faults.bind(plan, now)
    }

    fn next_node_change(&mut self) -> Option<(Time, NodeChange)> {
        self.faults.next_node_change()
    }

    fn react(&mut self, scheduler: &Scheduler, now: Time) -> Vec<(Time, NodeChange)> {
        let Some(pools) = self.pools.clone() else { return Vec::new() };
        self.now = now;
        self.follow(scheduler.cluster(), &pools, now);
        let may_look = self.looked.is_none_or(|looked| now >= looked.after(pools.every));
        if may_look && self.in_vain < IN_VAIN {
            self.order(scheduler, &pools, now);
        }
        let change = |owned: &Owned| {
            if !owned.is_there {
                return Some((owned.from.max(now), NodeChange::Up(owned.node.clone())));
            }
            let since = owned.idle_since?;
            Some((since.after(pools.idle), NodeChange::Down(owned.node.name.clone())))
        };
        self.owned.iter().filter_map(change).collect()
    }
}

impl Drop for Scaling {
    /// Nodes that are there at the end are paid for until then.
    fn drop(&mut self) {
        let Some(pools) = &self.pools else { return };
        let mut bought = self.bought.borrow_mut();
        for owned in self.owned.iter().filter(|owned| owned.is_there) {
            bought.pay(owned, &pools.kinds[owned.pool], self.now);
        }
    }
}
