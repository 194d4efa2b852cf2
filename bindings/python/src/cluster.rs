//! The cluster, and what-if on a working copy of it.

use std::collections::BTreeMap;

use phalanx::Txn;
use phalanx::state::{Checkpoint, NodeView as View};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

use crate::failure::refused;
use crate::framework::Framework;
use crate::model::{Amounts, Group, Pod, Texts, node};
use crate::outcome::Outcome;

/// The free amounts of a node.
fn free(cluster: &phalanx::Cluster, node: &str) -> PyResult<BTreeMap<String, i64>> {
    let view = cluster.node(node).ok_or_else(|| PyKeyError::new_err(node.to_owned()))?;
    let has = |id: &_| view.allocatable(*id) != 0;
    let all = cluster.resources().filter(has);
    Ok(all.map(|id| (cluster.resource_name(id).to_owned(), view.free(id))).collect())
}

fn names(cluster: &phalanx::Cluster) -> Vec<String> {
    cluster.nodes().map(|node: View<'_>| node.name().to_owned()).collect()
}

/// Namespace, name and node of each bound pod.
fn pods(cluster: &phalanx::Cluster) -> Vec<(String, String, String)> {
    let node = |node: Option<View<'_>>| node.map_or(String::new(), |node| node.name().to_owned());
    let row = |pod: phalanx::state::PodView<'_>| {
        (pod.namespace().to_owned(), pod.name().to_owned(), node(pod.node()))
    };
    cluster.pods().map(row).collect()
}

/// Nodes, what runs on them, and the levels of the topology, the widest first.
#[pyclass]
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) inner: phalanx::Cluster,
}

#[pymethods]
impl Cluster {
    #[new]
    #[pyo3(signature = (levels=Vec::new()))]
    fn new(levels: Vec<String>) -> PyResult<Cluster> {
        let inner = phalanx::Cluster::builder().levels(levels).build().map_err(refused)?;
        Ok(Cluster { inner })
    }

    /// Adds a node.
    #[pyo3(signature = (name, capacity, *, labels=None))]
    fn add_node(&mut self, name: String, capacity: Amounts, labels: Option<Texts>) -> PyResult<()> {
        self.inner.add_node(node(name, &capacity, labels)?).map_err(refused)?;
        Ok(())
    }

    /// Removes a node, and the pods that run on it.
    fn remove_node(&mut self, name: &str) -> PyResult<()> {
        self.inner.remove_node(name).map_err(refused)
    }

    /// Binds a pod that runs already. Its node may come later.
    fn add_pod(&mut self, pod: &Pod, node: &str) -> PyResult<()> {
        self.inner.add_pod(pod.inner.clone().on(node)).map_err(refused)?;
        Ok(())
    }

    /// Removes a pod.
    #[pyo3(signature = (name, *, namespace="default"))]
    fn remove_pod(&mut self, name: &str, namespace: &str) -> PyResult<()> {
        self.inner.remove_pod(namespace, name).map_err(refused)
    }

    /// Binds all pods of a plan, or none.
    #[pyo3(signature = (outcome, *, framework=None))]
    fn commit(&mut self, outcome: &Outcome, framework: Option<&Framework>) -> PyResult<()> {
        let plan = outcome.needed()?;
        Framework::with(framework, |framework| {
            self.inner.commit(framework, plan).map(drop).map_err(refused)
        })
    }

    /// A working copy for what-if; this cluster stays as it is.
    fn what_if(&self) -> WhatIf {
        WhatIf { txn: self.inner.txn(), marks: Vec::new() }
    }

    /// Names of all nodes, in order.
    #[getter]
    fn nodes(&self) -> Vec<String> {
        names(&self.inner)
    }

    /// Namespace, name and node of each bound pod.
    #[getter]
    fn pods(&self) -> Vec<(String, String, String)> {
        pods(&self.inner)
    }

    /// Free amounts of a node, by resource. CPU is in thousandths of a core, memory in bytes.
    fn free(&self, node: &str) -> PyResult<BTreeMap<String, i64>> {
        free(&self.inner, node)
    }

    fn __len__(&self) -> usize {
        self.inner.node_count()
    }

    fn __repr__(&self) -> String {
        format!("Cluster({} nodes, {} pods)", self.inner.node_count(), self.inner.pod_count())
    }
}

/// A working copy of a cluster. Each change can be taken back to a mark.
#[pyclass]
#[derive(Debug)]
pub(crate) struct WhatIf {
    txn: Txn,
    marks: Vec<Checkpoint>,
}

#[pymethods]
impl WhatIf {
    /// Remembers the state; returns its number.
    fn mark(&mut self) -> usize {
        self.marks.push(self.txn.checkpoint());
        self.marks.len() - 1
    }

    /// Goes back to the state of a mark. Later marks are forgotten.
    fn rollback(&mut self, mark: usize) -> PyResult<()> {
        let to = self.marks.get(mark).copied();
        let to = to.ok_or_else(|| refused(format_args!("there is no mark {mark}")))?;
        self.txn.rollback(to).map_err(refused)?;
        self.marks.truncate(mark + 1);
        Ok(())
    }

    /// Takes a pod away.
    #[pyo3(signature = (name, *, namespace="default"))]
    fn evict(&mut self, name: &str, namespace: &str) -> PyResult<()> {
        self.txn.evict(namespace, name).map(drop).map_err(refused)
    }

    /// Adds nodes of one kind; returns their names.
    #[pyo3(signature = (name, capacity, count=1, *, labels=None))]
    fn add_nodes(
        &mut self,
        name: String,
        capacity: Amounts,
        count: usize,
        labels: Option<Texts>,
    ) -> PyResult<Vec<String>> {
        let template = node(name, &capacity, labels)?;
        let ids = self.txn.add_nodes(&template, count).map_err(refused)?;
        let name = |id| self.txn.node_by_id(id).map(|node| node.name().to_owned());
        Ok(ids.into_iter().filter_map(name).collect())
    }

    /// Keeps new pods off a node.
    fn cordon(&mut self, node: &str) -> PyResult<()> {
        self.txn.cordon(node).map_err(refused)
    }

    /// Would the group fit now? Nothing changes.
    #[pyo3(signature = (group, *, framework=None))]
    fn place(&self, group: &Group, framework: Option<&Framework>) -> PyResult<Outcome> {
        Framework::with(framework, |framework| {
            let inner = phalanx::place_gang(&self.txn, framework, &group.inner).map_err(refused)?;
            Ok(Outcome { inner })
        })
    }

    /// Puts the pods of a plan in their places.
    fn apply(&mut self, outcome: &Outcome) -> PyResult<()> {
        self.txn.apply_plan(outcome.needed()?).map_err(refused)
    }

    /// Names of all nodes, in order.
    #[getter]
    fn nodes(&self) -> Vec<String> {
        names(&self.txn)
    }

    /// Free amounts of a node, by resource.
    fn free(&self, node: &str) -> PyResult<BTreeMap<String, i64>> {
        free(&self.txn, node)
    }

    fn __repr__(&self) -> String {
        format!("WhatIf({} nodes)", self.txn.node_count())
    }
}
