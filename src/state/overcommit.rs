//! Resources of lower bands on a node of the cluster.

use alloc::vec::Vec;

use super::view::NodeView;
use crate::base::Time;
use crate::model::{Amounts, NodePod, Overcommit};

impl NodeView<'_> {
    /// The amounts of all pods of the bands `batch` and `mid` on the node, by the last measurement:
    /// [`Overcommit::batch`] and [`Overcommit::mid`], zeros where the report is too old. `None` if
    /// nothing was measured.
    ///
    /// Set as allocatable amounts of the node
    /// ([`Event::NodeChanged`](crate::Event::NodeChanged)), they are what such pods are placed by; the
    /// embedder says when.
    ///
    /// ```
    /// use phalanx::model::{Amounts, NodeUsage, Overcommit, PriorityBand};
    /// use phalanx::{Cluster, Event, Node, Pod, Time};
    ///
    /// let amounts = |cpu: i64, memory: i64| {
    ///     let mut amounts = Amounts::new();
    ///     amounts.set("cpu", cpu);
    ///     amounts.set("memory", memory);
    ///     amounts
    /// };
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(Node::new("n1").capacity("cpu", 100).capacity("memory", 1_000))?;
    /// let web = Pod::new().name("web").request("cpu", 80).request("memory", 500).priority(9_000);
    /// cluster.add_pod(web.on("n1"))?;
    /// // It was promised 80 cores, and uses 20.
    /// let usage = NodeUsage::new(Time::ZERO, amounts(22_000, 250))
    ///     .pod("default", "web", PriorityBand::Prod, amounts(20_000, 200));
    /// let usage = Some(Box::new(usage));
    /// cluster.apply(Event::NodeUsageChanged { name: "n1".into(), usage, version: 1 })?;
    /// let node = cluster.node("n1").unwrap();
    /// let more = node.overcommitted(&Overcommit::default(), Time::ZERO).unwrap();
    /// assert_eq!(more.of("kubernetes.io/batch-cpu"), 40_000); // 60 % of 100, less 20
    /// # Ok::<(), phalanx::StateError>(())
    /// ```
    pub fn overcommitted(self, rules: &Overcommit, now: Time) -> Option<Amounts> {
        let usage = self.measured()?;
        let node = self.to_node();
        let pods: Vec<NodePod<'_>> = self
            .pods()
            .map(|pod| NodePod {
                namespace: pod.namespace(),
                name: pod.name(),
                band: Some(pod.shape().band_with(pod.priority())),
                qos: pod.shape().qos(),
                requests: &pod.shape().requests,
            })
            .collect();
        let (capacity, allocatable) = (&node.capacity, &node.allocatable);
        let batch = rules.batch(capacity, allocatable, &pods, usage, now);
        let mid = rules.mid(capacity, allocatable, &pods, usage, now);
        let mut more = Amounts::new();
        for name in crate::model::overcommitted() {
            let of = |amounts: &Option<Amounts>| amounts.as_ref().map_or(0, |own| own.of(&name));
            more.set(&name, of(&batch).max(of(&mid)));
        }
        Some(more)
    }
}
