//! Effective requests of a pod with several containers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::Problem;
use super::resources::{Amounts, CPU, DEFAULT_MEMORY, MEMORY, amount_of};
use crate::base::Quantity;

/// Quantities by resource name, before rounding.
pub type Quantities = BTreeMap<String, Quantity>;

/// A container's share in its pod's requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Container {
    /// Requests, by resource.
    pub requests: Quantities,
    /// An init container that keeps running (`restartPolicy: Always`). Only read of init
    /// containers.
    pub sidecar: bool,
}

impl Container {
    /// A container that asks for nothing.
    pub fn new() -> Container {
        Container::default()
    }

    /// Sets what it asks for of a resource.
    #[must_use]
    pub fn request(mut self, resource: impl Into<String>, quantity: Quantity) -> Container {
        self.requests.insert(resource.into(), quantity);
        self
    }

    /// Makes it an init container that keeps running.
    #[must_use]
    pub fn sidecar(mut self) -> Container {
        self.sidecar = true;
        self
    }
}

impl PodResources {
    /// A pod without containers.
    pub fn new() -> PodResources {
        PodResources::default()
    }

    /// Adds a container.
    #[must_use]
    pub fn container(mut self, container: Container) -> PodResources {
        self.containers.push(container);
        self
    }

    /// Adds an init container.
    #[must_use]
    pub fn init_container(mut self, container: Container) -> PodResources {
        self.init_containers.push(container);
        self
    }

    /// Sets what the pod as a whole requests of a resource.
    #[must_use]
    pub fn pod_level(mut self, resource: impl Into<String>, quantity: Quantity) -> PodResources {
        self.pod_level.insert(resource.into(), quantity);
        self
    }

    /// Sets what running the pod costs of a resource beside its containers.
    #[must_use]
    pub fn overhead(mut self, resource: impl Into<String>, quantity: Quantity) -> PodResources {
        self.overhead.insert(resource.into(), quantity);
        self
    }
}

/// The parts of a pod that its requests are computed from.
///
/// [`PodResources::effective`] applies Kubernetes' rule. It takes the larger of two amounts: what
/// the containers and sidecars ask for together, and what any init container asks for beside the
/// sidecars started before it. Then it adds the requests of the pod as a whole, then overhead. Sums
/// are exact, and each resource is rounded up once.
///
/// Source: `k8s.io/component-helpers/resource`, `PodRequests`.
///
/// ```
/// use phalanx::model::{Container, PodResources};
///
/// let container = |cpu: &str| Container::new().request("cpu", cpu.parse().unwrap());
/// let pod = PodResources::new()
///     .container(container("500m"))
///     .container(container("250m"))
///     .init_container(container("2"));
/// assert_eq!(pod.effective().unwrap().requests.of("cpu"), 2_000);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PodResources {
    /// Containers that run side by side.
    pub containers: Vec<Container>,
    /// Init containers, in order.
    pub init_containers: Vec<Container>,
    /// Requests of the pod as a whole. Honoured for `cpu`, `memory` and `hugepages-*`.
    pub pod_level: Quantities,
    /// Cost of running the pod beside its containers.
    pub overhead: Quantities,
}

/// A pod's requests, computed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EffectiveRequests {
    /// Amounts that the pod takes of a node.
    pub requests: Amounts,
    /// CPU (thousandths) and memory (bytes) that scoring counts for the pod once it runs:
    /// with defaults where containers ask for none.
    pub existing: [i64; 2],
    /// Amounts that scores count for the pod while it is being placed: requests of the pod as a whole
    /// are ignored, and CPU and memory have the defaults.
    pub incoming: Amounts,
}

impl PodResources {
    /// The pod's requests as a whole. O(containers × resources).
    ///
    /// # Errors
    /// A quantity is negative, or a sum does not fit 64 bits.
    pub fn effective(&self) -> Result<EffectiveRequests, Problem> {
        let exact = self.combine(&Quantities::new(), true)?;
        let requests = amounts(&exact)?;
        let missing: Quantities = defaults()
            .into_iter()
            .filter(|(name, _)| {
                self.pod_level_names().next().is_none() || !exact.contains_key(name)
            })
            .collect();
        let existing = amounts(&self.combine(&missing, true)?)?;
        let incoming = amounts(&self.combine(&defaults(), false)?)?;
        Ok(EffectiveRequests {
            requests,
            existing: [existing.of(CPU), existing.of(MEMORY)],
            incoming,
        })
    }

    /// The sum of the containers' requests, before rounding: without the requests of the pod as a
    /// whole, and without overhead.
    ///
    /// # Errors
    /// A quantity is negative, or a sum is beyond the limit of quantities.
    pub fn of_containers(&self) -> Result<Quantities, Problem> {
        let mut containers = self.clone();
        containers.overhead.clear();
        containers.combine(&Quantities::new(), false)
    }

    fn pod_level_names(&self) -> impl Iterator<Item = &String> {
        self.pod_level
            .keys()
            .filter(|name| matches!(name.as_str(), CPU | MEMORY) || name.starts_with("hugepages-"))
    }

    fn combine(&self, defaults: &Quantities, pod_level: bool) -> Result<Quantities, Problem> {
        let with_defaults = |container: &Container| {
            let mut requests = container.requests.clone();
            for (name, quantity) in defaults {
                requests.entry(name.clone()).or_insert(*quantity);
            }
            requests
        };
        let mut running = Quantities::new();
        let mut sidecars = Quantities::new();
        let mut peak = Quantities::new();
        for container in &self.containers {
            add(&mut running, &with_defaults(container))?;
        }
        for container in &self.init_containers {
            let own = with_defaults(container);
            let mut beside = own.clone();
            add(&mut beside, &sidecars)?;
            raise(&mut peak, &beside);
            if container.sidecar {
                add(&mut sidecars, &own)?;
            }
        }
        add(&mut running, &sidecars)?;
        raise(&mut running, &peak);
        if pod_level {
            for name in self.pod_level_names() {
                running.insert(name.clone(), self.pod_level[name]);
            }
        }
        add(&mut running, &self.overhead)?;
        Ok(running)
    }
}

fn defaults() -> Quantities {
    [
        (String::from(CPU), Quantity::from_milli(super::resources::DEFAULT_CPU)),
        (String::from(MEMORY), Quantity::from(DEFAULT_MEMORY)),
    ]
    .into()
}

fn add(sum: &mut Quantities, more: &Quantities) -> Result<(), Problem> {
    for (name, quantity) in more {
        if quantity.is_negative() {
            return Err(Problem::Negative);
        }
        let entry = sum.entry(name.clone()).or_default();
        *entry = entry.checked_add(*quantity).ok_or(Problem::Overflow)?;
    }
    Ok(())
}

fn raise(peak: &mut Quantities, to: &Quantities) {
    for (name, quantity) in to {
        let entry = peak.entry(name.clone()).or_default();
        *entry = (*entry).max(*quantity);
    }
}

fn amounts(exact: &Quantities) -> Result<Amounts, Problem> {
    let mut amounts = Amounts::new();
    for (name, quantity) in exact {
        amounts.set(name, amount_of(name, *quantity)?);
    }
    Ok(amounts)
}

#[cfg(test)]
mod tests;
