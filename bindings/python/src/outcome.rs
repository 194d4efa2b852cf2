//! The answer to a request.

use std::collections::BTreeMap;

use pyo3::prelude::*;

use crate::failure::refused;

/// The answer to a request: a place for each pod, or why there is none. True if it is placed.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) inner: phalanx::Outcome,
}

impl Outcome {
    /// The plan, for a call that needs one.
    pub(crate) fn needed(&self) -> PyResult<&phalanx::Plan> {
        self.inner.plan().ok_or_else(|| refused(format_args!("no plan: {}", self.inner)))
    }
}

#[pymethods]
impl Outcome {
    fn __bool__(&self) -> bool {
        self.inner.is_placed()
    }

    /// The outcome in a word: `placed`, `held`, `denied`, `infeasible`, `exhausted`, `greedy`.
    #[getter]
    fn word(&self) -> &str {
        self.inner.word()
    }

    /// Pod and node of each assignment, in the order of the members. Empty without a plan.
    #[getter]
    fn assignments(&self) -> Vec<(String, String)> {
        let plan = self.inner.plan();
        let all = plan.into_iter().flat_map(phalanx::Plan::assignments);
        all.map(|one| (one.pod().name.clone(), one.node().to_owned())).collect()
    }

    /// How many pods each node gets. Empty without a plan.
    #[getter]
    fn nodes(&self) -> BTreeMap<String, usize> {
        let plan = self.inner.plan();
        let nodes = plan.into_iter().flat_map(phalanx::Plan::pods_per_node);
        nodes.map(|(node, pods)| (node.to_owned(), pods)).collect()
    }

    /// The domain of each group that has one: group, level, value.
    #[getter]
    fn domains(&self) -> Vec<(String, String, String)> {
        let plan = self.inner.plan();
        let domains = plan.into_iter().flat_map(phalanx::Plan::domains);
        domains.map(|(group, key, value)| (group.into(), key.into(), value.into())).collect()
    }

    fn __len__(&self) -> usize {
        self.inner.plan().map_or(0, phalanx::Plan::len)
    }

    fn __str__(&self) -> String {
        self.inner.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Outcome({})", self.inner.word())
    }
}
