use alloc::format;
use alloc::string::ToString;

use super::*;

#[test]
fn reasons_without_nodes_are_not_told() {
    let room = KueueRoom::Layers([LayerRoom { level: "rack".into(), fits: 1, of: 2 }].into());
    let mut no_fit = NoFit { room, nodes_considered: 5, excluded: Exclusions::default() };
    let plain = no_fit.to_string();
    assert!(plain.contains("1 of 2 slices fit at rack") && !plain.contains("nodes"), "{plain}");
    no_fit.excluded.affinity = 2;
    let told = format!("{plain}; of 5 nodes, 2 do not match the affinity");
    assert_eq!(no_fit.to_string(), told);
    no_fit.excluded.taints.insert("a=b:NoSchedule".into(), 1);
    no_fit.excluded.resources.insert("cpu".into(), 3);
    no_fit.excluded.affinity = 0;
    let taint = "1 have the taint a=b:NoSchedule";
    let told = format!("{plain}; of 5 nodes, {taint}, 3 lack cpu");
    assert_eq!(no_fit.to_string(), told);
}
