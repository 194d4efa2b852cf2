use super::*;

fn cpu(amount: f64) -> Resources {
    Resources::new(amount, 0.0)
}

fn wants(name: &str, weight: f64, amount: f64) -> Attributes {
    Attributes { weight, request: cpu(amount), ..Attributes::new(name) }
}

#[test]
fn what_one_does_not_want_goes_to_the_others() {
    let mut queues = [wants("a", 1.0, 1000.0), wants("b", 1.0, 9000.0), wants("c", 2.0, 9000.0)];
    proportion(&cpu(8000.0), &Resources::default(), &mut queues);
    assert_eq!(queues[0].deserved, cpu(1000.0));
    let near = |at: usize, amount: f64| queues[at].deserved.equals(&cpu(amount));
    assert!(near(1, 7000.0 / 3.0) && near(2, 14_000.0 / 3.0), "{queues:?}");
}

#[test]
fn guarantees_are_withheld_from_others() {
    let mut queues = [wants("a", 1.0, 9000.0), wants("b", 1.0, 9000.0)];
    queues[0].guarantee = cpu(3000.0);
    proportion(&cpu(4000.0), &cpu(3000.0), &mut queues);
    assert_eq!(queues[1].real_capability, cpu(1000.0));
    assert!(queues[1].deserved.equals(&cpu(1000.0)), "{queues:?}");
    assert!(queues[0].deserved.equals(&cpu(3000.0)), "{queues:?}");
}

#[test]
fn a_tree_inherits_capability_and_withholds_guarantees_level_by_level() {
    let mut queues = BTreeMap::new();
    let mut add = |name: &str, parent: &str, capability: f64, guarantee: f64| {
        let queue = Attributes {
            parent: parent.into(),
            capability: (capability > 0.0).then(|| cpu(capability)),
            guarantee: cpu(guarantee),
            ..Attributes::new(name)
        };
        queues.insert(name.into(), queue);
    };
    add(ROOT, "", 0.0, 0.0);
    add("dept", "", 6000.0, 0.0);
    add("a", "dept", 0.0, 2000.0);
    add("b", "dept", 9000.0, 0.0);
    assert!(capacity_tree(&cpu(8000.0), &mut queues));
    assert_eq!(queues["a"].real_capability.milli_cpu, 6000.0);
    assert_eq!(queues["b"].real_capability.milli_cpu, 4000.0);
    queues.get_mut("dept").expect("there").parent = "b".into();
    assert!(!capacity_tree(&cpu(8000.0), &mut queues), "a circle");
}
