//! Reservations: what they hold, for how long, and before whom.

use std::time::Duration;

use phalanx::model::{Device, DeviceRequest};
use phalanx::plugins::{DeviceFit, Fit};
use phalanx::queue::{Discipline, GroupState, HeadOfLine, ReservationPolicy, Settings, Shortage};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler};

use super::steps::*;

/// A stream of jobs of one pod each, one a second, each of which runs for a while.
struct Stream {
    scheduler: Scheduler,
    single: Pod,
    runs: u64,
    ends: Vec<(u64, String)>,
    /// Jobs of the stream that have started.
    started: usize,
}

impl Stream {
    fn new(scheduler: Scheduler, single: Pod, runs: u64) -> Stream {
        Stream { scheduler, single, runs, ends: Vec::new(), started: 0 }
    }

    /// A second: jobs end, one comes, and what starts is bound. Returns whether a group of another
    /// name has started.
    fn second(&mut self, second: u64) -> bool {
        let now = at(second);
        let (over, ends) = self.ends.drain(..).partition(|(end, _)| *end <= second);
        self.ends = ends;
        for (_, name) in over {
            delete(&mut self.scheduler, &format!("{name}-0"), now);
            self.scheduler.handle_group_removed(&format!("default/{name}"), now).unwrap();
        }
        let job = PodGroup::gang(format!("job{second}"), 1).pods(1, self.single.clone());
        self.scheduler.handle_group(job, now).unwrap();
        let mut other = false;
        for name in bind_all(&mut self.scheduler, now) {
            if name.name().starts_with("job") {
                self.ends.push((second + self.runs, name.name().to_owned()));
                self.started += 1;
            } else {
                other = true;
            }
        }
        other
    }

    /// The second in which a group of another name starts.
    fn until_started(&mut self, seconds: std::ops::Range<u64>) -> Option<u64> {
        seconds.into_iter().find(|second| self.second(*second))
    }

    /// Names of the nodes on which something is reserved.
    fn reserved_nodes(&self) -> Vec<String> {
        let reservations = self.scheduler.reservations();
        reservations.into_iter().flat_map(|own| own.amounts.into_keys()).collect()
    }
}

/// A gang of pods that each take a whole node of 4 GPUs.
fn whole_nodes(name: &str, count: usize) -> PodGroup {
    PodGroup::gang(name, count as u32).pods(count, Pod::new().request(GPU, 4))
}

#[test]
fn a_gang_of_whole_nodes_starts_though_nodes_free_one_gpu_at_a_time() {
    let run = |at_most: usize| {
        let mut stream = Stream::new(scheduler(gpus(4, 4), reserving(at_most)), gpu(), 20);
        assert_eq!(stream.until_started(0..40), None);
        assert!(stream.started > 20);
        stream.scheduler.handle_group(whole_nodes("large", 4), at(40)).unwrap();
        stream.until_started(40..400)
    };
    assert_eq!(run(0), None, "without a reservation it never does");
    let started = run(1).expect("it starts");
    // 10 s until it may reserve, and one run of a job.
    assert!(started <= 40 + 10 + 21, "{started}");
}

#[test]
fn a_gang_of_whole_nodes_leaves_the_other_nodes_to_others() {
    let mut stream = Stream::new(scheduler(gpus(6, 4), reserving(1)), gpu(), 30);
    assert_eq!(stream.until_started(0..60), None);
    stream.scheduler.handle_group(whole_nodes("large", 4), at(60)).unwrap();
    let mut most = 0;
    for second in 60..200 {
        let (before, started) = (stream.started, stream.second(second));
        // Before it, jobs of the stream wait, and may reserve.
        let mut reservations = stream.scheduler.reservations();
        reservations.retain(|own| own.group == "default/large");
        for own in reservations {
            assert!(own.amounts.len() <= 4, "{own:?}");
            let held: i64 = own.amounts.values().map(|held| held.of(GPU)).sum();
            most = most.max(held);
            let whole: usize = own.pods.values().sum();
            assert!(whole as i64 * 4 <= held && held <= 16 && own.wanted == 4, "{own:?}");
            assert!(stream.scheduler.cluster().nodes().all(|node| {
                let gpu = stream.scheduler.cluster().resource(GPU).unwrap();
                node.free(gpu) >= 0
            }));
        }
        if started {
            assert!(second <= 60 + 10 + 31, "{second}");
            assert!(most >= 12, "parts of nodes were put aside: {most}");
            assert!(before > 40, "the others went on");
            return;
        }
    }
    panic!("it starts");
}

#[test]
fn a_rack_is_kept_until_it_has_drained() {
    // Two racks of four nodes; jobs of 30 s keep both busy.
    let mut stream = Stream::new(scheduler(gpus(8, 4), reserving(1)), gpu(), 30);
    assert_eq!(stream.until_started(0..60), None);
    let gang = whole_nodes("large", 4).require("rack");
    stream.scheduler.handle_group(gang, at(60)).unwrap();
    let mut racks = Vec::new();
    let started = (60..200).find(|second| {
        let started = stream.second(*second);
        for name in stream.reserved_nodes() {
            let node = stream.scheduler.cluster().node(&name).unwrap();
            racks.push(node.label("rack").unwrap().to_owned());
        }
        started
    });
    assert!(started.expect("it starts") <= 60 + 10 + 31);
    racks.dedup();
    assert_eq!(racks.len(), 1, "{racks:?}");
}

#[test]
fn a_rack_is_left_for_one_that_is_nearer() {
    let mut scheduler = scheduler(gpus(8, 4), reserving(1));
    // Rack r0 lacks 6 GPUs of four nodes, r1 lacks 8; nothing of r0 ends.
    for index in 0..8 {
        let node = format!("n{index:04}");
        let busy = if index < 4 { 2 - index % 2 } else { 2 };
        let pods = Pod::new().request(GPU, 1).node_selector("name", &*node);
        let mut with_name = Node::new(&*node).capacity(GPU, 4).label("name", &*node);
        with_name = with_name.label("rack", format!("r{}", index / 4));
        let event = phalanx::Event::NodeChanged { node: with_name, version: 0 };
        scheduler.handle_event(event, at(0)).unwrap();
        let gang = PodGroup::gang(format!("on{index}"), busy).pods(busy as usize, pods);
        scheduler.handle_group(gang, at(0)).unwrap();
    }
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(whole_nodes("large", 4).require("rack"), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    bind_all(&mut scheduler, at(20));
    let on = |scheduler: &Scheduler| {
        let own = scheduler.reservations().remove(0).amounts;
        own.iter().map(|(node, held)| (node.clone(), held.of(GPU))).collect::<Vec<_>>()
    };
    let pairs = |from: usize, held: [i64; 4]| {
        let nodes = (from..from + 4).map(|index| format!("n{index:04}"));
        nodes.zip(held).collect::<Vec<_>>()
    };
    assert_eq!(on(&scheduler), pairs(0, [2, 3, 2, 3]));
    // Two of r1 end: as much is missing there, and the rack that was chosen is kept.
    delete(&mut scheduler, "on4-0", at(21));
    delete(&mut scheduler, "on5-0", at(21));
    bind_all(&mut scheduler, at(21));
    assert_eq!(on(&scheduler), pairs(0, [2, 3, 2, 3]));
    delete(&mut scheduler, "on6-0", at(22));
    bind_all(&mut scheduler, at(22));
    assert_eq!(on(&scheduler), pairs(4, [3, 3, 3, 2]));
    // What it gave back is for others.
    scheduler.handle_group(gang("other", 10), at(23)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(23)), ["default/other"]);
}

#[test]
fn whole_nodes_of_devices_are_put_aside_device_by_device() {
    let card = || Device::new("card", "A").capacity("milli", 1_000);
    let mut cluster = Cluster::new();
    for name in ["a", "b", "c"] {
        let node = Node::new(name).capacity("cpu", 64);
        cluster.add_node((0..4).fold(node, |node, _| node.device(card()))).unwrap();
    }
    let framework = Framework::builder().filter(Fit).filter(DeviceFit).build().unwrap();
    let mut settings = Settings::default();
    reserving(1)(&mut settings);
    let single = Pod::new().device(DeviceRequest::whole("card", 1));
    let mut stream = Stream::new(Scheduler::new(cluster, framework, settings), single, 15);
    assert_eq!(stream.until_started(0..30), None);
    let all = Pod::new().device(DeviceRequest::whole("card", 4));
    let gang = PodGroup::gang("large", 2).pods(2, all);
    stream.scheduler.handle_group(gang, at(30)).unwrap();
    let mut parts = Vec::new();
    let started = (30..100).find(|second| {
        let started = stream.second(*second);
        for own in stream.scheduler.reservations() {
            assert!(own.amounts.len() <= 2);
            parts.extend(own.amounts.values().map(|held| held.of("card")));
        }
        started
    });
    assert!(started.expect("it starts") <= 30 + 10 + 16, "{started:?}");
    assert!(parts.iter().all(|part| part % 1_000 == 0 && *part <= 4_000), "{parts:?}");
    assert!(parts.contains(&2_000), "{parts:?}");
}

/// A scheduler that is saved and restored now and then answers as one that is not.
#[test]
fn parts_are_the_same_after_a_restart() {
    use phalanx::queue::{PriorityThenTime, SavedScheduler};
    let run = |restarts: bool| {
        let mut stream = Stream::new(scheduler(gpus(8, 4), reserving(2)), gpu(), 30);
        let mut seen = Vec::new();
        for second in 0..110 {
            if second == 60 {
                let gang = whole_nodes("large", 4).require("rack");
                stream.scheduler.handle_group(gang, at(60)).unwrap();
                stream.scheduler.handle_group(whole_nodes("next", 2), at(60)).unwrap();
            }
            if restarts && second % 7 == 0 {
                let text = serde_json::to_string(&stream.scheduler.save()).unwrap();
                let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
                stream.scheduler =
                    Scheduler::restore(saved, Framework::default(), PriorityThenTime);
            }
            seen.push((stream.second(second), stream.scheduler.reservations()));
        }
        assert!(seen.iter().any(|(_, reservations)| reservations.len() == 2));
        (seen, serde_json::to_string(&stream.scheduler.save()).unwrap())
    };
    assert_eq!(run(false), run(true));
}

/// An event costs a reservation the domains that it touches and the one that is kept, not the
/// cluster.
#[test]
fn an_event_looks_at_its_domain_and_the_chosen_one() {
    let run = |racks: usize| {
        let mut scheduler = scheduler(gpus(4 * racks, 4), reserving(1));
        let count = 16 * racks;
        scheduler.handle_group(gang("all", count), at(0)).unwrap();
        bind_all(&mut scheduler, at(0));
        let large = whole_nodes("large", 4).require("rack");
        scheduler.handle_group(large, at(1)).unwrap();
        bind_all(&mut scheduler, at(1));
        bind_all(&mut scheduler, at(20));
        let before = scheduler.wake_stats().reserved_nodes;
        for event in 0..10 {
            delete(&mut scheduler, &format!("all-{}", event * racks), at(21 + event as u64));
            bind_all(&mut scheduler, at(21 + event as u64));
        }
        assert_eq!(scheduler.reservations().len(), 1);
        scheduler.wake_stats().reserved_nodes - before
    };
    let (few, many) = (run(4), run(40));
    assert!(few > 0 && many <= few + 40, "4 racks: {few}, 40 racks: {many}");
    // The rack of the event, and twice the one that is kept: to compare it, and to hold its parts.
    assert!(many <= 10 * 4 * 4, "{many}");
}

fn reserving(at_most: usize) -> impl Fn(&mut Settings) {
    move |settings| {
        let after = Duration::from_secs(10);
        let policy = ReservationPolicy::new().after(after).at_most(at_most);
        settings.discipline = Discipline::in_order(HeadOfLine::BestEffort, Some(policy));
    }
}

#[test]
fn reservations_are_bounded_visible_and_outranked() {
    let mut scheduler = scheduler(gpus(4, 4), reserving(2));
    scheduler.handle_group(gang("all", 14), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    for name in ["a", "b", "c"] {
        scheduler.handle_group(gang(name, 12), at(1)).unwrap();
    }
    bind_all(&mut scheduler, at(1));
    bind_all(&mut scheduler, at(20));
    let names = |scheduler: &Scheduler| {
        scheduler.reservations().into_iter().map(|r| r.group).collect::<Vec<_>>()
    };
    assert_eq!(names(&scheduler), ["default/a", "default/b"]);
    let reserved = &scheduler.reservations()[0];
    assert_eq!((reserved.pods.values().sum::<usize>(), reserved.wanted), (2, 12));
    assert_eq!(scheduler.cluster().pod_count(), 16, "others see what is put aside");
    // Who is more important and has waited as long takes the place of the last.
    scheduler.handle_group(gang("urgent", 12).priority(5), at(21)).unwrap();
    bind_all(&mut scheduler, at(21));
    assert_eq!(names(&scheduler), ["default/a", "default/b"]);
    bind_all(&mut scheduler, at(40));
    assert_eq!(names(&scheduler), ["default/a", "default/urgent"]);
    let reserved: usize = scheduler.reservations()[1].pods.values().sum();
    assert_eq!(reserved, 0, "what a has put aside is a's");
    delete(&mut scheduler, "all-0", at(41));
    bind_all(&mut scheduler, at(41));
    assert_eq!(scheduler.cluster().pod_count(), 16);
}

#[test]
fn reservations_hold_devices_by_model_and_share() {
    let card = |model: &str| Device::new("card", model).capacity("milli", 1_000);
    let mut cluster = Cluster::new();
    for (name, model) in [("old", "A"), ("new", "B")] {
        let node = Node::new(name).capacity("cpu", 64).device(card(model)).device(card(model));
        cluster.add_node(node).unwrap();
    }
    let framework = Framework::builder().filter(Fit).filter(DeviceFit).build().unwrap();
    let mut settings = Settings::default();
    reserving(1)(&mut settings);
    let mut scheduler = Scheduler::new(cluster, framework, settings);
    let whole = |model: &str| Pod::new().device(DeviceRequest::whole("card", 1).model(model));
    let share = |milli| Pod::new().device(DeviceRequest::share("card", "milli", milli));
    for name in ["x", "y"] {
        scheduler.handle_group(PodGroup::gang(name, 1).pods(1, whole("B")), at(0)).unwrap();
    }
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(PodGroup::gang("large", 2).pods(2, whole("B")), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    bind_all(&mut scheduler, at(20));
    assert_eq!(scheduler.reservations()[0].pods.len(), 0);
    delete(&mut scheduler, "x-0", at(21));
    bind_all(&mut scheduler, at(21));
    assert_eq!(scheduler.reservations()[0].pods["new"], 1);
    // The device is put aside: who wants any part of a card of that model waits.
    let thief = Pod::new().device(DeviceRequest::share("card", "milli", 100).model("B"));
    scheduler.handle_group(PodGroup::gang("thief", 1).pods(1, thief), at(22)).unwrap();
    scheduler.handle_group(PodGroup::gang("other", 3).pods(3, share(600)), at(22)).unwrap();
    scheduler.handle_group(PodGroup::gang("fits", 2).pods(2, share(600)), at(22)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(22)), ["default/fits"]);
    assert!(is_asleep(&scheduler, "default/thief") && is_asleep(&scheduler, "default/other"));
    delete(&mut scheduler, "y-0", at(23));
    assert_eq!(bind_all(&mut scheduler, at(23)), ["default/large"]);
    assert!(scheduler.reservations().is_empty());
}

#[test]
fn a_gang_with_a_reservation_does_not_start_without_its_partner() {
    let mut scheduler = scheduler(gpus(1, 8), reserving(1));
    scheduler.handle_group(gang("all", 8), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("a", 4), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    delete(&mut scheduler, "all-0", at(20));
    bind_all(&mut scheduler, at(20));
    assert_eq!(scheduler.reservations().len(), 1);
    let mut partner = gang("b", 4);
    partner.gang_group.push("default/a".parse().unwrap());
    scheduler.handle_group(partner, at(21)).unwrap();
    for index in 1..8 {
        delete(&mut scheduler, &format!("all-{index}"), at(21 + index));
        let started = bind_all(&mut scheduler, at(21 + index));
        assert_eq!(started.len(), if index == 7 { 2 } else { 0 }, "{index}: {started:?}");
    }
    assert_eq!(scheduler.state("default/b"), Some(GroupState::Running));
}

#[test]
fn a_paused_group_lets_go_of_what_is_held_and_reserved() {
    let mut scheduler = scheduler(gpus(1, 8), reserving(1));
    scheduler.handle_group(gang("all", 6), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("large", 8), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    bind_all(&mut scheduler, at(20));
    scheduler.handle_group(gang("small", 2), at(21)).unwrap();
    assert!(bind_all(&mut scheduler, at(21)).is_empty());
    assert!(is_asleep(&scheduler, "default/small"));
    scheduler.handle_pause("default/large", at(22)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(22)), ["default/small"]);
    assert!(scheduler.reservations().is_empty());
    scheduler.handle_resume("default/large", at(23)).unwrap();
    bind_all(&mut scheduler, at(23));
    let Some(GroupState::Unschedulable { shortage: Some(shortage), .. }) =
        scheduler.state("default/large")
    else {
        panic!("it waits again")
    };
    assert!(matches!(shortage, Shortage::Capacity { needed: 8, available: 0, .. }));
}

#[test]
fn a_reservation_does_not_pass_by_the_back_off() {
    let mut scheduler = scheduler(gpus(1, 4), reserving(1));
    scheduler.handle_group(gang("all", 4), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("a", 4), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    for index in 0..4 {
        delete(&mut scheduler, &format!("all-{index}"), at(20));
    }
    let mut now = at(20);
    let mut waits = Vec::new();
    for _ in 0..5 {
        let (ticket, _) = plan(&mut scheduler, now);
        scheduler.handle_conflict(ticket, "moved", now).unwrap();
        if let Some(GroupState::BackingOff { until }) = scheduler.state("default/a") {
            assert_eq!(scheduler.poll_decision(now), None);
            waits.push(until.since(now).as_secs());
            now = until;
        }
    }
    assert_eq!(waits, [1, 2, 4, 8]);
}
