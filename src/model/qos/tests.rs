use super::*;

#[test]
fn labels_count_before_priorities_and_those_before_classes() {
    let labels = |pairs: &[(&str, &str)]| -> Labels {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    };
    let of = |pairs: &[(&str, &str)], priority| {
        PriorityBand::of_pod(&labels(pairs), priority, KubernetesQos::Burstable)
    };
    assert_eq!(of(&[], None), PriorityBand::Prod);
    assert_eq!(of(&[(QOS_LABEL, "BE")], None), PriorityBand::Batch);
    assert_eq!(of(&[(QOS_LABEL, "BE")], Some(7_100)), PriorityBand::Mid);
    assert_eq!(of(&[(PRIORITY_CLASS_LABEL, "koord-free")], Some(7_100)), PriorityBand::Free);
    // A name that is not known leaves the priority out too.
    assert_eq!(of(&[(PRIORITY_CLASS_LABEL, "odd")], Some(7_100)), PriorityBand::Prod);
}

#[test]
fn a_shape_keeps_what_is_written_into_it() {
    let mut limits = Amounts::new();
    limits.set(CPU, 2_000);
    let pod = Pod::new().request(CPU, "1").priority(5_100).in_band(&limits);
    assert_eq!(pod.shape().band(), PriorityBand::Batch);
    assert_eq!((pod.shape().limit(CPU), pod.shape().limit(MEMORY)), (2_000, 0));
    assert_eq!(Pod::new().shape().band(), PriorityBand::Batch);
    assert_eq!(Pod::new().request(CPU, "1").shape().band(), PriorityBand::Prod);
    assert_eq!(Pod::new().shape().band_with(9_100), PriorityBand::Prod);
}

#[test]
fn names_of_classes_and_bands_are_read_back() {
    use QosClass::{Be, Ls, Lse, Lsr, System};
    for (class, name) in [(Lse, "LSE"), (Lsr, "LSR"), (Ls, "LS"), (Be, "BE"), (System, "SYSTEM")] {
        assert_eq!((class.as_str(), QosClass::from_name(name)), (name, Some(class)));
    }
    assert_eq!((QosClass::from_name("lsr"), QosClass::from_name("")), (None, None));
    for band in [PriorityBand::Prod, PriorityBand::Mid, PriorityBand::Batch, PriorityBand::Free] {
        assert_eq!(PriorityBand::from_name(band.as_str()), Some(band));
        // The priority of those who state the band alone is in that band.
        assert_eq!(PriorityBand::of_priority(band.default_priority()), Some(band));
    }
}

#[test]
fn a_priority_that_is_unset_is_that_of_the_band() {
    assert_eq!(priority_or_default(Some(5_100), PriorityBand::Prod), 5_100);
    assert_eq!(priority_or_default(Some(-3), PriorityBand::Prod), -3);
    assert_eq!(priority_or_default(Some(0), PriorityBand::Mid), 7_500);
    assert_eq!(priority_or_default(None, PriorityBand::Free), 3_500);
}

#[test]
fn labels_and_annotations_say_who_is_evicted_and_who_preempts() {
    use super::super::PreemptionPolicy::{Never, PreemptLowerPriority};
    let one = |key: &str, value: &str| Labels::from([(key.into(), value.into())]);
    assert_eq!(eviction_priority(&Labels::new()), Ok(0));
    assert_eq!(eviction_priority(&one(EVICTION_PRIORITY, "-20")), Ok(-20));
    assert!(eviction_priority(&one(EVICTION_PRIORITY, "soon")).is_err());
    assert!(is_preemptible(&Labels::new()) && !is_evictable(&Labels::new()));
    assert!(!is_preemptible(&one(DISABLE_PREEMPTIBLE, "true")));
    assert!(is_preemptible(&one(DISABLE_PREEMPTIBLE, "false")));
    assert!(is_evictable(&one(EVICTION_ENABLED, "true")));
    assert!(!is_evictable(&one(EVICTION_ENABLED, "false")));
    let policy = |text| preemption_policy(&one(PREEMPTION_POLICY, text));
    assert_eq!(policy("Never"), Some(Never));
    assert_eq!(policy("PreemptLowerPriority"), Some(PreemptLowerPriority));
    assert_eq!((policy("never"), preemption_policy(&Labels::new())), (None, None));
}

#[test]
fn kubernetes_class_follows_from_requests_and_limits() {
    use KubernetesQos::{BestEffort, Burstable, Guaranteed};
    let class = |requests: [i64; 2], limits: [i64; 2]| {
        let named = |amounts: [i64; 2]| Amounts::from([(CPU, amounts[0]), (MEMORY, amounts[1])]);
        let mut pod = Pod::new();
        pod.shape_mut().requests = named(requests);
        pod.in_band(&named(limits)).shape().kubernetes_qos()
    };
    assert_eq!(class([0, 0], [0, 0]), BestEffort);
    assert_eq!(class([1, 2], [1, 2]), Guaranteed);
    assert_eq!(class([1, 2], [1, 3]), Burstable);
    assert_eq!(class([1, 2], [0, 0]), Burstable);
    // Limits of CPU alone guarantee nothing.
    assert_eq!(class([1, 0], [1, 0]), Burstable);
    assert_eq!(class([0, 0], [1, 0]), Burstable);
}
