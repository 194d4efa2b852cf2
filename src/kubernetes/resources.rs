//! Amounts of resources: capacities of nodes and requests of containers.

use alloc::collections::BTreeMap;
use alloc::string::String;

use super::field::{Fault, Field};
use crate::model::effective::{Container, PodResources, Quantities};
use crate::model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, amount_of};
use crate::model::selector::check_key;
use crate::model::{Amounts, Problem};

/// Whether kube-scheduler counts a resource of that name. Any other name is ignored.
///
/// Source: `k8s.io/component-helpers`, `IsScalarResourceName`, and `NodeInfo`.
pub(super) fn counts(name: &str) -> bool {
    matches!(name, CPU | MEMORY | EPHEMERAL_STORAGE)
        || is_hugepages(name)
        || name.starts_with("attachable-volumes-")
        || name.contains("kubernetes.io/")
        || is_extended(name)
}

/// Whether a resource is a share of a card that is read: it is asked of a device, and is no amount
/// of the node.
pub(super) fn is_card_share(name: &str) -> bool {
    const SHARES: [&str; 13] = [
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "volcano.sh/vgpu-number",
        "volcano.sh/vgpu-memory",
        "volcano.sh/vgpu-memory-percentage",
        "volcano.sh/vgpu-cores",
        "koordinator.sh/gpu",
        "koordinator.sh/gpu-core",
        "koordinator.sh/gpu-memory-ratio",
        "koordinator.sh/gpu-memory",
        "koordinator.sh/gpu.shared",
        "koordinator.sh/rdma",
    ];
    SHARES.contains(&name)
}

/// Whether a resource is a share of devices in a dialect, so that counting it says nothing of the
/// device that it is of.
pub(super) fn is_share(name: &str) -> bool {
    let Some((vendor, own)) = name.split_once('/') else { return false };
    if is_card_share(name) {
        return false;
    }
    let by_word = || {
        let own = own.to_ascii_lowercase();
        ["mem", "core", "percentage", "vgpu", "sgpu", "dcunum", "vmlu", "vgcu", "vxpu", "vcuda"]
            .iter()
            .any(|word| own.contains(word))
    };
    match vendor {
        "koordinator.sh" => true,
        "volcano.sh" => own.starts_with("vgpu"),
        "nvidia.com" => own == "vgpu",
        "kubernetes.io" => own.starts_with("gpu"),
        "huawei.com" => own.starts_with("npu-") || own.ends_with("-memory"),
        "dcu.com" | "hygon.com" | "iluvatar.ai" | "mthreads.com" | "cambricon.com"
        | "metax-tech.com" | "kunlunxin.com" | "enflame.com" | "amd.com" => by_word(),
        _ => false,
    }
}

fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether a resource is named after a vendor.
pub(super) fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && check_key(name).is_ok()
}

/// The amounts of a node.
pub(super) fn node_amounts(status: &Field<'_>, name: &str) -> Fault<Option<Amounts>> {
    if status.get(name)?.is_none() {
        return Ok(None);
    }
    let mut amounts = Amounts::new();
    status.entries(name, |resource, field| {
        let quantity = field.quantity()?;
        if field.strict() && !(resource == PODS || counts(resource)) {
            check_key(resource).map_err(|error| field.selector_error(&error))?;
            return Err(field.invalid("is neither a standard resource nor fully qualified"));
        }
        if resource == PODS || counts(resource) {
            let amount = amount_of(resource, quantity).map_err(|problem| field.fail(problem))?;
            amounts.set(resource, amount);
        }
        Ok(())
    })?;
    Ok(Some(amounts))
}

/// A list of quantities as it stands.
fn quantities(of: &Field<'_>, name: &str, sort: Sort) -> Fault<Quantities> {
    let mut quantities = Quantities::new();
    of.entries(name, |resource, field| {
        let quantity = field.quantity()?;
        if quantity.is_negative() {
            return Err(field.fail(Problem::Negative));
        }
        if field.strict() {
            check_resource(&field, resource, sort)?;
            if (is_extended(resource) || is_hugepages(resource))
                && quantity.nanos() % 1_000_000_000 != 0
            {
                return Err(field.invalid("must be an integer"));
            }
        }
        if counts(resource) {
            amount_of(resource, quantity).map_err(|problem| field.fail(problem))?;
            quantities.insert(String::from(resource), quantity);
        }
        Ok(())
    })?;
    Ok(quantities)
}

/// Whose amounts they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Container,
    Pod,
}

fn check_resource(field: &Field<'_>, name: &str, sort: Sort) -> Fault<()> {
    check_key(name).map_err(|error| field.selector_error(&error))?;
    let standard = matches!(name, CPU | MEMORY) || is_hugepages(name);
    let sound = match sort {
        Sort::Pod => standard,
        Sort::Container if name.contains('/') => {
            is_extended(name) || name.contains("kubernetes.io/")
        }
        Sort::Container => standard || name == EPHEMERAL_STORAGE,
    };
    match (sound, sort) {
        (true, _) => Ok(()),
        (false, Sort::Pod) => Err(field.invalid("is not supported for a pod as a whole")),
        (false, Sort::Container) => {
            Err(field.invalid("is neither a standard resource for containers nor an extended one"))
        }
    }
}

/// Requests and limits of a container or of a pod.
fn requests_and_limits(of: &Field<'_>, sort: Sort) -> Fault<(Quantities, Quantities)> {
    let Some(resources) = of.get("resources")? else {
        return Ok((Quantities::new(), Quantities::new()));
    };
    let requests = quantities(&resources, "requests", sort)?;
    if !of.strict() {
        // What is stored has had its limits copied already; the scheduler reads no limits.
        return Ok((requests, Quantities::new()));
    }
    let limits = quantities(&resources, "limits", sort)?;
    resources.entries("requests", |resource, field| {
        let (Some(request), Some(limit)) = (requests.get(resource), limits.get(resource)) else {
            return Ok(());
        };
        if request > limit {
            return Err(field.invalid(alloc::format!("{request} is more than the limit {limit}")));
        }
        if request != limit && (is_extended(resource) || is_hugepages(resource)) {
            return Err(field.invalid(alloc::format!(
                "{request} must equal the limit {limit}: {resource} cannot be overcommitted"
            )));
        }
        Ok(())
    })?;
    Ok((requests, limits))
}

/// Status of a running pod on its containers and itself.
struct Resized {
    /// By container: the largest of what runs and what is granted.
    containers: BTreeMap<String, Quantities>,
    /// The same for the pod as a whole.
    pod: Option<Quantities>,
    /// The resize that the specification asks for cannot be had.
    infeasible: bool,
}

impl Resized {
    fn read(root: &Field<'_>) -> Fault<Resized> {
        let mut resized = Resized { containers: BTreeMap::new(), pod: None, infeasible: false };
        let Some(status) = root.get("status")? else { return Ok(resized) };
        for list in ["containerStatuses", "initContainerStatuses"] {
            status.each(list, |container| {
                if let Some(granted) = granted(&container)? {
                    resized.containers.insert(container.text_of("name")?, granted);
                }
                Ok(())
            })?;
        }
        resized.pod = granted(&status)?;
        status.each("conditions", |condition| {
            resized.infeasible |= condition.text_of("type")? == "PodResizePending"
                && condition.text_of("reason")? == "Infeasible";
            Ok(())
        })?;
        Ok(resized)
    }

    fn apply(&self, spec: Quantities, granted: Option<&Quantities>) -> Quantities {
        let Some(granted) = granted else { return spec };
        let mut largest = granted.clone();
        if !self.infeasible {
            raise(&mut largest, &spec);
        }
        largest
    }
}

/// Amounts that run or are granted; `None` where the status does not tell.
fn granted(status: &Field<'_>) -> Fault<Option<Quantities>> {
    let Some(resources) = status.get("resources")? else { return Ok(None) };
    let mut granted = as_stated(&resources, "requests")?;
    raise(&mut granted, &as_stated(status, "allocatedResources")?);
    Ok(Some(granted))
}

/// Quantities of a status, which no person writes.
fn as_stated(of: &Field<'_>, name: &str) -> Fault<Quantities> {
    let mut quantities = Quantities::new();
    of.entries(name, |resource, field| {
        let quantity = field.quantity()?;
        if quantity.is_negative() {
            return Err(field.fail(Problem::Negative));
        }
        if counts(resource) {
            quantities.insert(String::from(resource), quantity);
        }
        Ok(())
    })?;
    Ok(quantities)
}

fn raise(peak: &mut Quantities, to: &Quantities) {
    for (name, quantity) in to {
        let entry = peak.entry(name.clone()).or_default();
        *entry = (*entry).max(*quantity);
    }
}

/// The parts of a pod that its requests are computed from.
pub(super) fn pod_resources(root: &Field<'_>, spec: &Field<'_>) -> Fault<PodResources> {
    let resized = Resized::read(root)?;
    let mut resources = PodResources::default();
    spec.each("containers", |container| {
        let (mut requests, limits) = requests_and_limits(&container, Sort::Container)?;
        default_to(&mut requests, &limits);
        let granted = resized.containers.get(&container.text_of("name")?);
        let requests = resized.apply(requests, granted);
        resources.containers.push(Container { requests, sidecar: false });
        Ok(())
    })?;
    spec.each("initContainers", |container| {
        let (mut requests, limits) = requests_and_limits(&container, Sort::Container)?;
        default_to(&mut requests, &limits);
        let sidecar = container.text_of("restartPolicy")? == "Always";
        if sidecar {
            let granted = resized.containers.get(&container.text_of("name")?);
            requests = resized.apply(requests, granted);
        }
        resources.init_containers.push(Container { requests, sidecar });
        Ok(())
    })?;
    let (mut pod_level, limits) = requests_and_limits(spec, Sort::Pod)?;
    if spec.strict() && !(pod_level.is_empty() && limits.is_empty()) {
        let of_containers = resources.of_containers().map_err(|problem| spec.fail(problem))?;
        for (name, quantity) in of_containers {
            if matches!(name.as_str(), CPU | MEMORY) {
                pod_level.entry(name).or_insert(quantity);
            }
        }
        default_to(&mut pod_level, &limits);
    }
    resources.pod_level = resized.apply(pod_level, resized.pod.as_ref());
    resources.overhead = quantities(spec, "overhead", Sort::Container)?;
    Ok(resources)
}

/// Copies limits into missing requests.
fn default_to(requests: &mut Quantities, limits: &Quantities) {
    for (name, limit) in limits {
        requests.entry(name.clone()).or_insert(*limit);
    }
}
