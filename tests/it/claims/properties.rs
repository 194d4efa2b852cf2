//! A gang with claims is placed exactly if there is a way, by brute force.

use phalanx::claims::Cel;
use phalanx::model::{
    ClaimSpec, CounterSet, CounterUse, DeviceClass, DeviceDemand, ResourceClaim, ResourceSlice,
    SliceDevice,
};
use phalanx::place::UnplacedKind;
use phalanx::plugins::DynamicResources;
use phalanx::{Cluster, Framework, Node, Outcome, Pod, PodGroup, Quantity, place_gang};

use super::brute::{Claim, Gpu, World, fits};

const DRIVER: &str = "gpu.example.com";

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    /// One below a number.
    fn below(&mut self, sides: u64) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % sides) as usize
    }
}

fn world(dice: &mut Dice) -> World {
    let partitioned = dice.below(3) == 0;
    let nodes = 1 + dice.below(3);
    let gpu = |dice: &mut Dice| Gpu {
        model: dice.below(2),
        island: dice.below(2),
        parts: if partitioned { 1 + dice.below(3) as i64 } else { 0 },
    };
    let node = |dice: &mut Dice| {
        let devices = 1 + dice.below(4);
        (0..devices).map(|_| gpu(dice)).collect()
    };
    let nodes = (0..nodes).map(|_| node(dice)).collect();
    let ask = |dice: &mut Dice| {
        let model = dice.below(3);
        (1 + dice.below(2), (model < 2).then_some(model))
    };
    let mut claims = Vec::new();
    let pods = 1 + dice.below(4);
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
        cluster.add_node(Node::new(&name).capacity("cpu", world.slots as i64)).unwrap();
        let mut slice = ResourceSlice::on(name.as_str(), DRIVER);
        slice.slice_count = 2;
        let mut counters = slice.clone();
        counters.name.push_str("-counters");
        let amount = |amount: i64| [(String::from("parts"), Quantity::from(amount))].into();
        counters.counters.push(CounterSet { name: "set".into(), counters: amount(world.counter) });
        cluster.set_resource_slice(counters);
        for (number, gpu) in gpus.iter().enumerate() {
            let mut device = SliceDevice::new(format!("gpu-{number}"))
                .attribute("model", gpu.model as i64)
                .attribute("island", gpu.island as i64);
            if gpu.parts > 0 {
                device.consumes.push(CounterUse { set: "set".into(), counters: amount(gpu.parts) });
            }
            slice = slice.device(device);
        }
        cluster.set_resource_slice(slice);
    }
    for (number, claim) in world.claims.iter().enumerate() {
        let mut spec = ClaimSpec::new();
        for (at, ask) in claim.requests.iter().enumerate() {
            let alternatives = ask.iter().enumerate().map(|(place, (count, model))| {
                let mut demand = DeviceDemand::of("gpu", *count as u64);
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

#[test]
fn gangs_are_placed_exactly_where_brute_force_finds_a_way() {
    let framework =
        DynamicResources::add_to(Framework::default().to_builder(), Cel).build().unwrap();
    let worlds = std::env::var("PHALANX_WORLDS").ok().and_then(|worlds| worlds.parse().ok());
    let (mut placed, mut refused) = (0, 0);
    for seed in 0..worlds.unwrap_or(1_500) {
        let world = world(&mut Dice(seed));
        let (mut cluster, gang) = built(&world);
        let outcome = place_gang(&cluster, &framework, &gang).unwrap();
        let expected = fits(&world);
        match &outcome {
            Outcome::Placed(plan) => {
                assert!(expected, "{seed}: {world:?}");
                assert_eq!(plan.len(), world.pods.len(), "{seed}");
                cluster.commit(&framework, plan).unwrap();
                placed += 1;
            }
            Outcome::Unplaced(unplaced) => {
                assert!(!expected, "{seed}: {world:?}");
                assert_eq!(unplaced.kind, UnplacedKind::Infeasible, "{seed}");
                refused += 1;
            }
            other => panic!("{seed}: {other:?}"),
        }
    }
    assert!(placed > 300 && refused > 300, "{placed} {refused}");
}
