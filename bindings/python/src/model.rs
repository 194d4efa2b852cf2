//! Pods and groups.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::model::Toleration;
use phalanx::{Node, PodGroup, Quantity};
use pyo3::prelude::*;

use crate::failure::refused;

/// An amount: a number of units, or text in the grammar of Kubernetes.
#[derive(Debug, Clone, FromPyObject)]
pub(crate) enum Amount {
    Units(i64),
    Text(String),
}

pub(crate) type Amounts = BTreeMap<String, Amount>;
pub(crate) type Texts = BTreeMap<String, String>;

impl Amount {
    fn quantity(&self, resource: &str) -> PyResult<Quantity> {
        match self {
            Amount::Units(units) => Ok(Quantity::from(*units)),
            Amount::Text(text) => {
                text.parse().map_err(|error| refused(format_args!("{resource}: {error}")))
            }
        }
    }
}

/// The node of a name, with its capacity and its labels.
pub(crate) fn node(name: String, capacity: &Amounts, labels: Option<Texts>) -> PyResult<Node> {
    let mut node = Node::new(name);
    for (resource, amount) in capacity {
        node = node.capacity(resource, amount.quantity(resource)?);
    }
    for (key, value) in labels.unwrap_or_default() {
        node = node.label(key, value);
    }
    node.check().map_err(refused)?;
    Ok(node)
}

/// A duration of so many seconds.
pub(crate) fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|error| refused(format_args!("{name} = {value}: {error}")))
}

/// A pod: what it asks for, and where it may run.
#[pyclass(frozen, from_py_object)]
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) inner: phalanx::Pod,
}

#[pymethods]
impl Pod {
    #[new]
    #[pyo3(signature = (requests, *, name=None, namespace=None, labels=None, node_selector=None, priority=0, tolerations=None))]
    fn new(
        requests: Amounts,
        name: Option<String>,
        namespace: Option<String>,
        labels: Option<Texts>,
        node_selector: Option<Texts>,
        priority: i32,
        tolerations: Option<Vec<String>>,
    ) -> PyResult<Pod> {
        let mut pod = phalanx::Pod::new().priority(priority);
        for (resource, amount) in &requests {
            pod = pod.request(resource, amount.quantity(resource)?);
        }
        if let Some(name) = name {
            pod = pod.name(name);
        }
        if let Some(namespace) = namespace {
            pod = pod.in_namespace(namespace);
        }
        for (key, value) in labels.unwrap_or_default() {
            pod = pod.label(key, value);
        }
        for (key, value) in node_selector.unwrap_or_default() {
            pod = pod.node_selector(key, value);
        }
        for key in tolerations.unwrap_or_default() {
            pod = pod.toleration(Toleration::exists(key));
        }
        pod.check().map_err(refused)?;
        Ok(Pod { inner: pod })
    }

    /// The name; empty if it has none yet.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn __repr__(&self) -> String {
        format!("Pod({:?}, priority={})", self.inner.name, self.inner.priority)
    }
}

/// A group of pods, or of groups, that is placed whole.
#[pyclass(frozen, from_py_object)]
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) inner: PodGroup,
}

#[pymethods]
impl Group {
    #[new]
    #[pyo3(signature = (name, pods=0, pod=None, *, min_count=None, groups=None, namespace=None, require=None, prefer=None, queue=None, priority=0, run_time_estimate=None))]
    #[expect(clippy::too_many_arguments, reason = "arguments of Python have names")]
    fn new(
        name: String,
        pods: u32,
        pod: Option<Pod>,
        min_count: Option<u32>,
        groups: Option<Vec<Group>>,
        namespace: Option<String>,
        require: Option<String>,
        prefer: Option<String>,
        queue: Option<String>,
        priority: i32,
        run_time_estimate: Option<f64>,
    ) -> PyResult<Group> {
        let groups = groups.unwrap_or_default();
        if pod.is_none() && pods > 0 {
            return Err(refused(format_args!("group {name:?}: {pods} pods of no kind")));
        }
        let children = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        let minimum = min_count.unwrap_or(if groups.is_empty() { pods } else { children });
        let mut group = PodGroup::gang(name, minimum).priority(priority);
        if let Some(namespace) = namespace {
            group = group.in_namespace(namespace);
        }
        if let Some(pod) = pod {
            group = group.pods(pods as usize, pod.inner);
        }
        for child in groups {
            group = group.group(child.inner);
        }
        if let Some(level) = require {
            group = group.require(level);
        }
        if let Some(level) = prefer {
            group = group.prefer(level);
        }
        if let Some(queue) = queue {
            group = group.queue(queue);
        }
        if let Some(estimate) = run_time_estimate {
            group = group.run_time_estimate(seconds("run_time_estimate", estimate)?);
        }
        group.check().map_err(refused)?;
        Ok(Group { inner: group })
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// How many pods it has, those of its groups too.
    fn __len__(&self) -> usize {
        self.inner.pod_count()
    }

    fn __repr__(&self) -> String {
        format!("Group({:?}, {} pods)", self.inner.name, self.inner.pod_count())
    }
}
