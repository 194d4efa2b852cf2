use super::*;

fn range(min: i64, max: i64, step: i64) -> DeviceCapacity {
    let [min, max, step] = [min, max, step].map(|of| Some(Quantity::from(of)));
    let rule = PolicyRule::Range { min, max, step };
    let policy = Some(RequestPolicy { default: Some(Quantity::from(7)), rule });
    DeviceCapacity { value: Quantity::from(100), policy }
}

#[test]
fn amounts_are_rounded_up_to_what_the_policy_allows() {
    let device = |capacity: DeviceCapacity| SliceDevice {
        capacity: [(String::from("memory"), capacity)].into(),
        ..SliceDevice::default()
    };
    let taken = |capacity: DeviceCapacity, asked: Option<i64>| {
        let asked = asked.map(|asked| (String::from("memory"), Quantity::from(asked)));
        let taken = consumption(&device(capacity), &asked.into_iter().collect())?;
        Some(taken["memory"].ceil())
    };
    assert_eq!(taken(range(10, 50, 10), Some(1)), Some(10));
    assert_eq!(taken(range(10, 50, 10), Some(21)), Some(30));
    assert_eq!(taken(range(10, 50, 10), Some(51)), None);
    assert_eq!(taken(range(10, 50, 10), None), Some(7));
    let values = PolicyRule::Values([4, 16].map(Quantity::from).into());
    let policy = Some(RequestPolicy { default: None, rule: values });
    let capacity = DeviceCapacity { value: Quantity::from(64), policy };
    assert_eq!(taken(capacity.clone(), Some(5)), Some(16));
    assert_eq!(taken(capacity.clone(), Some(17)), None);
    assert_eq!(taken(capacity, None), None);
    let free = DeviceCapacity { value: Quantity::from(64), policy: None };
    assert_eq!(taken(free, None), Some(64));
}
