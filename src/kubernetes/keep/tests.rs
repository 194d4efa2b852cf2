use super::*;

#[test]
fn what_fills_a_dump_is_skipped() {
    let spec = OBJECT.field("spec").unwrap();
    let container = spec.field("containers").unwrap();
    assert!(container.field("resources").is_some());
    assert!(container.field("env").is_none() && container.field("command").is_none());
    let template = spec.field("template").unwrap();
    let inner = template.field("spec").unwrap().field("containers").unwrap();
    assert!(inner.field("resources").is_some() && inner.field("env").is_none());
    let metadata = OBJECT.field("metadata").unwrap();
    assert!(metadata.field("managedFields").is_none());
    assert!(metadata.field("labels").unwrap().field("env").is_some());
    let annotations = metadata.field("annotations").unwrap();
    assert!(annotations.field("kai.scheduler/topology").is_some());
    assert!(annotations.field("kubectl.kubernetes.io/last-applied-configuration").is_none());
}

#[test]
fn fields_that_are_not_known_are_kept() {
    let spec = OBJECT.field("spec").unwrap();
    assert!(spec.field("somethingNew").unwrap().field("inside").is_some());
}
