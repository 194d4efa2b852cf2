//! The chart and the manifests: rendered, read as YAML, and held to each other and to the program.
//!
//! Templates are rendered here by the few words that the chart uses. `helm` and `kubectl` are used as well
//! where they are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn documents(text: &str) -> Vec<Value> {
    let all: Vec<Value> =
        serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    all.into_iter().filter(|document| !document.is_null()).collect()
}

/// The value at a path such as `.Values.image.tag`.
fn at<'a>(values: &'a Value, path: &str) -> &'a Value {
    let names = path.trim_start_matches('.').split('.');
    names.fold(values, |value, name| value.get(name).unwrap_or_else(|| panic!("no {path}")))
}

fn is_set(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false)) && value != ""
}

/// Renders a template: `if` with one path or `and` of two, `end`, values, `toYaml`, `.Files.Get`, `indent`.
fn render(template: &str, values: &Value) -> String {
    let (mut out, mut shown) = (String::new(), vec![true]);
    for line in template.lines() {
        let word = line.trim().strip_prefix("{{-").and_then(|rest| rest.strip_suffix("}}"));
        if let Some(word) = word.map(str::trim) {
            let visible = shown.iter().all(|own| *own);
            match word.strip_prefix("if ") {
                Some(test) => {
                    let paths = test.trim_start_matches("and ").split_whitespace();
                    let holds = visible && paths.map(|path| at(values, path)).all(is_set);
                    shown.push(holds);
                }
                None => {
                    assert_eq!(word, "end", "{line}");
                    shown.pop();
                }
            }
            continue;
        }
        if shown.iter().all(|own| *own) {
            out.push_str(&filled(line, values));
            out.push('\n');
        }
    }
    assert_eq!(shown.len(), 1, "every if has its end");
    out
}

fn filled(line: &str, values: &Value) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some((before, behind)) = rest.split_once("{{") {
        let (word, after) = behind.split_once("}}").expect("it ends");
        out.push_str(before);
        rest = after;
        let (word, indent) = match word.split_once("| indent") {
            Some((word, number)) => (word, number.trim().parse().expect("a number")),
            None => (word, 0),
        };
        let text = match word.trim() {
            word if word.starts_with("toYaml ") => {
                let value = at(values, word.trim_start_matches("toYaml "));
                serde_saphyr::to_string(value).expect("it can be written")
            }
            word if word.starts_with(".Files.Get ") => {
                let name = word.trim_start_matches(".Files.Get ").trim_matches('"');
                read(&package().join("charts/phalanx").join(name))
            }
            path => match at(values, path) {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
        };
        let pad = " ".repeat(indent);
        let lines: Vec<String> =
            text.trim_end().lines().map(|line| format!("{pad}{line}")).collect();
        out.push_str(&lines.join("\n"));
    }
    out.push_str(rest);
    out
}

/// The objects of the chart with some values set.
fn chart(changes: &[(&str, Value)]) -> Vec<Value> {
    let folder = package().join("charts/phalanx");
    let mut values: Value = documents(&read(&folder.join("values.yaml"))).remove(0);
    for (path, value) in changes {
        let pointer = format!("/{}", path.replace('.', "/"));
        *values.pointer_mut(&pointer).unwrap_or_else(|| panic!("no {path}")) = value.clone();
    }
    let release = json!({"Name": "phalanx", "Namespace": "kube-system"});
    let values = json!({"Values": values, "Release": release});
    let templates = std::fs::read_dir(folder.join("templates")).expect("it is there");
    let mut paths: Vec<PathBuf> = templates.map(|entry| entry.expect("it is").path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| documents(&render(&read(path), &values))).collect()
}

fn kinds(objects: &[Value]) -> BTreeSet<String> {
    let name = |object: &Value| {
        let (kind, name) = (object["kind"].as_str(), object["metadata"]["name"].as_str());
        format!("{} {}", kind.expect("a kind"), name.expect("a name"))
    };
    objects.iter().map(name).collect()
}

fn of<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

const SECURE: [(&str, &str); 2] =
    [("serving.tlsSecret", "phalanx-tls"), ("serving.tokenSecret", "phalanx-token")];

fn full() -> Vec<(&'static str, Value)> {
    let mut changes: Vec<(&str, Value)> =
        SECURE.iter().map(|(path, value)| (*path, (*value).into())).collect();
    changes.push(("serviceMonitor.enabled", true.into()));
    changes.push(("dashboard.enabled", true.into()));
    changes
}

/// Runs the program's own check on the configuration of a ConfigMap.
fn check(objects: &[Value], name: &str) {
    let text = of(objects, "ConfigMap")["data"]["config.yaml"].as_str().expect("it is text");
    // The files of secrets are not here: their fields are.
    let secret =
        |line: &&str| !["certificate:", "key:", "token:"].iter().any(|own| line.contains(own));
    let text: Vec<&str> = text.lines().filter(secret).collect();
    let text = text.join("\n").replace("serving:\n", "").replace("serving:", "");
    let path = std::env::temp_dir().join(format!("{name}-{}.yaml", std::process::id()));
    std::fs::write(&path, text).expect("a file can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_kubernetes-scheduler"))
        .args(["--check", "--config"])
        .arg(&path)
        .output()
        .expect("the program can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_file(&path).expect("it was written");
}

#[test]
fn the_chart_renders_with_and_without_its_options() {
    let plain = chart(&[]);
    let names = kinds(&plain);
    for name in [
        "Deployment phalanx",
        "ConfigMap phalanx",
        "Service phalanx",
        "PodDisruptionBudget phalanx",
        "NetworkPolicy phalanx",
        "ClusterRole phalanx",
        "ServiceAccount phalanx",
    ] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    assert!(!names.contains("ServiceMonitor phalanx"));
    check(&plain, "plain");
    let container = &of(&plain, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["livenessProbe"]["httpGet"].get("scheme"), None);

    let all = chart(&full());
    check(&all, "full");
    assert!(kinds(&all).contains("ServiceMonitor phalanx"));
    assert!(kinds(&all).contains("ConfigMap phalanx-dashboard"));
    let pod = &of(&all, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["livenessProbe"]["httpGet"]["scheme"], "HTTPS");
    let mounts = pod["containers"][0]["volumeMounts"].as_array().expect("there are some");
    let volumes = pod["volumes"].as_array().expect("there are some");
    let names = |list: &[Value]| list.iter().map(|own| own["name"].to_string()).collect::<Vec<_>>();
    assert_eq!(names(mounts), names(volumes));
    let text = of(&all, "ConfigMap")["data"]["config.yaml"].as_str().expect("it is text");
    assert!(text.contains("token: /etc/phalanx-token/token"), "{text}");
    let off = chart(&[
        ("podDisruptionBudget.enabled", false.into()),
        ("networkPolicy.enabled", false.into()),
    ]);
    assert!(!kinds(&off).contains("NetworkPolicy phalanx"));
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let folder = package();
    let text = read(&folder.join("charts/phalanx/dashboard.json"));
    let board: Value = serde_json::from_str(&text).expect("it is JSON");
    let source = read(&folder.join("src/metrics.rs"));
    let mut asked = 0;
    for panel in board["panels"].as_array().expect("there are panels") {
        for target in panel["targets"].as_array().expect("it has queries") {
            let query = target["expr"].as_str().expect("it is text");
            let words = query.split(|own: char| !(own.is_alphanumeric() || own == '_'));
            for name in words.filter(|own| own.starts_with("phalanx_")) {
                let name = name.trim_end_matches("_bucket");
                assert!(source.contains(&format!("\"{name}\"")), "{name} is not a metric");
                asked += 1;
            }
        }
    }
    assert!(asked >= 15, "{asked}");
}

#[test]
fn the_role_allows_every_watch_and_the_chart_and_the_manifests_agree() {
    let folder = package();
    let roles = documents(&read(&folder.join("manifests/rbac.yaml")));
    let rules = of(&roles, "ClusterRole")["rules"].as_array().expect("there are rules").clone();
    let chart = chart(&[]);
    assert_eq!(of(&chart, "ClusterRole")["rules"].as_array(), Some(&rules));
    let allows = |group: &str, resource: &str| {
        rules.iter().any(|rule| {
            let has = |list: &str, one: &str| {
                rule[list].as_array().is_some_and(|all| all.iter().any(|own| own == one))
            };
            has("apiGroups", group) && has("resources", resource) && has("verbs", "watch")
        })
    };
    // Paths stand in the sources as text.
    let sources =
        ["client/src/watch.rs", "src/live.rs", "src/scale.rs"].map(|name| read(&folder.join(name)));
    let mut watched = 0;
    for part in sources.iter().flat_map(|source| source.split('"')) {
        let path = part.split('?').next().unwrap_or_default();
        let words: Vec<&str> = path.split('/').collect();
        let (group, resource) = match words.as_slice() {
            ["", "api", _, resource] => ("", *resource),
            ["", "apis", group, _, resource] => (*group, *resource),
            _ => continue,
        };
        watched += 1;
        assert!(allows(group, resource), "{group} {resource} may not be watched");
    }
    assert!(watched > 35, "{watched}");
}

#[test]
fn kustomize_and_helm_agree_where_they_are_there() {
    let folder = package();
    for name in ["manifests", "monitoring"] {
        let run = Command::new("kubectl").arg("kustomize").arg(folder.join(name)).output();
        let Ok(output) = run else {
            println!("note: there is no kubectl; kustomize is skipped");
            break;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() && said.contains("unknown command") {
            println!("note: this kubectl has no kustomize; it is skipped");
            break;
        }
        assert!(output.status.success(), "{said}");
        let objects = documents(&String::from_utf8_lossy(&output.stdout));
        check(&objects, name);
        assert!(kinds(&objects).contains("PodDisruptionBudget phalanx"));
        let is_full = kinds(&objects).contains("ServiceMonitor phalanx");
        assert_eq!(is_full, name == "monitoring");
    }
    let folder = package().join("charts/phalanx");
    let run = Command::new("helm")
        .args(["template", "phalanx", "-n", "kube-system"])
        .arg(&folder)
        .output();
    match run {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let objects = documents(&String::from_utf8_lossy(&output.stdout));
            assert_eq!(kinds(&objects), kinds(&chart(&[])));
        }
        Err(_) => println!("note: there is no helm; the chart is rendered by this test alone"),
    }
}
