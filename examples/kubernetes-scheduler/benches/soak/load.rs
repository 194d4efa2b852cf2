//! The load: gangs that come, run for a while and go. It has the part of a Job, which makes pods anew that are
//! gone; of a kubelet, which ends pods that terminate; and of the collector, which ends those on dead nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use crate::support::api::{Api, Failure, IN_FLIGHT};
use crate::support::follow::{News, follow};
use crate::support::objects::{self, Gang};
use crate::support::random::Random;

/// Namespace of all that the load makes.
pub const NAMESPACE: &str = "soak";

/// The class of gangs that are more important.
pub const CLASS: &str = "high";

/// The scheduler's name.
pub const SCHEDULER: &str = "phalanx";

/// Time between looks at the world.
const TICK: Duration = Duration::from_millis(250);

/// A gang as the load wants it.
#[derive(Clone, Debug)]
struct Wanted {
    pods: usize,
    min: usize,
    cpu: u64,
    rack: bool,
    high: bool,
    whole: bool,
    /// How long it runs.
    time: Duration,
    /// How long it has run so far.
    ran: Duration,
}

impl Wanted {
    fn draw(random: &mut Random) -> Self {
        let pods = 2 + random.below(31) as usize;
        Self {
            pods,
            min: if random.below(3) == 0 { pods.div_ceil(2) } else { pods },
            cpu: [1, 2, 4][random.below(3) as usize],
            rack: random.below(2) == 0,
            high: random.below(5) == 0,
            whole: random.below(2) == 0,
            time: Duration::from_secs(10 + random.below(80)),
            ran: Duration::ZERO,
        }
    }

    fn cpus(&self) -> u64 {
        self.pods as u64 * self.cpu
    }

    fn gang<'a>(&self, name: &'a str) -> Gang<'a> {
        Gang {
            name,
            pods: self.pods,
            min: Some(self.min),
            cpu: self.cpu,
            one_rack: self.rack,
            class: self.high.then_some(CLASS),
            whole: self.whole,
            queue: None,
        }
    }
}

/// A pod as it is.
#[derive(Clone, Debug)]
struct Pod {
    uid: String,
    gang: Option<String>,
    node: Option<String>,
    terminating: bool,
}

/// Pods of the namespace, by name.
#[derive(Debug, Default)]
struct World {
    pods: BTreeMap<String, Pod>,
    is_known: bool,
}

impl World {
    fn put(&mut self, object: &Value) {
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let pod = Pod {
            uid: text(&metadata["uid"]).unwrap_or_default(),
            gang: text(&spec["schedulingGroup"]["podGroupName"]),
            node: text(&spec["nodeName"]),
            terminating: !metadata["deletionTimestamp"].is_null(),
        };
        self.pods.insert(text(&metadata["name"]).unwrap_or_default(), pod);
    }

    fn take(&mut self, news: News) {
        match news {
            News::All(objects) => {
                self.pods.clear();
                objects.iter().for_each(|object| self.put(object));
                self.is_known = true;
            }
            News::Put(object) => self.put(&object),
            News::Gone(object) => {
                let metadata = &object["metadata"];
                let name = metadata["name"].as_str().unwrap_or_default();
                if self.pods.get(name).is_some_and(|pod| metadata["uid"] == pod.uid.as_str()) {
                    self.pods.remove(name);
                }
            }
            News::Lost => self.is_known = false,
        }
    }
}

/// The task of the load.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// CPUs of the cluster.
    pub cpus: u64,
    /// How long gangs come.
    pub time: Duration,
    /// How long those that are there then may take to end.
    pub drain: Duration,
}

/// The result: gangs made, gangs that ran to their end, and pods made anew.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub made: usize,
    pub ended: usize,
    pub pods_anew: usize,
}

/// The load and its state.
pub struct Load<'a> {
    api: &'a Api,
    /// Nodes whose pods are lost.
    dead: &'a Mutex<BTreeSet<String>>,
    world: Mutex<World>,
}

impl<'a> Load<'a> {
    pub fn new(api: &'a Api, dead: &'a Mutex<BTreeSet<String>>) -> Self {
        Self { api, dead, world: Mutex::default() }
    }

    /// Gangs come for a time; then those that are there run to their end. `trouble` is over when the time is.
    pub async fn run(
        &self,
        plan: Plan,
        random: &mut Random,
        trouble: impl Future<Output = ()>,
    ) -> Done {
        let path = objects::pods(NAMESPACE);
        let watch = follow(self.api, &path, |news: News| self.world().take(news));
        tokio::select! {
            () = watch => unreachable!("a collection is followed for ever"),
            (done, ()) = async { tokio::join!(self.live(plan, random), trouble) } => done,
        }
    }

    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().expect("the world is whole")
    }

    async fn live(&self, plan: Plan, random: &mut Random) -> Done {
        let begin = Instant::now();
        let mut gangs: BTreeMap<String, Wanted> = BTreeMap::new();
        let mut done = Done::default();
        let mut last = Instant::now();
        loop {
            tokio::time::sleep(TICK).await;
            let passed = std::mem::replace(&mut last, Instant::now()).elapsed();
            let is_over = begin.elapsed() >= plan.time;
            if is_over && (gangs.is_empty() || begin.elapsed() >= plan.time + plan.drain) {
                return done;
            }
            if !self.world().is_known {
                continue;
            }
            self.collect().await;
            let ended = self.age(&mut gangs, passed);
            for name in &ended {
                gangs.remove(name);
                self.end(name).await;
                done.ended += 1;
            }
            // Four of five minutes at 85 % of the cluster, one at a quarter more than it has.
            let minute = begin.elapsed().as_secs() / 60;
            let share = if minute % 5 == 3 { 125 } else { 85 };
            let mut asked: u64 = gangs.values().map(Wanted::cpus).sum();
            let mut new = Vec::new();
            while !is_over && new.len() < 4 && asked < plan.cpus * share / 100 {
                let wanted = Wanted::draw(random);
                asked += wanted.cpus();
                let name = format!("gang-{}", done.made);
                done.made += 1;
                self.api.create(&objects::groups(NAMESPACE), &wanted.gang(&name).group()).await;
                new.push(name.clone());
                gangs.insert(name, wanted);
            }
            let anew = self.fill(&gangs).await;
            let first: usize = new.iter().map(|name| gangs[name].pods).sum();
            done.pods_anew += anew.saturating_sub(first);
        }
    }

    /// Ends pods that terminate and those of dead nodes.
    async fn collect(&self) {
        let dead = self.dead.lock().expect("the nodes are whole").clone();
        let lost = |pod: &Pod| pod.node.as_ref().is_some_and(|node| dead.contains(node));
        let ended: Vec<(String, String)> = {
            let world = self.world();
            let pods = world.pods.iter().filter(|(_, pod)| pod.terminating || lost(pod));
            pods.map(|(name, pod)| (name.clone(), pod.uid.clone())).collect()
        };
        self.delete(&ended).await;
    }

    /// Deletes pods by name and uid: one that is made anew has the name as well.
    async fn delete(&self, pods: &[(String, String)]) {
        stream::iter(pods)
            .for_each_concurrent(IN_FLIGHT, async |(name, uid)| {
                let path = format!("{}/{name}", objects::pods(NAMESPACE));
                let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
                loop {
                    match self.api.send::<Value>(&Method::DELETE, &path, Some(&options)).await {
                        Ok(_) | Err(Failure::Refused(404 | 409, _)) => return,
                        Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                }
            })
            .await;
    }

    /// Counts the time of gangs that run; returns those whose time is over.
    fn age(&self, gangs: &mut BTreeMap<String, Wanted>, passed: Duration) -> Vec<String> {
        let mut bound: BTreeMap<&str, usize> = BTreeMap::new();
        let world = self.world();
        for pod in world.pods.values().filter(|pod| pod.node.is_some() && !pod.terminating) {
            if let Some(gang) = &pod.gang {
                *bound.entry(gang).or_default() += 1;
            }
        }
        let mut ended = Vec::new();
        for (name, gang) in gangs {
            if bound.get(name.as_str()).is_some_and(|bound| *bound >= gang.min) {
                gang.ran += passed;
            }
            if gang.ran >= gang.time {
                ended.push(name.clone());
            }
        }
        ended
    }

    /// The end of a gang: its pods, then the group.
    async fn end(&self, name: &str) {
        let pods: Vec<(String, String)> = {
            let world = self.world();
            let own = world.pods.iter().filter(|(_, pod)| pod.gang.as_deref() == Some(name));
            own.map(|(name, pod)| (name.clone(), pod.uid.clone())).collect()
        };
        self.delete(&pods).await;
        let path = format!("{}/{name}", objects::groups(NAMESPACE));
        // Where kube-controller-manager does not run, nothing else takes the finalizer off.
        self.api.patch(&path, &json!({"metadata": {"finalizers": null}})).await;
        self.api.delete(&path).await;
    }

    /// Makes the pods that are missing; returns their number.
    async fn fill(&self, gangs: &BTreeMap<String, Wanted>) -> usize {
        let missing: Vec<Value> = {
            let world = self.world();
            let all = gangs.iter().flat_map(|(name, wanted)| {
                let gang = wanted.gang(name);
                (0..wanted.pods).map(move |index| (gang, index))
            });
            let missing =
                all.filter(|(gang, index)| !world.pods.contains_key(&gang.pod_name(*index)));
            missing.map(|(gang, index)| gang.pod(index, SCHEDULER)).collect()
        };
        self.api.create_all(&objects::pods(NAMESPACE), &missing).await;
        missing.len()
    }

    /// After all, gangs that take every CPU of the cluster at once: one a rack, of a pod a node. Waits until
    /// all pods are bound, for a time at most.
    pub async fn fill_all(&self, racks: usize, size: usize, time: Duration) -> bool {
        let names: Vec<String> = (0..racks).map(|n| format!("last-{n}")).collect();
        for name in &names {
            let gang = Gang {
                name,
                pods: size,
                cpu: objects::NODE_CPU,
                one_rack: true,
                ..Gang::default()
            };
            self.api.create(&objects::groups(NAMESPACE), &gang.group()).await;
            self.api.create_all(&objects::pods(NAMESPACE), &gang.all_pods(SCHEDULER)).await;
        }
        let begin = Instant::now();
        while begin.elapsed() < time {
            let pods = self.api.list(&objects::pods(NAMESPACE)).await;
            if pods.len() == racks * size
                && pods.iter().all(|pod| pod["spec"]["nodeName"].is_string())
            {
                return true;
            }
            tokio::time::sleep(TICK).await;
        }
        false
    }
}
