//! A gang with claims is placed exactly if there is a way, by brute force.

use phalanx::claims::Cel;
use phalanx::model::{
    ClaimSpec, CounterSet, CounterUse, DeviceClass, DeviceDemand, ResourceClaim, ResourceSlice,
    SliceDevice,
};
use phalanx::place::{Certificate, Lack, Proof, UnplacedKind};
use phalanx::plugins::DynamicResources;
use phalanx::reference::is_sound;
use phalanx::{Cluster, Framework, Node, Outcome, Pod, PodGroup, Quantity, place_gang};

use super::brute::{Claim, Gpu, World, fits};
use crate::support::budget;
use crate::support::dice::Dice;

const DRIVER: &str = "gpu.example.com";

/// Places in a list.
trait Below {
    fn below(&mut self, end: u64) -> usize;
}

impl Below for Dice {
    fn below(&mut self, end: u64) -> usize {
        self.roll(end) as usize
    }
}

fn world(dice: &mut Dice) -> World {
    let more = u64::from(budget::is_soak());
    // Counters in some worlds, memory in others.
    let sort = dice.below(4);
    let nodes = 1 + dice.below(3 + more);
    let gpu = |dice: &mut Dice| Gpu {
        model: dice.below(2),
        island: dice.below(2),
        parts: if sort == 0 { 1 + dice.below(3) as i64 } else { 0 },
        memory: (sort == 1).then(|| 1 + dice.below(4) as i64),
        is_shared: sort == 1 && dice.below(3) > 0,
    };
    let node = |dice: &mut Dice| {
        let devices = 1 + dice.below(4 - more);
        (0..devices).map(|_| gpu(dice)).collect()
    };
    let nodes = (0..nodes).map(|_| node(dice)).collect();
    let ask = |dice: &mut Dice| {
        let model = dice.below(3);
        let memory = (sort == 1 && dice.below(4) > 0).then(|| 1 + dice.below(3) as i64);
        (1 + dice.below(2), (model < 2).then_some(model), memory)
    };
    let mut claims = Vec::new();
    let pods = 1 + dice.below(4 + more);
    let pods = (0..pods).map(|_| {
        let mut own = Vec::new();
        if claims.len() > 1 && dice.below(4) == 0 {
            own.push(dice.below(claims.len() as u64));
        }
        if own.is_empty() || dice.below(2) == 0 {
            let requests = 1 + dice.below(2);
            let request = |dice: &mut Dice| {
                let alternatives = 1 + dice.below(5) / 4;
                (0..alternatives).map(|_| ask(dice)).collect()
            };
            let requests = (0..requests).map(|_| request(dice)).collect();
            own.push(claims.len());
            claims.push(Claim { requests, same: dice.below(2) == 0 });
        }
        own
    });
    let pods = pods.collect();
    World { nodes, counter: 4, slots: 2 + dice.below(2), claims, pods }
}

fn built(world: &World) -> (Cluster, PodGroup) {
    let mut cluster = Cluster::new();
    cluster.set_device_class(DeviceClass::new("gpu"));
    for (at, gpus) in world.nodes.iter().enumerate() {
        let name = format!("n{at}");
        let node = Node::new(&name).label("rack", format!("r{}", at % 2));
        cluster.add_node(node.capacity("cpu", world.slots as i64)).unwrap();
        let mut slice = ResourceSlice::on(name.as_str(), DRIVER);
        slice.slice_count = 2;
        let mut counters = slice.clone();
        counters.name.push_str("-counters");
        let amount = |amount: i64| [(String::from("parts"), Quantity::from(amount))].into();
        counters.counters.push(CounterSet::new("set", amount(world.counter)));
        cluster.set_resource_slice(counters);
        for (number, gpu) in gpus.iter().enumerate() {
            let mut device = SliceDevice::new(format!("gpu-{number}"))
                .attribute("model", gpu.model as i64)
                .attribute("island", gpu.island as i64);
            if gpu.parts > 0 {
                device.consumes.push(CounterUse::new("set", amount(gpu.parts)));
            }
            if let Some(memory) = gpu.memory {
                device = device.capacity("memory", memory);
            }
            device.shareable = gpu.is_shared;
            slice = slice.device(device);
        }
        cluster.set_resource_slice(slice);
    }
    for (number, claim) in world.claims.iter().enumerate() {
        let mut spec = ClaimSpec::new();
        for (at, ask) in claim.requests.iter().enumerate() {
            let alternatives = ask.iter().enumerate().map(|(place, (count, model, memory))| {
                let mut demand = DeviceDemand::of("gpu", *count as u64);
                if let Some(memory) = memory {
                    demand = demand.taking("memory", *memory);
                }
                if let Some(model) = model {
                    let text = format!(r#"device.attributes["{DRIVER}"].model == {model}"#);
                    demand = demand.selector(text);
                }
                (format!("s{place}"), demand)
            });
            spec = match ask.len() {
                1 => spec.request(format!("q{at}"), alternatives.map(|own| own.1).next().unwrap()),
                _ => spec.first_of(format!("q{at}"), alternatives),
            };
        }
        if claim.same {
            spec = spec.same(format!("{DRIVER}/island"));
        }
        cluster.set_claim(ResourceClaim::new(format!("c{number}"), spec));
    }
    let pods = world.pods.iter().enumerate().map(|(at, claims)| {
        let pod = Pod::new().name(format!("p{at}")).request("cpu", 1);
        claims.iter().fold(pod, |pod, claim| pod.claim(format!("c{claim}")))
    });
    let gang = PodGroup::gang("g", world.pods.len() as u32);
    (cluster, pods.fold(gang, PodGroup::pod))
}

/// Gangs that were placed, refused, refused by counts, and lacks of pods with claims.
#[derive(Default)]
pub(crate) struct Seen {
    placed: u32,
    refused: usize,
    counted: usize,
    by_pods: usize,
}

/// Holds the answer in one world to brute force.
pub(crate) fn holds(seed: u64, framework: &Framework, seen: &mut Seen) {
    let mut dice = Dice(seed);
    let world = world(&mut dice);
    let (mut cluster, mut gang) = built(&world);
    // Some groups are to be in one of two racks.
    let is_racked = seed % 4 == 3;
    if is_racked {
        gang = gang.require("rack");
    }
    let expected =
        if is_racked { (0..2).any(|rack| fits(&world.rack(rack))) } else { fits(&world) };
    let outcome = place_gang(&cluster, framework, &gang).unwrap();
    match &outcome {
        Outcome::Placed(plan) => {
            assert!(expected, "{seed}: {world:?}");
            assert_eq!(plan.len(), world.pods.len(), "{seed}");
            is_sound(plan, &gang, &cluster, framework).unwrap();
            // Nothing that is counted can prove the contrary.
            let forged = if is_racked { Vec::new() } else { forged(&world, &mut dice) };
            for forged in forged {
                let verified = forged.verify(&cluster, framework, &gang);
                assert!(verified.is_err(), "{seed}: {forged}\n{world:?}");
            }
            cluster.commit(framework, plan).unwrap();
            seen.placed += 1;
        }
        Outcome::Unplaced(unplaced) => {
            assert!(!expected, "{seed}: {world:?}");
            assert_eq!(unplaced.kind, UnplacedKind::Infeasible, "{seed}");
            let certificate = unplaced.certificate.as_ref().expect("a proof");
            let proof = certificate.verify(&cluster, framework, &gang);
            let proof = proof.unwrap_or_else(|flaw| panic!("{seed}: {flaw}\n{certificate}"));
            seen.counted += usize::from(proof == Proof::Counted);
            let lacks = certificate.refusal.candidates.iter().map(|own| &own.lack);
            seen.by_pods += lacks.filter(|lack| matches!(lack, Lack::Claims { .. })).count();
            if proof == Proof::Counted {
                assert_altered_is_noticed(certificate, &cluster, framework, &gang);
            }
            seen.refused += 1;
        }
        other => panic!("{seed}: {other:?}"),
    }
}

/// Room, and devices by claims.
pub(crate) fn framework() -> Framework {
    DynamicResources::add_to(Framework::default().to_builder(), Cel).build().unwrap()
}

#[test]
fn gangs_are_placed_exactly_where_brute_force_finds_a_way() {
    let framework = framework();
    let mut seen = Seen::default();
    for seed in 0..budget::of(300, 20_000) {
        holds(seed, &framework, &mut seen);
    }
    let Seen { placed, refused, counted, by_pods } = seen;
    assert!(
        placed > budget::of(62, 250) as u32 && refused > budget::of(75, 300) as usize,
        "{placed} {refused}"
    );
    assert!(counted * 100 > refused * 99, "{counted} of {refused} are proven by counts");
    assert!(by_pods > budget::of(12, 50) as usize, "{by_pods} by pods with claims");
}

/// The certificate of a group that is not confined, with one lack.
fn certificate(lack: Lack) -> Certificate {
    let text = serde_json::json!({
        "refusal": {
            "group": "default/g",
            "candidates": [{"key": null, "path": [], "lack": lack}],
            "tooFew": null,
        }
    });
    serde_json::from_value(text).unwrap()
}

/// Lacks of devices that someone might invent, over all requests of a world.
fn forged(world: &World, dice: &mut Dice) -> Vec<Certificate> {
    let mut all = Vec::new();
    // Pods of which fewer fit than there are: one, several, or one of them twice.
    for _ in 0..4 {
        let pods = 1 + dice.below(world.pods.len() as u64 + 1);
        let name = |_| format!("p{}", dice.below(world.pods.len() as u64));
        let pods: Vec<String> = (0..pods).map(name).collect();
        let need = 1 + dice.below(1 + world.pods.len() as u64) as u32;
        let fits = dice.below(u64::from(need)) as u32;
        all.push(certificate(Lack::Claims { pods, need, fits }));
    }
    for (pod, claims) in world.pods.iter().enumerate() {
        for &claim in claims {
            for request in 0..world.claims[claim].requests.len() {
                let same = (dice.below(2) == 0).then(|| format!("{DRIVER}/island"));
                let (each, fits) = (1 + dice.below(3) as u64, dice.below(9) as u64);
                all.push(certificate(Lack::Devices {
                    pod: format!("p{pod}"),
                    claim: format!("c{claim}"),
                    request: format!("q{request}"),
                    same,
                    each,
                    need: fits + 1 + dice.below(3) as u64,
                    fits,
                }));
            }
        }
    }
    all
}

/// Alters each number of a lack of devices or of pods with claims, one at a time.
fn assert_altered_is_noticed(
    certificate: &Certificate,
    cluster: &Cluster,
    framework: &Framework,
    gang: &PodGroup,
) {
    for field in 0..3 {
        let mut altered = certificate.clone();
        let lack = &mut altered.refusal.candidates[0].lack;
        match (lack, field) {
            (Lack::Devices { need, .. }, 0) => *need += 1,
            (Lack::Devices { need, fits, .. }, 1) => {
                *fits = fits.checked_sub(1).unwrap_or(*need - 1 + u64::from(*need == 1));
            }
            (Lack::Devices { request, .. }, _) => request.push('x'),
            (Lack::Claims { need, .. }, 0) => *need += 1,
            (Lack::Claims { need, fits, .. }, 1) => {
                *fits = fits.checked_sub(1).unwrap_or(*need - 1 + u32::from(*need == 1));
            }
            (Lack::Claims { pods, .. }, _) => pods.push("x".into()),
            _ => return,
        }
        assert!(altered.verify(cluster, framework, gang).is_err(), "{certificate}\n{altered}");
    }
}

/// Members and devices that no stack had room for.
#[test]
fn a_gang_of_many_members_is_searched_for_on_a_small_stack() {
    const NODES: usize = 100;
    let search = || {
        let framework =
            DynamicResources::add_to(Framework::default().to_builder(), Cel).build().unwrap();
        let mut cluster = Cluster::new();
        cluster.set_device_class(DeviceClass::new("gpu"));
        for at in 0..NODES {
            let name = format!("n{at:03}");
            cluster.add_node(Node::new(&name).capacity("cpu", 2)).unwrap();
            let gpus =
                (0..2).map(|gpu| SliceDevice::new(format!("g{gpu}")).attribute("model", gpu));
            let slice = ResourceSlice::on(name.as_str(), DRIVER);
            cluster.set_resource_slice(gpus.fold(slice, ResourceSlice::device));
        }
        let first = format!(r#"device.attributes["{DRIVER}"].model == 0"#);
        let pod = |demand: DeviceDemand| {
            Pod::new().request("cpu", 1).own_claim("gpu", ClaimSpec::new().request("one", demand))
        };
        let any = pod(DeviceDemand::of("gpu", 1));
        let picky = pod(DeviceDemand::of("gpu", 1).selector(first));
        // Pods that take anything come first, and take the devices that the others need.
        let gang = PodGroup::gang("g", 2 * NODES as u32).pods(NODES, any).pods(NODES, picky);
        let outcome = place_gang(&cluster, &framework, &gang).unwrap();
        let plan = outcome.plan().unwrap_or_else(|| panic!("{outcome}"));
        assert_eq!(plan.len(), 2 * NODES);
        is_sound(plan, &gang, &cluster, &framework).unwrap();
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10);
    thread.spawn(search).unwrap().join().unwrap();
}
