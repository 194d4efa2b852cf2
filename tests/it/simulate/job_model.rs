//! Run times that depend on the place, checkpoints, elastic jobs, dependencies, users, and outages of
//! racks: by hand, and against a plain model of the progress of jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::model::{Device, DeviceRequest};
use phalanx::plugins::{DeviceFit, Fit};
use phalanx::queue::{Elastic, PreemptionSettings, Settings};
use phalanx::simulate::{
    Checkpointing, Faults, Happening, Job, NodeChange, Random, Rate, RateTable, Results, Running,
    Simulation, Users, World,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Time};

use super::world::{GPU, cluster, framework, node};

fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn gang(name: &str, minimum: u32, pods: usize) -> PodGroup {
    PodGroup::gang(name, minimum).pods(pods, Pod::new().request(GPU, 8))
}

fn job(name: &str, submit: u64, nodes: usize, run: u64) -> Job {
    Job::new(gang(name, nodes as u32, nodes), Time::from_secs(submit), secs(run))
}

fn simulation<'a>(nodes: usize, settings: Settings) -> Simulation<'a> {
    Simulation::new(Scheduler::new(cluster(nodes), framework(), settings), GPU)
}

fn ends(results: &Results) -> Vec<Option<u64>> {
    results.jobs.iter().map(|job| Some(job.end?.as_secs())).collect()
}

fn every(every: u64, save: u64, restart: u64) -> Checkpointing {
    Checkpointing::new(secs(every), secs(save), secs(restart))
}

/// Changes of nodes at given seconds, the first first.
struct Script(Vec<(u64, NodeChange)>);

impl World for Script {
    fn next_node_change(&mut self) -> Option<(Time, NodeChange)> {
        let next = (!self.0.is_empty()).then(|| self.0.remove(0))?;
        Some((Time::from_secs(next.0), next.1))
    }
}

fn fails(index: usize, down: u64, up: u64) -> Script {
    let name = node(index).name.clone();
    Script(vec![(down, NodeChange::Down(name)), (up, NodeChange::Up(node(index)))])
}

#[test]
fn a_job_beyond_its_rack_takes_longer_and_the_slowest_device_decides() {
    let rates = RateTable::new()
        .level("kubernetes.io/hostname", Rate::percent(200))
        .level("rack", Rate::ONE)
        .beyond(Rate::percent(80));
    // Four nodes a rack: the gang of five has two racks, that of four one, that of one a node.
    let run = |size, rates| {
        let results = simulation(8, Settings::new()).run_times(rates);
        results.run([job("a", 0, size, 400)], |_, _| ()).unwrap()
    };
    for (size, end, rate) in [(1, 200, 2.0), (4, 400, 1.0), (5, 500, 0.8)] {
        let results = run(size, rates.clone());
        assert_eq!((ends(&results), results.summary().mean_rate), (vec![Some(end)], rate));
        assert_eq!(results.jobs[0].worked, secs(400));
    }
    let by_rack = RateTable::new().device_label("rack").device("r1", Rate::percent(25));
    assert_eq!(ends(&run(4, by_rack.clone())), [Some(400)]);
    assert_eq!(ends(&run(5, by_rack.clone())), [Some(1_600)]);
    // A factor of the job's own model takes the place of that of the device.
    let own = by_rack.throughput("bert", "r1", Rate::percent(50));
    let results = simulation(8, Settings::new()).run_times(own);
    let results = results.run([job("a", 0, 5, 400).model("bert")], |_, _| ()).unwrap();
    assert_eq!(ends(&results), [Some(800)]);
    // A job that makes no progress never ends, and does not keep the simulation running.
    let results = simulation(8, Settings::new()).run_times(|_: &Running<'_>| Rate::ZERO);
    let jobs = [job("a", 0, 1, 400).checkpoint(every(10, 1, 1)), job("b", 1, 8, 1)];
    assert_eq!(ends(&results.run(jobs, |_, _| ()).unwrap()), [None, None]);
}

#[test]
fn work_goes_back_to_the_last_checkpoint() {
    // 30 s of work, 5 s to save: a job of 100 s saves three times and ends at 115 s.
    let saving = || job("a", 0, 1, 100).checkpoint(every(30, 5, 7));
    let run = |job: Job, world: Script| {
        let simulation = simulation(1, Settings::new()).world(world);
        simulation.run([job], |_, _| ()).unwrap()
    };
    let results = run(saving(), Script(Vec::new()));
    assert_eq!((ends(&results), results.jobs[0].overhead), (vec![Some(115)], secs(15)));
    // The node fails at 80 s, 10 s into the third stretch: 60 s are safe since 70 s. Back at 100 s it
    // loads for 7 s, works 30 s, saves for 5 s, and works the last 10 s.
    let results = run(saving(), fails(0, 80, 100));
    let record = &results.jobs[0];
    assert_eq!(ends(&results), [Some(100 + 7 + 30 + 5 + 10)]);
    assert_eq!((record.lost, record.kept, record.restarts), (secs(10), secs(70), 1));
    assert_eq!((record.overhead, record.wait()), (secs(5 + 5 + 7 + 5), Some(secs(20))));
    assert_eq!(record.ran(), Some(secs(70 + 52)));
    let (work, lost) = (8.0 * 122.0, 8.0 * 10.0);
    assert_eq!(results.summary().work_lost, lost);
    assert_eq!(results.summary().utilisation, work / (8.0 * (152.0 - 20.0)));
    // While it saves, nothing new is safe yet; without a checkpoint nothing is loaded.
    let results = run(saving(), fails(0, 33, 40));
    assert_eq!((ends(&results), results.jobs[0].lost), (vec![Some(40 + 115)], secs(33)));
    // No checkpoint is made at the end, and none of zero seconds.
    let exact = job("a", 0, 1, 60).checkpoint(every(30, 5, 7));
    assert_eq!(ends(&run(exact, Script(Vec::new()))), [Some(65)]);
    let never = job("a", 0, 1, 60).checkpoint(every(0, 5, 7));
    assert_eq!(ends(&run(never, Script(Vec::new()))), [Some(60)]);
}

#[test]
fn an_elastic_job_goes_on_with_fewer_members_at_their_rate() {
    let elastic = |name: &str, submit, minimum, size, run| {
        Job::new(gang(name, minimum, size), Time::from_secs(submit), secs(run)).elastic()
    };
    // Four of eight members run for 100 s beside another job, then all: 50 s of work, and 50 more.
    let jobs = [job("first", 0, 4, 100), elastic("e", 1, 2, 8, 100)];
    let mut sizes = Vec::new();
    let results = simulation(8, Settings::new()).run_times(RateTable::new());
    let results = results.run(jobs.clone(), |now, what| {
        if let Happening::Resized(job, members) = what {
            sizes.push((now.as_secs(), job, members));
        }
    });
    let results = results.unwrap();
    // From 1 s to 100 s at half speed, which leaves 50.5 s.
    assert_eq!(results.jobs[1].end, Some(Time::from_millis(150_500)));
    assert_eq!(sizes, [(100, 1, 8)]);
    // What it used: four nodes, then eight.
    let used = 4.0 * 100.0 + 4.0 * 99.0 + 8.0 * 50.5;
    assert_eq!(results.summary().utilisation, used / (8.0 * 150.5));
    // By a table: four members have three quarters of the speed of eight, 74.25 s of work by 100 s.
    let half = [30, 50, 65, 75, 80, 85, 95, 100].map(Rate::percent);
    let results = simulation(8, Settings::new()).run_times(RateTable::new().members("", half));
    let results = results.run(jobs, |_, _| ()).unwrap();
    assert_eq!(results.jobs[1].end, Some(Time::from_millis(125_750)));

    // A node fails: the rest falls back to the last checkpoint, and the member is placed again when
    // the node is back. 40 s work + 5 s; 5 s in vain; from 50 s on 10 s to load, then 3/4.
    let one = elastic("e", 0, 2, 4, 100).checkpoint(every(40, 5, 10));
    let results =
        simulation(4, Settings::new()).run_times(RateTable::new()).world(fails(3, 50, 80));
    let results = results.run([one], |_, _| ()).unwrap();
    // 60 s to 80 s: 15 s of work. The member joins at 80 s: 5 s to save, 10 s to load, then 45 s with
    // one more checkpoint.
    let record = &results.jobs[0];
    assert_eq!(ends(&results), [Some(80 + 15 + 40 + 5 + 5)]);
    assert_eq!((record.restarts, record.lost), (1, secs(5)));
}

#[test]
fn members_above_the_minimum_yield_and_the_job_goes_on() {
    let settings = || {
        let mut settings = Settings::new().preemption(PreemptionSettings::new());
        settings.elastic = Elastic::new().surplus_first(true);
        settings
    };
    let important = |name, submit, nodes: usize, run| {
        let mut group = gang(name, nodes as u32, nodes).priority(10);
        for pod in &mut group.pods {
            *pod = pod.clone().priority(10);
        }
        Job::new(group, Time::from_secs(submit), secs(run))
    };
    let run = |elastic: Job| {
        let simulation = simulation(4, settings()).run_times(RateTable::new());
        simulation.run([elastic, important("i", 40, 2, 60)], |_, _| ()).unwrap()
    };
    let all = Job::new(gang("e", 1, 4), Time::ZERO, secs(100));
    // 40 s of work, 30 s at half speed until 100 s, and 30 s more.
    let results = run(all.clone().elastic());
    assert_eq!((ends(&results), results.jobs[0].restarts), (vec![Some(130), Some(100)], 0));
    // A job that is not elastic begins anew with those that are left.
    let results = run(all);
    assert_eq!((ends(&results), results.jobs[0].restarts), (vec![Some(140), Some(100)], 1));
    assert_eq!(results.jobs[0].lost, secs(40));
}

#[test]
fn jobs_wait_for_others_and_users_for_their_jobs() {
    let name = |name: &str| gang(name, 1, 1).full_name();
    let jobs = [
        job("a", 0, 1, 10),
        job("b", 1, 1, 20),
        job("c", 2, 1, 5).after(name("a")).after(name("b")).after(name("a")),
        job("d", 3, 1, 5).after(name("nobody")),
        job("e", 50, 1, 5).after(name("c")),
    ];
    let results = simulation(8, Settings::new()).run(jobs.clone(), |_, _| ()).unwrap();
    assert_eq!(ends(&results), [Some(10), Some(21), Some(26), Some(55)]);
    assert_eq!(results.jobs[2].submit, Time::from_secs(21));
    assert_eq!(results.held, [name("d")]);
    let users = Users::new(1).think(secs(100));
    let results = simulation(8, Settings::new()).users(users).run(jobs, |_, _| ()).unwrap();
    assert_eq!(ends(&results), [Some(10), Some(21), Some(126), Some(231)]);

    // One node. Each user has two jobs at 0 s; with one that waits, nobody submits another.
    let four = || ["u0", "v0", "u1", "v1"].map(|own| job(own, 0, 1, 10).user(own.split_at(1).0));
    let results = simulation(1, Settings::new()).users(Users::new(1).think(secs(1)));
    let results = results.run(four(), |_, _| ()).unwrap();
    let submits: Vec<(&str, u64)> = results
        .jobs
        .iter()
        .map(|job| (job.name.as_str().trim_start_matches("default/"), job.submit.as_secs()))
        .collect();
    // v0 waits for u0, and so does v's next job.
    assert_eq!(submits, [("u0", 0), ("v0", 0), ("u1", 1), ("v1", 11)]);
    let results = simulation(1, Settings::new()).run(four(), |_, _| ()).unwrap();
    assert!(results.jobs.iter().all(|job| job.submit == Time::ZERO));
}

#[test]
fn a_rack_fails_as_one_and_comes_back_as_one() {
    let nodes: Vec<Node> = (0..16).map(node).collect();
    let until = Time::from_secs(100_000);
    let mut faults = Faults::new(Random::new(3)).failures(&nodes, 60, until, secs(5_000));
    faults = faults.domain_failures("rack", &nodes, 20, until, secs(5_000));
    let mut down: BTreeMap<String, Time> = BTreeMap::new();
    let (mut last, mut together) = (Time::ZERO, BTreeMap::<(Time, String), usize>::new());
    while let Some((at, change)) = faults.next_node_change() {
        assert!(at >= last);
        last = at;
        match change {
            NodeChange::Down(name) => {
                let index: usize = name.trim_start_matches('n').parse().unwrap();
                *together.entry((at, format!("r{}", index / 4))).or_default() += 1;
                assert_eq!(down.insert(name, at), None, "down twice");
            }
            NodeChange::Up(node) => assert!(down.remove(&node.name).is_some()),
            other => panic!("{other:?}"),
        }
    }
    assert!(down.is_empty());
    // Most outages of a rack find all of its nodes up, some find one that is down already.
    let racks: Vec<usize> = together.into_values().filter(|nodes| *nodes > 1).collect();
    assert!(racks.len() > 10 && racks.contains(&4) && racks.contains(&3), "{racks:?}");
}

/// Where a member of a job runs.
type Member = (String, Option<usize>);

/// A run as the plain model knows it: when it started, and where.
#[derive(Clone)]
struct Run {
    from: f64,
    to: f64,
    members: Vec<Member>,
}

const MODELS: [&str; 2] = ["bert", "dqn"];
const DEVICES: [&str; 3] = ["A100", "V100", "T4"];

fn device_node(index: usize) -> Node {
    let gpu = || Device::new("gpu", DEVICES[index % 3]).capacity("milli", 1_000);
    let node =
        Node::new(format!("n{index}")).capacity("cpu", 64).label("rack", format!("r{}", index / 3));
    node.device(gpu()).device(gpu())
}

/// The rate of a job by the definition: level, device, neighbours.
fn plain_rate(own: usize, jobs: &[(&'static str, bool)], now: &BTreeMap<usize, &Run>) -> f64 {
    let members = &now[&own].members;
    let number = |node: &str| node[1..].parse::<usize>().unwrap();
    let mut nodes: Vec<usize> = members.iter().map(|(node, _)| number(node)).collect();
    nodes.dedup();
    let racks: std::collections::BTreeSet<usize> = nodes.iter().map(|node| node / 3).collect();
    let mut rate = if nodes.len() == 1 {
        1.0
    } else if racks.len() == 1 {
        0.9
    } else {
        0.6
    };
    let slowest = nodes.iter().map(|node| match (node % 3, jobs[own].0) {
        (1, "dqn") => 0.7,
        (1, _) => 0.5,
        (2, _) => 0.25,
        _ => 1.0,
    });
    rate *= slowest.fold(f64::INFINITY, f64::min);
    let beside: Vec<usize> = now
        .iter()
        .filter(|(other, run)| {
            **other != own && run.members.iter().any(|one| members.contains(one))
        })
        .map(|(other, _)| *other)
        .collect();
    // Only bert beside bert has a pair.
    let pairs = jobs[own].0 == "bert" && beside.iter().all(|other| jobs[*other].0 == "bert");
    rate * match beside.len() {
        0 => 1.0,
        count if pairs => 0.75_f64.powi(count as i32),
        1 => 0.8,
        _ => 0.5,
    }
}

#[test]
fn ends_are_those_of_a_plain_model_of_progress() {
    let table = RateTable::new()
        .level("kubernetes.io/hostname", Rate::ONE)
        .level("rack", Rate::percent(90))
        .beyond(Rate::percent(60))
        .device("V100", Rate::percent(50))
        .device("T4", Rate::percent(25))
        .throughput("dqn", "V100", Rate::percent(70))
        .neighbours([Rate::percent(80), Rate::percent(50)])
        .pair("bert", "bert", Rate::percent(75));
    let nodes: Vec<Node> = (0..6).map(device_node).collect();
    let (mut lost, mut shared, mut spread) = (0, 0, 0);
    for seed in 0..crate::support::budget::of(5, 20) {
        let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
        for node in &nodes {
            cluster.add_node(node.clone()).unwrap();
        }
        let framework = Framework::builder().filter(Fit).filter(DeviceFit).build().unwrap();
        let mut random = Random::new(seed);
        let mut known = Vec::new();
        let jobs: Vec<Job> = (0..60)
            .map(|index| {
                let (model, saves) = (MODELS[random.below(2) as usize], random.below(2) == 0);
                known.push((model, saves));
                let share = DeviceRequest::share("gpu", "milli", 100 * random.within(2, 6) as i64);
                let pods = random.within(1, 3);
                let gang = PodGroup::gang(format!("j{index}"), pods as u32)
                    .pods(pods as usize, Pod::new().request("cpu", 1).device(share));
                let run = Duration::from_secs(random.within(5, 300));
                let job =
                    Job::new(gang, Time::from_secs(index * random.below(25)), run).model(model);
                if saves { job.checkpoint(every(40, 3, 6)) } else { job }
            })
            .collect();
        let works: Vec<f64> = jobs.iter().map(|job| job.run_time.as_secs_f64()).collect();
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by_key(|index| jobs[*index].submit);
        let sorted: Vec<Job> = order.iter().map(|index| jobs[*index].clone()).collect();
        let own: Vec<(&str, bool)> = order.iter().map(|index| known[*index]).collect();
        let works: Vec<f64> = order.iter().map(|index| works[*index]).collect();
        let world = Faults::new(Random::new(seed))
            .failures(&nodes, 6, Time::from_secs(1_000), secs(60))
            .domain_failures("rack", &nodes, 2, Time::from_secs(1_000), secs(60));
        let scheduler = Scheduler::new(cluster, framework, Settings::new());
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); sorted.len()];
        let mut planned: BTreeMap<usize, Vec<Member>> = BTreeMap::new();
        let simulation = Simulation::new(scheduler, "cpu").world(world).run_times(table.clone());
        let results = simulation.run(sorted, |now, what| {
            let now = now.as_nanos() as f64 / 1e9;
            match what {
                Happening::Placed(jobs, plan) => {
                    let place = plan.assignments().map(|one| {
                        let device = one.devices().iter().flatten().next();
                        (one.node().to_owned(), device.map(|index| *index as usize))
                    });
                    planned.insert(jobs[0], place.collect());
                }
                Happening::Started(job) => {
                    let members = planned[&job].clone();
                    runs[job].push(Run { from: now, to: f64::INFINITY, members });
                }
                Happening::Ended(job) | Happening::Lost(job, _) => {
                    lost += usize::from(matches!(what, Happening::Lost(..)));
                    runs[job].last_mut().unwrap().to = now;
                }
                _ => {}
            }
        });
        let results = results.unwrap();
        // Every moment at which some job started or stopped.
        let all = runs.iter().flatten().flat_map(|run| [run.from, run.to]);
        let mut times: Vec<f64> = all.filter(|at| at.is_finite()).collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        for (job, record) in results.jobs.iter().enumerate() {
            let (mut done, mut saved) = (0.0, 0.0);
            for run in &runs[job] {
                spread += usize::from(run.members.iter().any(|one| one.0 != run.members[0].0));
                // Seconds left to load; seconds until the next checkpoint, of working and then of
                // saving.
                let (mut load, mut left): (f64, f64) = (if saved > 0.0 { 6.0 } else { 0.0 }, 40.0);
                let mut save: f64 = 0.0;
                done = saved;
                for pair in times.windows(2).filter(|pair| pair[0] >= run.from && pair[1] <= run.to)
                {
                    let now: BTreeMap<usize, &Run> = runs
                        .iter()
                        .enumerate()
                        .flat_map(|(other, runs)| runs.iter().map(move |run| (other, run)))
                        .filter(|(_, run)| run.from <= pair[0] && run.to >= pair[1])
                        .collect();
                    let rate = plain_rate(job, &own, &now);
                    shared += usize::from(rate < 0.2);
                    let mut span = pair[1] - pair[0];
                    while span > 1e-7 {
                        let step;
                        if load > 0.0 {
                            step = load.min(span);
                            load -= step;
                        } else if save > 0.0 {
                            step = save.min(span);
                            save -= step;
                            if save < 1e-7 {
                                (save, saved, left) = (0.0, done, 40.0);
                            }
                        } else {
                            let saves = own[job].1;
                            step = if saves { left.min(span) } else { span };
                            done += step * rate;
                            left -= step;
                            if saves && left < 1e-7 && done < works[job] - 1e-6 {
                                save = 3.0;
                            }
                        }
                        span -= step;
                    }
                }
                if run.to == f64::INFINITY {
                    assert_eq!(record.end, None);
                }
            }
            // Rates are whole millionths.
            assert!(record.end.is_some(), "seed {seed}, job {job}");
            assert!(
                (done - works[job]).abs() < 1e-5 * works[job] + 1e-4,
                "seed {seed}, job {job}: {done} of {}",
                works[job]
            );
        }
    }
    assert!(lost > 50 && shared > 100 && spread > 50, "{lost} {shared} {spread}");
}
