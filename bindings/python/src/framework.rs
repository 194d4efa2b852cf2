//! A framework with scores and filters of Python's.

use std::collections::BTreeMap;

use phalanx::framework::{Context, Reach, filter_fn, score_fn};
use phalanx::model::PodShape;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure::{Raised, refused};

/// The pod that a callback judges.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct PodView {
    /// Its requests, by resource. CPU is in thousandths of a core, memory in bytes.
    #[pyo3(get)]
    requests: BTreeMap<String, i64>,
    /// Its labels.
    #[pyo3(get)]
    labels: BTreeMap<String, String>,
}

/// The node that a callback judges.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct NodeView {
    /// Its name.
    #[pyo3(get)]
    name: String,
    /// Its labels.
    #[pyo3(get)]
    labels: BTreeMap<String, String>,
    /// Amounts that pods may have of it, by resource.
    #[pyo3(get)]
    allocatable: BTreeMap<String, i64>,
    /// Free amounts of that.
    #[pyo3(get)]
    free: BTreeMap<String, i64>,
}

impl PodView {
    fn new(shape: &PodShape) -> PodView {
        let amounts = shape.requests.iter();
        PodView {
            requests: amounts.map(|(name, amount)| (name.to_owned(), amount)).collect(),
            labels: shape.labels.iter().map(|(key, value)| (key.into(), value.into())).collect(),
        }
    }
}

impl NodeView {
    fn new(node: phalanx::state::NodeView<'_>) -> NodeView {
        let cluster = node.cluster();
        let labels = node.labels();
        let known = cluster.resources().filter(|id| node.allocatable(*id) != 0);
        let amounts: Vec<_> = known.map(|id| (cluster.resource_name(id).to_owned(), id)).collect();
        let text = |(key, value)| {
            (cluster.label_key_text(key).to_owned(), cluster.label_text(value).to_owned())
        };
        NodeView {
            name: node.name().to_owned(),
            labels: labels.map(text).collect(),
            free: amounts.iter().map(|(name, id)| (name.clone(), node.free(*id))).collect(),
            allocatable: amounts
                .into_iter()
                .map(|(name, id)| (name, node.allocatable(id)))
                .collect(),
        }
    }
}

/// The views that a callback gets.
fn views(cx: &Context<'_>, node: phalanx::state::NodeView<'_>) -> (PodView, NodeView) {
    (PodView::new(cx.pod()), NodeView::new(node))
}

/// The reach of a callback, for the caches.
fn reach(text: &str) -> PyResult<Reach> {
    match text {
        "static" => Ok(Reach::Static),
        "node" => Ok(Reach::Node),
        "cluster" => Ok(Reach::Cluster),
        _ => Err(PyValueError::new_err(format!(
            "reach {text:?} is none of \"static\", \"node\", \"cluster\""
        ))),
    }
}

/// Filters and scores that judge nodes. Without changes, those of kube-scheduler.
#[pyclass]
#[derive(Debug, Clone, Default)]
pub(crate) struct Framework {
    pub(crate) inner: phalanx::Framework,
    raised: Raised,
}

impl Framework {
    /// Calls with the framework that was given, or the default one, and raises what its callbacks
    /// raised.
    pub(crate) fn with<T>(
        framework: Option<&Framework>,
        call: impl FnOnce(&phalanx::Framework) -> PyResult<T>,
    ) -> PyResult<T> {
        let Some(Framework { inner, raised }) = framework else {
            return call(&phalanx::Framework::default());
        };
        let answer = call(inner);
        raised.check()?;
        answer
    }

    fn rebuilt(
        &mut self,
        change: impl FnOnce(
            phalanx::framework::FrameworkBuilder,
        ) -> phalanx::framework::FrameworkBuilder,
    ) -> PyResult<()> {
        self.inner = change(self.inner.to_builder()).build().map_err(refused)?;
        Ok(())
    }
}

#[pymethods]
impl Framework {
    #[new]
    fn new() -> Framework {
        Framework::default()
    }

    /// Adds a score: `call(pod, node)` returns 0 to 100, higher is better.
    ///
    /// `reach` says what it reads: `"static"`, what the node is; `"node"`, what runs on it too;
    /// `"cluster"`, anything.
    #[pyo3(signature = (name, weight, call, *, reach="cluster"))]
    fn score(&mut self, name: &str, weight: u32, call: Py<PyAny>, reach: &str) -> PyResult<()> {
        let (declared, raised) = (self::reach(reach)?, self.raised.clone());
        // A plug-in keeps its name for as long as the program runs.
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        let score = score_fn(name, declared, move |cx, node| {
            raised.ask(0, |py| call.call1(py, views(cx, node))?.extract(py))
        });
        self.rebuilt(|builder| builder.score(weight, score))
    }

    /// Adds a filter: `call(pod, node)` returns whether the pod may run there.
    #[pyo3(signature = (name, call, *, reach="cluster"))]
    fn filter(&mut self, name: &str, call: Py<PyAny>, reach: &str) -> PyResult<()> {
        let (declared, raised) = (self::reach(reach)?, self.raised.clone());
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        let filter = filter_fn(name, declared, move |cx, node| {
            raised.ask(false, |py| call.call1(py, views(cx, node))?.is_truthy(py))
        });
        self.rebuilt(|builder| builder.filter(filter))
    }

    /// Gives a score another weight; 0 takes it out.
    fn weigh(&mut self, name: &str, weight: u32) -> PyResult<()> {
        self.rebuilt(|builder| builder.weigh(name, weight))
    }

    /// Names of the scores, with their weights.
    #[getter]
    fn scores(&self) -> Vec<(String, i64)> {
        self.inner.score_names().map(|(weight, name)| (name.to_owned(), weight)).collect()
    }

    /// Names of the filters.
    #[getter]
    fn filters(&self) -> Vec<String> {
        self.inner.filter_names().map(str::to_owned).collect()
    }
}
