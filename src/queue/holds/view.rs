//! Views: the cluster without some of its pods.

use alloc::string::String;
use alloc::vec::Vec;

use crate::framework::Framework;
use crate::model::Pod;
use crate::preempt::EvictedPod;
use crate::queue::removals::is_there;
use crate::state::{Cluster, Plan, PodView};

/// A working copy of the cluster, from which pods were taken out: "the cluster without X". The copy
/// is made on write, so that what stays costs nothing.
#[derive(Debug, Clone)]
pub(in crate::queue) struct View {
    cluster: Cluster,
}

impl View {
    pub(in crate::queue) fn of(cluster: &Cluster) -> View {
        View { cluster: cluster.clone() }
    }

    pub(in crate::queue) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Takes pods out that are to go, where they still are where they were named.
    #[must_use]
    pub(in crate::queue) fn without<'a>(
        mut self,
        going: impl IntoIterator<Item = &'a EvictedPod>,
    ) -> View {
        for pod in going {
            if is_there(&self.cluster, pod) {
                let _ = self.cluster.remove_pod(&pod.namespace, &pod.name);
            }
        }
        self
    }

    /// Takes pods out that leave, by their names.
    pub(in crate::queue) fn leave<'a>(&mut self, pods: impl IntoIterator<Item = &'a EvictedPod>) {
        for pod in pods {
            let _ = self.cluster.remove_pod(&pod.namespace, &pod.name);
        }
    }

    /// Takes pods out by their names.
    #[must_use]
    pub(in crate::queue) fn without_pods<'a>(
        mut self,
        pods: impl IntoIterator<Item = &'a Pod>,
    ) -> View {
        self.take_out(pods);
        self
    }

    /// Takes pods out by their names.
    pub(in crate::queue) fn take_out<'a>(&mut self, pods: impl IntoIterator<Item = &'a Pod>) {
        for pod in pods {
            let _ = self.cluster.remove_pod(pod.namespace(), &pod.name);
        }
    }

    /// Adds pods on their nodes. Returns whether all of them are in now.
    pub(in crate::queue) fn put<'a>(&mut self, pods: impl IntoIterator<Item = &'a Pod>) -> bool {
        pods.into_iter().all(|pod| self.cluster.add_pod(pod.clone()).is_ok())
    }

    /// Takes pods out that terminate. O(pods).
    #[must_use]
    pub(in crate::queue) fn without_terminating(mut self) -> View {
        let deleting = self.cluster.pods().filter(|pod| pod.deleting());
        let name = |pod: PodView<'_>| (String::from(pod.namespace()), String::from(pod.name()));
        let names: Vec<(String, String)> = deleting.map(name).collect();
        for (namespace, name) in names {
            let _ = self.cluster.remove_pod(&namespace, &name);
        }
        self
    }

    /// Whether a plan holds here; its pods are here then.
    pub(in crate::queue) fn takes(&mut self, framework: &Framework, plan: &Plan) -> bool {
        self.cluster.commit(framework, plan).is_ok()
    }
}
