//! `Deployment` and `ReplicaSet` of `apps`, and `ReplicationController`.

use alloc::vec;

use super::submitted::{Minimum, Role, Submitted, count};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::WorkloadKind;

/// So many pods of one template, each by itself. An object without a template makes none.
pub(super) fn replicated(kind: WorkloadKind, root: &Field<'_>) -> Fault<Submitted> {
    let mut set = Submitted::new(kind, root)?;
    let Some(spec) = root.get("spec")? else { return Ok(set.without_pods()) };
    let Some(template) = spec.get("template")? else { return Ok(set.without_pods()) };
    let pods = count(&spec, "replicas", 1)?;
    set.count_pods(pods, &spec, "replicas")?;
    let template = set.template(&template)?;
    let name = set.workload.name.clone();
    set.add_group(name.clone(), vec![Role::new("main", pods, name, template)], Minimum::Any);
    // Earlier revisions of a deployment are kept without pods.
    if pods == 0 && set.controller.is_some() {
        return Ok(set.without_pods());
    }
    Ok(set.finish())
}
