//! The filter for attach limits.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::of_claims;
use crate::ObjectName;
use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use crate::model::{AttachLimits, PodShape, PodVolume};
use crate::state::{Cluster, NodeView, PodView, Storage};

/// Lets a pod on nodes that can attach its volumes. No driver may have more than its limit there,
/// counted with the volumes of running pods and with those that are attached or about to be.
///
/// A volume that a pod of the node uses already is attached, and costs nothing more. One that is
/// attached and used by no pod there counts twice, as in kube-scheduler. A transaction that evicts
/// the last pod which uses it detaches it. A claim that is not bound counts for the provisioner of
/// its class. A volume of a plug-in counts for a driver where the plug-in has migrated, whether the
/// pod or a persistent volume names it.
///
/// O(volumes of the node's pods) a node.
///
/// Source: kube-scheduler, `nodevolumelimits/csi.go`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeVolumeLimits;

/// A driver, and the name of a volume there.
type Handle = (String, String);

/// The volumes that the pod has attached, and those that are attached by node.
struct Attached {
    /// Volumes of claims.
    own: BTreeSet<Handle>,
    /// Whether there are volumes that count where their plug-ins have migrated.
    may_migrate: bool,
    by_node: BTreeMap<String, Vec<Handle>>,
}

/// The driver that attaches the volume of a claim to a node with these limits, and its name there;
/// `None` if it does not count.
fn handle(
    storage: &Storage,
    limits: Option<&AttachLimits>,
    namespace: &str,
    name: &str,
) -> Option<Handle> {
    let claim = storage.claim(namespace, name)?;
    let volume = Some(&*claim.volume).filter(|volume| !volume.is_empty());
    if let Some(volume) = volume.and_then(|volume| storage.volume(volume)) {
        let driver = volume.driver_on(limits)?;
        return Some((driver.driver.clone(), driver.handle.clone()));
    }
    let class = storage.class(&claim.class).filter(|_| !claim.class.is_empty())?;
    Some((class.provisioner.clone(), ObjectName::new(namespace, name).into()))
}

fn handles<'a>(
    storage: &'a Storage,
    limits: Option<&'a AttachLimits>,
    pod: &'a PodShape,
) -> impl Iterator<Item = Handle> + use<'a> {
    let claims = pod.volumes.iter().filter_map(|volume| volume.claim());
    claims.filter_map(move |claim| handle(storage, limits, &pod.namespace, claim))
}

/// Whether a claim is bound to a volume that a driver may serve in place of a plug-in.
fn has_migrating(storage: &Storage, pod: &PodShape) -> bool {
    let claims = pod.volumes.iter().filter_map(|volume| volume.claim());
    let mut claims = claims.filter_map(|name| storage.claim(&pod.namespace, name));
    claims
        .any(|claim| storage.volume(&claim.volume).is_some_and(|volume| volume.migrated.is_some()))
}

/// The volumes of a pod's plug-ins that drivers serve on a node with these limits.
fn migrated<'a>(
    limits: &'a AttachLimits,
    pod: &'a PodShape,
) -> impl Iterator<Item = Handle> + use<'a> {
    let own = pod.volumes.iter().filter_map(|volume| volume.migrated(limits));
    own.map(|volume| (volume.driver.clone(), volume.handle.clone()))
}

fn may_migrate(pod: &PodShape) -> bool {
    pod.volumes.iter().any(|volume| matches!(volume, PodVolume::Migrated { .. }))
}

fn attached_by_node(cluster: &Cluster) -> BTreeMap<String, Vec<Handle>> {
    let storage = cluster.storage();
    let mut by_node: BTreeMap<String, Vec<Handle>> = BTreeMap::new();
    for attachment in storage.attachments().filter(|attached| !storage.is_leaving(attached)) {
        let volume = storage.volume(&attachment.volume);
        if let Some(driver) = volume.and_then(|volume| volume.driver.as_ref()) {
            let handle = (attachment.driver.clone(), driver.handle.clone());
            by_node.entry(attachment.node.clone()).or_default().push(handle);
        }
    }
    by_node
}

impl FilterPlugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        "NodeVolumeLimits"
    }

    fn skips_plain_pods(&self) -> bool {
        true
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        if may_migrate(pod) { Declaration::cluster() } else { of_claims(pod) }
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        let (pod, cluster) = (cx.pod(), cx.cluster());
        if pod.volumes.is_empty() {
            return FilterPreparation::Skip;
        }
        let own: BTreeSet<Handle> = handles(cluster.storage(), None, pod).collect();
        let may_migrate = may_migrate(pod) || has_migrating(cluster.storage(), pod);
        if own.is_empty() && !may_migrate {
            return FilterPreparation::Skip;
        }
        let by_node = attached_by_node(cluster);
        FilterPreparation::ready(Attached { own, may_migrate, by_node })
    }
}

impl PreparedFilter for Attached {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let storage = cx.cluster().storage();
        let Some(limits) = storage.limits(node.name()) else { return Verdict::Pass };
        let limited = limits.drivers.iter().filter_map(|(driver, limit)| Some((driver, (*limit)?)));
        let mut own = Cow::Borrowed(&self.own);
        if self.may_migrate {
            let of_claims = handles(storage, Some(limits), cx.pod());
            own.to_mut().extend(migrated(limits, cx.pod()).chain(of_claims));
        }
        let mut limited = limited.filter(|(driver, _)| own.iter().any(|own| own.0 == **driver));
        let Some(first) = limited.next() else { return Verdict::Pass };
        let there = node.pods().map(PodView::shape);
        let used: BTreeSet<Handle> = there
            .flat_map(|shape| handles(storage, Some(limits), shape).chain(migrated(limits, shape)))
            .collect();
        let attached: BTreeSet<&Handle> = self
            .by_node
            .get(node.name())
            .into_iter()
            .flatten()
            .filter(|handle| !used.contains(*handle))
            .collect();
        let fits = |(driver, limit): (&String, i64)| {
            let of = |handle: &&Handle| handle.0 == *driver;
            let new = own.iter().filter(|own| of(own) && !used.contains(*own)).count();
            let there = used.iter().filter(of).count()
                + attached.iter().filter(|handle| handle.0 == *driver).count();
            new == 0 || there.saturating_add(new) as i64 <= limit
        };
        Verdict::pass_if(core::iter::once(first).chain(limited).all(fits))
    }
}

#[cfg(test)]
mod tests;
