//! Volumes of plug-ins, as the drivers have them that stand in for the plug-ins.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::kubernetes::field::{Fault, Field};
use crate::model::{
    DriverVolume, MigratedVolume, NodeSelector, NodeSelectorTerm, Operator, PodVolume, Requirement,
    Volume,
};

/// A plug-in that has given way to a driver.
struct Plugin {
    /// The field of a volume, and of the volume's name in it.
    field: &'static str,
    volume: &'static str,
    name: &'static str,
    driver: &'static str,
    /// The driver's label of zones; empty if it has none.
    zone: &'static str,
}

impl Plugin {
    /// The name that the driver has for a volume, if nothing is known of its zone.
    fn handle(&self, name: &str) -> String {
        match self.field {
            "gcePersistentDisk" => {
                format!("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{name}")
            }
            // Volumes of EBS may be written with their zone: `aws://zone/vol-1`.
            "awsElasticBlockStore" if name.starts_with("aws://") => {
                name.rsplit('/').next().unwrap_or_default().into()
            }
            _ => name.into(),
        }
    }
}

#[rustfmt::skip]
const PLUGINS: [Plugin; 5] = [
    Plugin { field: "gcePersistentDisk", volume: "pdName", name: "kubernetes.io/gce-pd", driver: "pd.csi.storage.gke.io", zone: "topology.gke.io/zone" },
    Plugin { field: "awsElasticBlockStore", volume: "volumeID", name: "kubernetes.io/aws-ebs", driver: "ebs.csi.aws.com", zone: "topology.ebs.csi.aws.com/zone" },
    Plugin { field: "azureDisk", volume: "diskURI", name: "kubernetes.io/azure-disk", driver: "disk.csi.azure.com", zone: "topology.disk.csi.azure.com/zone" },
    Plugin { field: "cinder", volume: "volumeID", name: "kubernetes.io/cinder", driver: "cinder.csi.openstack.org", zone: "topology.cinder.csi.openstack.org/zone" },
    Plugin { field: "portworxVolume", volume: "volumeID", name: "kubernetes.io/portworx-volume", driver: "pxd.portworx.com", zone: "" },
];

/// The volume that a driver serves in place of a plug-in.
///
/// Source: csi-translation-lib, translation of inline volumes.
pub(super) fn of_plugin(volume: &Field<'_>) -> Fault<Option<PodVolume>> {
    for plugin in &PLUGINS {
        let Some(of) = volume.get(plugin.field)? else { continue };
        let handle = plugin.handle(&of.text_of(plugin.volume)?);
        let volume = DriverVolume { driver: plugin.driver.into(), handle };
        return Ok(Some(PodVolume::Migrated { plugin: plugin.name.into(), volume }));
    }
    Ok(None)
}

/// The volume that a driver serves in place of a plug-in, if the volume is of one.
///
/// Source: csi-translation-lib, translation of persistent volumes.
pub(super) fn migrated(spec: &Field<'_>, volume: &Volume) -> Fault<Option<MigratedVolume>> {
    for plugin in &PLUGINS {
        let Some(of) = spec.get(plugin.field)? else { continue };
        let handle = match plugin.field {
            "gcePersistentDisk" => match disk_of_zones(volume, &of.text_of(plugin.volume)?) {
                // Zones of two regions: the driver cannot name the disk.
                None => return Ok(None),
                Some(handle) => handle,
            },
            _ => plugin.handle(&of.text_of(plugin.volume)?),
        };
        let mut own = MigratedVolume::new(plugin.name, plugin.driver, handle);
        own.node_affinity.clone_from(&volume.node_affinity);
        if !plugin.zone.is_empty() {
            translate(volume, plugin.zone, &mut own.node_affinity);
        }
        return Ok(Some(own));
    }
    Ok(None)
}

/// Labels of zones, of which the first is preferred, each with the label of the region beside it.
const ZONES: [[&str; 2]; 2] = [
    ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"],
    ["failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"],
];

/// The handle of a disk of Google: its zone or region is in it, as the labels of the volume say.
fn disk_of_zones(volume: &Volume, name: &str) -> Option<String> {
    let labels = [ZONES[1][0], ZONES[0][0]].into_iter().filter_map(|key| volume.labels.get(key));
    let zones = labels.map(|value| &**value).find(|value| !value.is_empty()).unwrap_or_default();
    let zones: Vec<&str> = zones.split("__").collect();
    let place = match &zones[..] {
        [""] => String::from("zones/UNSPECIFIED"),
        [only] => format!("zones/{only}"),
        several => {
            let region = |zone: &&str| match zone.split('-').collect::<Vec<_>>()[..] {
                [place, region, _] => Some(format!("{place}-{region}")),
                _ => None,
            };
            let mut regions = several.iter().map(region);
            let first = regions.next()??;
            if regions.any(|other| other.as_ref() != Some(&first)) {
                return None;
            }
            format!("regions/{first}")
        }
    };
    Some(format!("projects/UNSPECIFIED/{place}/disks/{name}"))
}

/// Puts the driver's label of zones in the place of the common one. If the affinity names no zone, the
/// labels of the volume do.
fn translate(volume: &Volume, key: &str, affinity: &mut Option<NodeSelector>) {
    let names = |label: &str| {
        let terms = volume.node_affinity.iter().flat_map(|affinity| &affinity.terms);
        let mut rules = terms.flat_map(|term| &term.match_expressions);
        rules.any(|rule| rule.key == label)
    };
    let in_affinity = ZONES.iter().find(|[zone, _]| names(zone));
    let in_labels = || ZONES.iter().find(|[zone, _]| volume.labels.contains_key(*zone));
    let [zone, region] = in_affinity.or_else(in_labels).unwrap_or(&ZONES[0]);
    let rules_of = |affinity: &mut Option<NodeSelector>, from: &str, to: &str| {
        let terms = affinity.iter_mut().flat_map(|affinity| &mut affinity.terms);
        for rule in terms.flat_map(|term| &mut term.match_expressions) {
            if rule.key == from {
                rule.key = to.into();
            }
        }
    };
    let has_values = affinity.iter().flat_map(|affinity| &affinity.terms).any(|term| {
        term.match_expressions.iter().any(|rule| rule.key == *zone && !rule.values.is_empty())
    });
    if has_values {
        rules_of(affinity, zone, key);
    } else if let Some(label) = volume.labels.get(*zone) {
        let zones: BTreeSet<&str> =
            label.split("__").map(str::trim).filter(|zone| !zone.is_empty()).collect();
        if !zones.is_empty() {
            let rule = Requirement::new(key, Operator::In, zones);
            let all = affinity.get_or_insert_with(|| NodeSelector::any_of([]));
            if all.terms.is_empty() {
                all.terms.push(NodeSelectorTerm::default());
            }
            for term in &mut all.terms {
                term.match_expressions.push(rule.clone());
            }
        }
    }
    if *region == ZONES[1][1] {
        rules_of(affinity, region, ZONES[0][1]);
    }
}
