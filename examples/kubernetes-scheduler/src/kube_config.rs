//! `KubeSchedulerConfiguration` of kube-scheduler, version `kubescheduler.config.k8s.io/v1`: the profiles that
//! this scheduler takes over. Every other field is refused by name, so that nothing is lost in silence.
//!
//! Pods that name the `schedulerName` of a profile are placed by its plugins. The first profile is that of
//! pods that name this program, too.

use std::path::Path;

use phalanx::claims::Cel;
use phalanx::plugins::{
    AllocationScore, KubernetesProfile, LeastAllocated, MostAllocated, RequestedToCapacityRatio,
    Utilization,
};
use phalanx::{Framework, Strategy};
use phalanx_kubernetes_client::log;
use serde_json::{Map, Value};

/// A configuration as it was taken over.
#[derive(Debug)]
pub struct Taken {
    pub framework: Framework,
    /// The schedulers whose pods are placed beside those of this program.
    pub profiles: Vec<String>,
    /// Fields that are in force, with their values.
    pub fields: Vec<String>,
}

/// Reads a file, and logs what it took over.
///
/// # Errors
/// One sentence that names the file and every field that is refused.
pub fn framework(path: &Path) -> Result<(Framework, Vec<String>), String> {
    let fault = |error: String| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    let taken = read(&text).map_err(fault)?;
    let fields = taken.fields.join("; ");
    log!(info, "a configuration of kube-scheduler is taken over", fields = fields);
    Ok((taken.framework, taken.profiles))
}

/// Reads the text of a configuration.
///
/// # Errors
/// Every field that is refused, with the reason.
pub fn read(text: &str) -> Result<Taken, String> {
    let document: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut reader = Reader::default();
    reader.document(&document);
    if !reader.refused.is_empty() {
        return Err(reader.refused.join("; "));
    }
    let Some((_, first)) = reader.profiles.first() else {
        return Err("profiles: at least one".to_owned());
    };
    let mut builder = first.to_builder();
    let named = || reader.profiles.iter().filter_map(|(name, own)| Some((name.as_ref()?, own)));
    for (name, framework) in named() {
        builder = builder.profile(name, framework);
    }
    let framework = builder.build().map_err(|error| format!("profiles: {error}"))?;
    let profiles = named().map(|(name, _)| name.clone()).collect();
    Ok(Taken { framework, profiles, fields: reader.taken })
}

/// Where a plugin is enabled or disabled, in order.
#[derive(Debug)]
enum Change {
    Without(String),
    Weigh(String, u32),
}

#[derive(Default)]
struct Reader {
    taken: Vec<String>,
    refused: Vec<String>,
    /// The profiles that were read, each with its scheduler's name.
    profiles: Vec<(Option<String>, Framework)>,
    /// The profile that is being read.
    profile: Option<KubernetesProfile>,
    changes: Vec<Change>,
    /// Resources that `NodeResourcesFit` does not look at, and groups of them.
    ignored: [Vec<String>; 2],
}

/// Plugins of the default profile that this scheduler has as parts of its own, and cannot leave out.
const BUILT_IN: [&str; 6] = [
    "PrioritySort",
    "DefaultBinder",
    "DefaultPreemption",
    "SchedulingGates",
    "VolumeBinding",
    "DynamicResources",
];

impl Reader {
    fn take(&mut self, field: &str, value: &Value) {
        self.taken.push(format!("{field}={value}"));
    }

    fn refuse(&mut self, field: &str, reason: &str) {
        self.refused.push(format!("{field}: {reason}"));
    }

    fn fields<'a>(&mut self, at: &str, value: &'a Value) -> Option<&'a Map<String, Value>> {
        if value.as_object().is_none() {
            self.refuse(at, "it is no object");
        }
        value.as_object()
    }

    fn document(&mut self, document: &Value) {
        let Some(fields) = self.fields("the file", document) else { return };
        if document["apiVersion"] != "kubescheduler.config.k8s.io/v1"
            || document["kind"] != "KubeSchedulerConfiguration"
        {
            let reason = "kubescheduler.config.k8s.io/v1 KubeSchedulerConfiguration is read";
            return self.refuse("apiVersion, kind", reason);
        }
        for (name, value) in fields {
            match name.as_str() {
                "apiVersion" | "kind" => {}
                "profiles" => self.profiles(value),
                // Every node is looked at: a sample of all of them is what this scheduler does.
                "percentageOfNodesToScore" if value == 100 || value.is_null() => {
                    self.take(name, value);
                }
                "percentageOfNodesToScore" => self.refuse(name, "every node is scored: 100"),
                "leaderElection"
                | "clientConnection"
                | "podInitialBackoffSeconds"
                | "podMaxBackoffSeconds" => {
                    let own = match name.as_str() {
                        "leaderElection" => "leaderElection of this program's configuration",
                        "clientConnection" => "--kubeconfig",
                        _ => "timeouts.firstBackoff and longestBackoff",
                    };
                    self.refuse(name, &format!("it is set by {own}"));
                }
                _ => self.refuse(name, "it is not taken over"),
            }
        }
    }

    fn profiles(&mut self, profiles: &Value) {
        let all = profiles.as_array().map_or(&[][..], Vec::as_slice);
        if all.is_empty() {
            return self.refuse("profiles", "at least one");
        }
        for (index, profile) in all.iter().enumerate() {
            let at = format!("profiles[{index}]");
            let name = self.one_profile(&at, profile);
            if index > 0 && name.is_none() {
                self.refuse(&format!("{at}.schedulerName"), "each but the first needs one");
            }
            match self.framework() {
                Ok(framework) => self.profiles.push((name, framework)),
                Err(error) => self.refuse(&at, &error),
            }
        }
    }

    /// Reads one profile. Returns the name of its scheduler.
    fn one_profile(&mut self, at: &str, profile: &Value) -> Option<String> {
        let fields = self.fields(at, profile)?;
        let mut scheduler = None;
        self.profile = Some(KubernetesProfile::new().claims(Cel));
        for (name, value) in fields {
            let at = format!("{at}.{name}");
            match name.as_str() {
                "schedulerName" => {
                    let is_taken = |name: &str| {
                        self.profiles.iter().any(|(own, _)| own.as_deref() == Some(name))
                    };
                    match value.as_str() {
                        Some(name) if is_taken(name) => self.refuse(&at, "another has this name"),
                        Some(name) if !name.is_empty() => {
                            scheduler = Some(name.to_owned());
                            self.take(&at, value);
                        }
                        _ => self.refuse(&at, "it is no name"),
                    }
                }
                "plugins" => self.plugins(&at, value),
                "pluginConfig" => {
                    for (index, own) in value.as_array().into_iter().flatten().enumerate() {
                        self.arguments(&format!("{at}[{index}]"), own);
                    }
                }
                "percentageOfNodesToScore" if value == 100 => self.take(&at, value),
                _ => self.refuse(&at, "it is not taken over"),
            }
        }
        scheduler
    }

    fn plugins(&mut self, at: &str, points: &Value) {
        let Some(points) = self.fields(at, points) else { return };
        for (point, sets) in points {
            let at = format!("{at}.{point}");
            if !matches!(point.as_str(), "filter" | "score" | "multiPoint") {
                self.refuse(&at, "only filter, score and multiPoint are taken over");
                continue;
            }
            for (word, list) in self.fields(&at, sets).into_iter().flatten() {
                for (index, own) in list.as_array().into_iter().flatten().enumerate() {
                    let at = format!("{at}.{word}[{index}]");
                    let name = own["name"].as_str().unwrap_or_default().to_owned();
                    self.plugin(&at, point, word, name, own);
                }
            }
        }
    }

    fn plugin(&mut self, at: &str, point: &str, word: &str, name: String, own: &Value) {
        if name == "*" {
            return self.refuse(at, "plugins are named one by one");
        }
        if BUILT_IN.contains(&name.as_str()) {
            return self.refuse(at, &format!("{name} is a part of the scheduler"));
        }
        let profile = Framework::kubernetes();
        let is_filter = profile.filter_names().any(|own| own == name);
        let is_score = profile.score_names().any(|(_, own)| own == name);
        let known = match point {
            "filter" => is_filter,
            "score" => is_score,
            _ => is_filter || is_score,
        };
        if !known {
            let kind = if point == "multiPoint" { "plugin" } else { point };
            return self.refuse(at, &format!("there is no {kind} {name}"));
        }
        match word {
            "disabled" => {
                if is_filter && point != "score" {
                    self.changes.push(Change::Without(name.clone()));
                }
                if is_score && point != "filter" {
                    self.changes.push(Change::Weigh(name, 0));
                }
                self.take(at, own);
            }
            "enabled" => {
                let weight = own["weight"].as_u64().unwrap_or(1);
                let Ok(weight) = u32::try_from(weight) else {
                    return self.refuse(at, "the weight is too large");
                };
                if is_score && point != "filter" && weight > 0 {
                    self.changes.push(Change::Weigh(name, weight));
                }
                self.take(at, own);
            }
            _ => self.refuse(at, "enabled or disabled"),
        }
    }

    fn arguments(&mut self, at: &str, own: &Value) {
        let name = own["name"].as_str().unwrap_or_default().to_owned();
        let at = format!("{at}.args");
        let Some(fields) = self.fields(&at, &own["args"]) else { return };
        for (field, value) in fields {
            let at = format!("{at}.{field}");
            let Some(profile) = self.profile.take() else { return };
            let taken = match (name.as_str(), field.as_str()) {
                (_, "apiVersion" | "kind") => Ok(profile),
                ("NodeResourcesFit", "scoringStrategy") => {
                    strategy(value).map(|strategy| profile.fit_strategy(strategy))
                }
                ("NodeResourcesFit", "ignoredResources") => {
                    self.ignored[0] = texts(value);
                    Ok(profile)
                }
                ("NodeResourcesFit", "ignoredResourceGroups") => {
                    self.ignored[1] = texts(value);
                    Ok(profile)
                }
                ("NodeResourcesBalancedAllocation", "resources") => {
                    let names = value.as_array().into_iter().flatten();
                    let names = names.filter_map(|own| own["name"].as_str().map(str::to_owned));
                    Ok(profile.balanced_resources(names))
                }
                ("InterPodAffinity", "hardPodAffinityWeight") => {
                    match value.as_u64().and_then(|own| u8::try_from(own).ok()) {
                        Some(weight) if weight <= 100 => {
                            Ok(profile.hard_pod_affinity_weight(weight))
                        }
                        _ => Err("it is no number of 0 to 100".to_owned()),
                    }
                }
                ("InterPodAffinity", "ignorePreferredTermsOfExistingPods") => {
                    let ignores = value == true;
                    Ok(if ignores {
                        profile.ignore_preferred_terms_of_existing_pods()
                    } else {
                        profile
                    })
                }
                _ => Err(format!("this argument of {name} is not taken over")),
            };
            match taken {
                Ok(profile) => {
                    self.profile = Some(profile);
                    if !matches!(field.as_str(), "apiVersion" | "kind") {
                        self.take(&at, value);
                    }
                }
                Err(reason) => {
                    self.profile = Some(KubernetesProfile::new().claims(Cel));
                    self.refuse(&at, &reason);
                }
            }
        }
    }

    /// The framework of the profile that was read.
    fn framework(&mut self) -> Result<Framework, String> {
        let profile = self.profile.take();
        let profile = profile.unwrap_or_else(|| KubernetesProfile::new().claims(Cel));
        let [resources, groups] = std::mem::take(&mut self.ignored);
        let profile = profile.ignoring(resources, groups);
        let mut builder = profile.framework().to_builder().strategy(Strategy::Kubernetes);
        for change in std::mem::take(&mut self.changes) {
            builder = match change {
                Change::Without(name) => builder.without_filter(&name),
                Change::Weigh(name, weight) => builder.weigh(&name, weight),
            };
        }
        builder.build().map_err(|error| format!("plugins: {error}"))
    }
}

fn texts(value: &Value) -> Vec<String> {
    let values = value.as_array().into_iter().flatten();
    values.filter_map(|own| own.as_str().map(str::to_owned)).collect()
}

/// A `scoringStrategy`.
fn strategy(value: &Value) -> Result<AllocationScore, String> {
    let resources = match value["resources"].as_array() {
        Some(all) => all.clone(),
        None => vec![
            serde_json::json!({"name": "cpu", "weight": 1}),
            serde_json::json!({"name": "memory", "weight": 1}),
        ],
    };
    let mut weighed = Vec::new();
    for own in &resources {
        let name = own["name"].as_str().ok_or("a resource has no name")?;
        let weight = own["weight"].as_u64().unwrap_or(1);
        weighed.push((name.to_owned(), u32::try_from(weight).map_err(|error| error.to_string())?));
    }
    match value["type"].as_str().unwrap_or("LeastAllocated") {
        "LeastAllocated" => Ok(LeastAllocated::of(weighed)),
        "MostAllocated" => Ok(MostAllocated::of(weighed)),
        "RequestedToCapacityRatio" => {
            let shape = value["requestedToCapacityRatio"]["shape"].as_array();
            let mut points = Vec::new();
            for point in shape.into_iter().flatten() {
                let part = |name: &str| {
                    let own = point[name].as_u64().unwrap_or(0);
                    u8::try_from(own).map_err(|error| format!("{name}: {error}"))
                };
                points.push((part("utilization")?, part("score")?));
            }
            let curve = Utilization::new(points).map_err(|error| error.to_string())?;
            Ok(RequestedToCapacityRatio::of(curve, weighed))
        }
        other => Err(format!("there is no strategy {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

    #[test]
    fn a_profile_is_taken_over_with_its_arguments() {
        let text = format!(
            "{HEAD}percentageOfNodesToScore: 100
profiles:
- plugins:
    filter: {{disabled: [{{name: NodePorts}}]}}
    score: {{enabled: [{{name: NodeAffinity, weight: 7}}], disabled: [{{name: ImageLocality}}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu, weight: 3}}]}}
  - {{name: InterPodAffinity, args: {{hardPodAffinityWeight: 9}}}}
"
        );
        let taken = read(&text).expect("all of it is known");
        assert!(!taken.framework.filter_names().any(|name| name == "NodePorts"));
        let weight = |name: &str| {
            let mut scores = taken.framework.score_names();
            scores.find(|(_, own)| *own == name).map(|(weight, _)| weight)
        };
        assert_eq!(weight("NodeAffinity"), Some(7));
        assert_eq!(weight("ImageLocality").unwrap_or(0), 0);
        assert_eq!(taken.fields.len(), 6, "{:?}", taken.fields);
    }

    #[test]
    fn each_profile_has_its_own_plugins() {
        let text = format!(
            "{HEAD}profiles:
- schedulerName: default-scheduler
- schedulerName: no-scores
  plugins:
    score: {{disabled: [{{name: ImageLocality}}, {{name: NodeResourcesFit}}]}}
    filter: {{disabled: [{{name: NodePorts}}]}}
"
        );
        let taken = read(&text).expect("all of it is known");
        assert_eq!(taken.profiles, ["default-scheduler", "no-scores"]);
        let filters: Vec<&str> = taken.framework.filter_names().collect();
        for (name, is_there) in [
            ("NodePorts", true),
            ("default-scheduler/NodePorts", true),
            ("no-scores/NodePorts", false),
            ("no-scores/NodeResourcesFit", true),
        ] {
            assert_eq!(filters.contains(&name), is_there, "{name}: {filters:?}");
        }
        let scores: Vec<&str> = taken.framework.score_names().map(|(_, name)| name).collect();
        assert!(scores.contains(&"default-scheduler/ImageLocality"), "{scores:?}");
        assert!(!scores.contains(&"no-scores/ImageLocality"), "{scores:?}");
        assert_eq!(read(&format!("{HEAD}profiles: [{{}}]\n")).expect("one").profiles.len(), 0);
    }

    #[test]
    fn every_other_field_is_refused_by_its_name() {
        for (text, field) in [
            ("profiles: []", "profiles:"),
            ("percentageOfNodesToScore: 100", "profiles:"),
            ("profiles: [{}, {}]", "profiles[1].schedulerName:"),
            ("profiles: [{schedulerName: 7}]", "profiles[0].schedulerName:"),
            ("profiles: [{schedulerName: a}, {schedulerName: a}]", "profiles[1].schedulerName:"),
            ("extenders: [{urlPrefix: x}]\nprofiles: [{}]", "extenders:"),
            ("percentageOfNodesToScore: 50", "percentageOfNodesToScore:"),
            ("profiles: [{plugins: {bind: {}}}]", "profiles[0].plugins.bind:"),
            (
                "profiles: [{plugins: {filter: {disabled: [{name: '*'}]}}}]",
                "profiles[0].plugins.filter.disabled[0]:",
            ),
            (
                "profiles: [{plugins: {score: {enabled: [{name: Nothing}]}}}]",
                "profiles[0].plugins.score.enabled[0]:",
            ),
            (
                "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {}}}]}]",
                "profiles[0].pluginConfig[0].args.addedAffinity:",
            ),
        ] {
            let error = read(&format!("{HEAD}{text}\n")).expect_err(text);
            assert!(error.starts_with(field), "{text}: {error}");
        }
        assert!(read("kind: Pod\n").is_err());
    }
}
