//! Topology requests of groups, as their dialects say them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::json;
use crate::kubernetes::metadata::unsupported;
use crate::kubernetes::value::Value;

/// A level, as a dialect names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) enum Level {
    /// A node label key.
    Kueue(String),
    /// A node label key or an alias, of a topology.
    Kai { topology: String, level: String },
    /// A tier by its number.
    Tier(u32),
    /// A tier by its name.
    TierName(String),
    /// A layer.
    Layer(String),
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Kueue(name) | Level::TierName(name) | Level::Layer(name) => {
                write!(f, "{name:?}")
            }
            Level::Kai { topology, level } => write!(f, "{level:?} of {topology:?}"),
            Level::Tier(tier) => write!(f, "of tier {tier}"),
        }
    }
}

/// Topology request of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::kubernetes) struct Wish {
    pub(super) require: Option<Level>,
    pub(super) prefer: Option<Level>,
    /// Slices, coarsest first.
    pub(super) slices: Vec<(Level, u32)>,
    /// As close together as can be: preferred is the finest level that there is.
    pub(super) closest: bool,
    /// The pod sets that are placed as one.
    pod_set_group: Option<String>,
    /// Where it is asked, for errors.
    field: String,
}

impl Wish {
    /// Why it cannot be asked.
    pub(in crate::kubernetes) fn fault(&self, why: &str) -> String {
        format!("{} is not in force: {why}", self.field)
    }

    /// The name of the pod sets that are placed as one.
    pub(in crate::kubernetes) fn pod_set_group(&self) -> Option<&str> {
        self.pod_set_group.as_deref()
    }

    /// The wish of a group whose only role has another.
    pub(in crate::kubernetes) fn with(mut self, role: &Wish) -> Wish {
        self.require = self.require.or_else(|| role.require.clone());
        self.prefer = self.prefer.or_else(|| role.prefer.clone());
        self.closest |= role.closest;
        self.slices.extend(role.slices.iter().cloned());
        self
    }

    /// The wish without its slices, and as one of a whole group.
    pub(in crate::kubernetes) fn of_whole(&self) -> Wish {
        Wish { pod_set_group: None, ..self.clone() }
    }

    /// The same of every so many members, each by themselves. What is only preferred of parts is
    /// preferred of the whole.
    pub(in crate::kubernetes) fn of_parts(mut self, size: u32) -> Wish {
        if let Some(level) = self.require.take() {
            self.slices.push((level, size));
            self.closest = false;
        }
        self
    }

    fn is_empty(&self) -> bool {
        let levels = self.require.is_none() && self.prefer.is_none() && self.slices.is_empty();
        levels && !self.closest
    }

    fn stated(self) -> Option<Wish> {
        (!self.is_empty()).then_some(self)
    }
}

/// A count of at least one, as an annotation spells it.
fn count(field: &Field<'_>) -> Fault<u32> {
    match field.spelled_integer()? {
        count @ 1..=0x7fff_ffff => Ok(count as u32),
        value => {
            let (min, max) = (1, i32::MAX.into());
            Err(field.fail(crate::model::Problem::OutOfRange { value, min, max }))
        }
    }
}

/// Kueue's annotations on a template of pods.
pub(in crate::kubernetes) fn kueue(annotations: &Field<'_>) -> Fault<Option<Wish>> {
    let at = |name: &str| format!("kueue.x-k8s.io/{name}");
    let level = |name: &str| Ok(annotations.name_of(&at(name))?.map(Level::Kueue));
    let mut wish = Wish {
        require: level("podset-required-topology")?,
        prefer: level("podset-preferred-topology")?,
        pod_set_group: annotations.name_of(&at("podset-group-name"))?,
        field: "/metadata/annotations/kueue.x-k8s.io~1podset-topology".to_string(),
        ..Wish::default()
    };
    if let (Some(_), Some(preferred)) =
        (&wish.require, annotations.get(&at("podset-preferred-topology"))?)
    {
        return Err(preferred.invalid("stands beside podset-required-topology"));
    }
    let slice = level("podset-slice-required-topology")?;
    match (slice, annotations.get(&at("podset-slice-size"))?) {
        (Some(level), Some(size)) => wish.slices.push((level, count(&size)?)),
        (None, None) => {}
        (None, Some(size)) => {
            return Err(size.invalid("stands without podset-slice-required-topology"));
        }
        (Some(_), None) => {
            let name = at("podset-slice-size");
            return Err(annotations.fail_at(&name, crate::model::Problem::Required));
        }
    }
    let name = at("podset-slice-required-topology-constraints");
    if let Some(field) = annotations.get(&name)? {
        let layers = layers(field.text()?);
        wish.slices = layers.ok_or_else(|| {
            field.invalid("is no JSON list of {topology, size}, each size dividing the one before")
        })?;
    }
    Ok(wish.stated())
}

/// Slices within slices, coarsest first.
fn layers(text: &str) -> Option<Vec<(Level, u32)>> {
    let Value::List(layers) = json::value(text)? else { return None };
    let mut slices: Vec<(Level, u32)> = Vec::new();
    for layer in &layers {
        let topology = layer.entry("topology")?.text()?;
        let size = u32::try_from(layer.entry("size")?.integer()?).ok().filter(|size| *size > 0)?;
        let divides = slices.last().is_none_or(|(_, before)| before % size == 0);
        if !divides {
            return None;
        }
        slices.push((Level::Kueue(topology.to_string()), size));
    }
    (1..=3).contains(&slices.len()).then_some(slices)
}

/// KAI's annotations, on a workload or on a template of its pods. Without a topology they say
/// nothing.
pub(in crate::kubernetes) fn kai(annotations: &Field<'_>) -> Fault<Option<Wish>> {
    let Some(topology) = annotations.name_of("kai.scheduler/topology")? else { return Ok(None) };
    let level = |name: &str| -> Fault<Option<Level>> {
        let level = annotations.name_of(&format!("kai.scheduler/{name}"))?;
        Ok(level.map(|level| Level::Kai { topology: topology.clone(), level }))
    };
    let mut wish = Wish {
        require: level("topology-required-placement")?,
        prefer: level("topology-preferred-placement")?,
        field: "/metadata/annotations/kai.scheduler~1topology".to_string(),
        ..Wish::default()
    };
    if let (Some(size), Some(level)) = (
        annotations.get("kai.scheduler/segment-size")?,
        level("segment-topology-required-placement")?,
    ) {
        wish.slices.push((level, count(&size)?));
    }
    Ok(wish.stated())
}

/// KAI's constraint of a group or of one inside it.
pub(in crate::kubernetes) fn kai_constraint(of: &Field<'_>) -> Fault<Option<Wish>> {
    let Some(field) = of.get("topologyConstraint")? else { return Ok(None) };
    let topology = field.text_of("topology")?;
    let level = |name: &str| -> Fault<Option<Level>> {
        let level = field.name_of(name)?;
        Ok(level.map(|level| Level::Kai { topology: topology.clone(), level }))
    };
    let wish = Wish {
        require: level("requiredTopologyLevel")?,
        prefer: level("preferredTopologyLevel")?,
        field: field.path(),
        ..Wish::default()
    };
    Ok(wish.stated())
}

/// Volcano's constraint of a group, a job or the partitions of a task.
pub(in crate::kubernetes) fn volcano(of: &Field<'_>) -> Fault<Option<Wish>> {
    let Some(field) = of.get("networkTopology")? else { return Ok(None) };
    let mode = field.text_of("mode")?;
    let tier = field.get("highestTierAllowed")?;
    let tier = tier.map(|tier| tier.within(0, i32::MAX.into())).transpose()?;
    let name = field.name_of("highestTierName")?;
    let level = match (tier, name) {
        (Some(_), Some(_)) => {
            return Err(field.invalid("has both highestTierAllowed and highestTierName"));
        }
        (Some(tier), None) => Some(Level::Tier(u32::try_from(tier).unwrap_or(u32::MAX))),
        (None, name) => name.map(Level::TierName),
    };
    let wish = by_mode(&mode, level, field.path());
    match wish {
        Some(wish) => Ok(wish.stated()),
        None => Err(unsupported(&field.need("mode")?, &mode, &["hard", "soft"])),
    }
}

/// The labels by which Ray's operator passes Volcano's constraint on.
pub(in crate::kubernetes) fn volcano_labels(labels: &Field<'_>) -> Fault<Option<Wish>> {
    const MODE: &str = "volcano.sh/network-topology-mode";
    let Some(field) = labels.get(MODE)? else { return Ok(None) };
    let tier = labels.get("volcano.sh/network-topology-highest-tier-allowed")?;
    let tier = tier.map(|tier| count(&tier)).transpose()?;
    let mode = field.text()?;
    let path = "/metadata/labels/volcano.sh~1network-topology-mode".to_string();
    match by_mode(mode, tier.map(Level::Tier), path) {
        Some(wish) => Ok(wish.stated()),
        None => Err(unsupported(&field, mode, &["hard", "soft"])),
    }
}

/// Hard without a tier asks for one domain that nobody has named: Volcano takes it for nothing, and
/// so the closest is preferred.
fn by_mode(mode: &str, level: Option<Level>, field: String) -> Option<Wish> {
    let require = match mode {
        "hard" | "" => level,
        "soft" => None,
        _ => return None,
    };
    Some(Wish { require, closest: true, field, ..Wish::default() })
}

/// Koordinator's annotation of a gang.
pub(in crate::kubernetes) fn koordinator(annotations: &Field<'_>) -> Fault<Option<Wish>> {
    const KEY: &str = "gang.scheduling.koordinator.sh/network-topology-spec";
    let Some(field) = annotations.get(KEY)? else { return Ok(None) };
    let wrong = || {
        field.invalid("is no JSON object with gatherStrategy: [{layer, strategy: MustGather or PreferGather}]")
    };
    let value = json::value(field.text()?).ok_or_else(wrong)?;
    let Some(Value::List(strategies)) = value.entry("gatherStrategy") else { return Err(wrong()) };
    let mut wish = Wish {
        closest: true,
        field: "/metadata/annotations/gang.scheduling.koordinator.sh~1network-topology-spec".into(),
        ..Wish::default()
    };
    for strategy in strategies {
        let layer = strategy.entry("layer").and_then(Value::text).ok_or_else(wrong)?;
        if strategy.entry("podCountMultiple").and_then(Value::integer).unwrap_or(1) > 1 {
            return Err(field.invalid("podCountMultiple above 1 is not read"));
        }
        match strategy.entry("strategy").and_then(Value::text) {
            // The lowest layer binds; it is written last.
            Some("MustGather") => wish.require = Some(Level::Layer(layer.to_string())),
            Some("PreferGather") => {}
            _ => return Err(wrong()),
        }
    }
    Ok(wish.stated())
}
