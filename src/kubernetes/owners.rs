//! Services and controllers: the pods that default spread constraints count.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::affinity::label_selector;
use super::field::{Fault, Field};
use super::metadata::{self, Controller};
use super::pod::PodRecord;
use crate::base::hash::FixedMap;
use crate::model::{LabelSelector, Labels, PodShape};

/// The kind of services, among those of controllers.
pub(super) const SERVICE: &str = "Service";

/// The selectors of services and controllers.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By namespace and name.
    services: BTreeMap<String, BTreeMap<String, Labels>>,
    /// By kind, namespace and name.
    controllers: BTreeMap<(String, String, String), LabelSelector>,
}

impl Owners {
    /// Takes a service or a controller; an earlier one of its kind and name is forgotten.
    pub(super) fn take(&mut self, kind: &str, root: &Field<'_>) -> Fault<()> {
        self.forget(kind, &metadata::namespace(root)?, &metadata::name(root)?);
        match kind {
            SERVICE => self.service(root),
            _ => self.controller(kind, root),
        }
    }

    /// Forgets a service or a controller.
    pub(super) fn forget(&mut self, kind: &str, namespace: &str, name: &str) {
        if kind != SERVICE {
            self.controllers.remove(&(kind.into(), namespace.into(), name.into()));
        } else if let Some(services) = self.services.get_mut(namespace) {
            services.remove(name);
            if services.is_empty() {
                self.services.remove(namespace);
            }
        }
    }

    pub(super) fn service(&mut self, root: &Field<'_>) -> Fault<()> {
        let name = metadata::name(root)?;
        let Some(spec) = root.get("spec")? else { return Ok(()) };
        if spec.get("selector")?.is_some() {
            let selector = spec.labels("selector")?;
            let own = self.services.entry(metadata::namespace(root)?).or_default();
            own.insert(name, selector);
        }
        Ok(())
    }

    pub(super) fn controller(&mut self, kind: &str, root: &Field<'_>) -> Fault<()> {
        let (name, namespace) = (metadata::name(root)?, metadata::namespace(root)?);
        let Some(spec) = root.get("spec")? else { return Ok(()) };
        let selector = if kind == "ReplicationController" {
            Some(LabelSelector {
                match_labels: spec.labels("selector")?,
                ..LabelSelector::default()
            })
        } else {
            label_selector(&spec, "selector")?
        };
        if let Some(selector) = selector {
            self.controllers.insert((kind.into(), namespace, name), selector);
        }
        Ok(())
    }

    /// Fills in [`PodShape::owner_selector`], once for each shape and controller.
    pub(super) fn apply(&self, pods: &mut [PodRecord]) {
        if self.services.is_empty() && self.controllers.is_empty() {
            return;
        }
        let mut done: FixedMap<(usize, Option<Controller>), Arc<PodShape>> = FixedMap::default();
        // Shapes that were replaced stay alive until the end, so that no address is used twice.
        let mut replaced = Vec::new();
        for record in pods {
            let shape = record.pod.shape();
            let identity = (Arc::as_ptr(shape) as usize, record.controller.as_deref().cloned());
            let new = if let Some(new) = done.get(&identity) {
                new.clone()
            } else {
                let mut new = shape.clone();
                let selector = self.selector(shape, identity.1.as_ref());
                if selector.is_some() {
                    Arc::make_mut(&mut new).owner_selector = selector;
                }
                replaced.push(shape.clone());
                done.insert(identity, new.clone());
                new
            };
            record.pod = core::mem::take(&mut record.pod).with_shape(new);
        }
    }

    /// Selectors of the services and of the controller that a pod belongs to, as one; `None` if there
    /// are none. O(services of the namespace).
    ///
    /// Source: `k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper`, `DefaultSelector`.
    pub(super) fn selector(
        &self,
        shape: &PodShape,
        controller: Option<&Controller>,
    ) -> Option<LabelSelector> {
        let mut merged = LabelSelector::default();
        let services = self.services.get(&shape.namespace).into_iter().flatten();
        for selector in services.map(|(_, selector)| selector) {
            if selector.iter().all(|(key, value)| shape.labels.get(key) == Some(value)) {
                merged.match_labels.extend(selector.clone());
            }
        }
        if let Some((kind, name)) = controller {
            let identity = (kind.clone(), shape.namespace.clone(), name.clone());
            if let Some(owner) = self.controllers.get(&identity)
                && owner.check().is_ok()
            {
                for (key, value) in &owner.match_labels {
                    merged.match_labels.insert(key.clone(), value.clone());
                }
                merged.match_expressions.extend(owner.match_expressions.iter().cloned());
            }
        }
        (!merged.is_empty()).then_some(merged)
    }
}
