//! `SparkApplication` of Spark's operator.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::begun::application;
use super::submitted::{Minimum, Names, Role, Submitted, count, word};
use super::workload::{StartAfter, StartCondition};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::pod::{self, PodRecord};
use crate::kubernetes::value::{Value, map, text};
use crate::model::Problem;

/// The least memory beside the heap, in bytes.
const LEAST_OVERHEAD: i64 = 384 << 20;
const MIB: i64 = 1 << 20;

/// An application: the driver, and the executors that it asks for once it runs.
///
/// Source: `kubeflow/spark-operator`, `internal/scheduler/resourceusage`.
pub(super) fn spark_application(root: &Field<'_>) -> Fault<Submitted> {
    let mut spark = Submitted::new(WorkloadKind::SparkApplication, root)?;
    let spec = root.need("spec")?;
    spark.workload.suspended = spec.flag("suspend")?;
    if let Some(options) = spec.get("batchSchedulerOptions")? {
        if let Some(queue) = options.name_of("queue")? {
            spark.frame.queue = queue;
        }
        if let Some(class) = options.name_of("priorityClassName")? {
            spark.frame.priority_class = Some(class);
            spark.frame.class_field = "spec.batchSchedulerOptions.priorityClassName";
        }
    }
    let factor = overhead_factor(&spec)?;
    let (driver, executor) = (spec.need("driver")?, spec.need("executor")?);
    let instances = executors(&spec, &executor)?;
    spark.count_pods(instances.saturating_add(1), &executor, "instances")?;
    let name = spark.workload.name.clone();
    let namespace = spark.workload.namespace.clone();
    let record = template(&spec, &driver, factor, &namespace)?;
    let mut first = Role::new("driver", 1, name.clone(), record);
    first.names = Names::One(format!("{name}-driver"));
    first.leader = true;
    let record = template(&spec, &executor, factor, &namespace)?;
    let mut workers = Role::new("executor", instances, format!("{name}-exec"), record);
    workers.names = Names::From(format!("{name}-exec"), 1);
    workers.after.push(StartAfter::new("driver", StartCondition::Ready));
    if let Some(status) = root.get("status")? {
        workers.open = application(&status)? == "RUNNING";
    }
    spark.add_group(name, vec![first, workers], Minimum::Roles);
    Ok(spark.finish())
}

/// The number of executors at the start.
fn executors(spec: &Field<'_>, executor: &Field<'_>) -> Fault<i64> {
    let mut instances = count(executor, "instances", 0)?;
    if let Some(dynamic) = spec.get("dynamicAllocation")?
        && dynamic.flag("enabled")?
    {
        for name in ["minExecutors", "initialExecutors"] {
            instances = instances.max(count(&dynamic, name, 0)?);
        }
    }
    Ok(instances)
}

/// The memory beside the heap as a part of it, in thousandths.
fn overhead_factor(spec: &Field<'_>) -> Fault<i64> {
    const TYPES: [&str; 4] = ["Scala", "Java", "Python", "R"];
    let is_jvm = matches!(word(spec, "type", &TYPES)?, "Scala" | "Java");
    let default = if is_jvm { 100 } else { 400 };
    let Some(field) = spec.get("memoryOverheadFactor")? else { return Ok(default) };
    match field.quantity()?.milli_ceil() {
        Some(milli) if (0..=1_000_000).contains(&milli) => Ok(milli),
        _ => Err(field.invalid("is no part of the memory")),
    }
}

/// The pod of a role: its template, with all that the operator writes into it.
fn template(spec: &Field<'_>, role: &Field<'_>, factor: i64, namespace: &str) -> Fault<PodRecord> {
    let mut made = match role.get("template")? {
        Some(template) => template.value.clone(),
        None => Value::Map(Vec::new()),
    };
    let pod = inside(&mut made, "spec");
    for name in ["affinity", "hostNetwork", "schedulerName", "priorityClassName"] {
        if let Some(field) = role.get(name)? {
            put(pod, name, field.value.clone());
        }
    }
    for name in ["tolerations", "initContainers"] {
        if let Some(field) = role.get(name)? {
            extend(pod, name, field.value);
        }
    }
    for at in [spec, role] {
        if let Some(selector) = at.get("nodeSelector")? {
            merge(inside(pod, "nodeSelector"), selector.value);
        }
    }
    let image = match role.get("image")? {
        Some(image) => Some(image),
        None => spec.get("image")?,
    };
    let image = image.map_or(Value::Null, |image| image.value.clone());
    let (mut container, rest) = containers(pod);
    put(&mut container, "image", image);
    let resources = inside(&mut container, "resources");
    let cores = match role.get("coreRequest")? {
        Some(request) => text(&amount(&request)?),
        None => text(&count(role, "cores", 1)?.to_string()),
    };
    let memory = text(&format!("{}Mi", memory(role, factor)?));
    merge(inside(resources, "requests"), &map([("cpu", cores), ("memory", memory.clone())]));
    let limits = inside(resources, "limits");
    put(limits, "memory", memory);
    if let Some(limit) = role.get("coreLimit")? {
        put(limits, "cpu", text(&amount(&limit)?));
    }
    if let Some(gpu) = role.get("gpu")? {
        let quantity = gpu.need("quantity")?.within(0, i32::MAX.into())?;
        put(limits, gpu.need("name")?.text()?, text(&quantity.to_string()));
        merge(
            inside(resources, "requests"),
            &Value::Map(vec![(gpu.text_of("name")?, text(&quantity.to_string()))]),
        );
    }
    put(pod, "containers", Value::List([vec![container], rest].concat()));
    if let Some(sidecars) = role.get("sidecars")? {
        extend(pod, "containers", sidecars.value);
    }
    let metadata = inside(&mut made, "metadata");
    for name in ["labels", "annotations"] {
        if let Some(field) = role.get(name)? {
            merge(inside(metadata, name), field.value);
        }
    }
    pod::template(&Field::root(role.object, &made), namespace.to_string())
}

/// The text of an amount, which is written as a number, too.
fn amount(field: &Field<'_>) -> Fault<String> {
    field.quantity()?;
    Ok(match field.value {
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        _ => field.text()?.to_string(),
    })
}

/// Memory of a pod in MiB: the heap, and what stands beside it.
fn memory(role: &Field<'_>, factor: i64) -> Fault<i64> {
    let heap = match role.get("memory")? {
        Some(field) => bytes(&field)?,
        None => 1 << 30,
    };
    let beside = match role.get("memoryOverhead")? {
        Some(field) => bytes(&field)?,
        None => {
            let part = i128::from(heap) * i128::from(factor) / 1000;
            i64::try_from(part).unwrap_or(i64::MAX).max(LEAST_OVERHEAD)
        }
    };
    match heap.checked_add(beside) {
        Some(all) => Ok(all / MIB),
        None => Err(role.fail_at("memory", Problem::Overflow)),
    }
}

/// Bytes as Java writes them: `512m`, `3g`; MiB without a unit.
fn bytes(field: &Field<'_>) -> Fault<i64> {
    let written = match field.value {
        Value::Integer(number) => number.to_string(),
        _ => field.text()?.to_ascii_lowercase(),
    };
    let written = written.trim();
    let digits = written.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &written[digits.len()..] {
        "" | "m" | "mb" | "mi" => 20,
        "b" => 0,
        "k" | "kb" | "ki" => 10,
        "g" | "gb" | "gi" => 30,
        "t" | "tb" | "ti" => 40,
        "p" | "pb" | "pi" => 50,
        _ => return Err(field.invalid("is no amount of memory")),
    };
    let Ok(number) = digits.parse::<i64>() else {
        return Err(field.invalid("is no amount of memory"));
    };
    match number.checked_mul(1 << unit) {
        Some(bytes) if bytes >= 0 => Ok(bytes),
        Some(_) => Err(field.invalid("is no amount of memory")),
        None => Err(field.fail(Problem::Overflow)),
    }
}

/// Takes the containers of a pod out: the first, in which Spark runs, and the others.
fn containers(pod: &mut Value) -> (Value, Vec<Value>) {
    let mut rest = match core::mem::take(inside(pod, "containers")) {
        Value::List(values) => values,
        _ => Vec::new(),
    };
    if rest.is_empty() {
        rest.push(map([("name", text("spark"))]));
    }
    (rest.remove(0), rest)
}

/// The entry of an object, made if it is not there.
fn inside<'v>(value: &'v mut Value, name: &str) -> &'v mut Value {
    if !matches!(value, Value::Map(_)) {
        *value = Value::Map(Vec::new());
    }
    let Value::Map(entries) = value else { return value };
    let at = entries.iter().position(|(key, _)| key == name);
    let at = at.unwrap_or_else(|| {
        entries.push((name.to_string(), Value::Map(Vec::new())));
        entries.len() - 1
    });
    &mut entries[at].1
}

/// Writes an entry of an object over what it was.
fn put(value: &mut Value, name: &str, entry: Value) {
    *inside(value, name) = entry;
}

/// Writes the entries of an object over those of another.
fn merge(into: &mut Value, from: &Value) {
    let Value::Map(entries) = from else { return };
    for (name, value) in entries {
        put(into, name, value.clone());
    }
}

/// Adds the elements of a list to those of another.
fn extend(value: &mut Value, name: &str, more: &Value) {
    let list = inside(value, name);
    if !matches!(list, Value::List(_)) {
        *list = Value::List(Vec::new());
    }
    if let (Value::List(values), Value::List(more)) = (list, more) {
        values.extend(more.iter().cloned());
    }
}
