//! Prepared state of the filters for one pod, kept up to date as pods come and go.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::Time;
use crate::framework::counters::Counter;
use crate::framework::plugin::FilterPreparation;
use crate::framework::prepared::{PreparedFilters, PreparedPlugin, ReadyFilter};
use crate::framework::{Context, Framework, Rejection, Verdict};
use crate::model::{Pod, PodGroup, PodShape};
use crate::state::{Cluster, Row};

/// The prepared filters of one pod: `PreFilter` once, then `AddPod` and `RemovePod` for what changes.
///
/// A filter that skipped the pod while preparing stays skipped whatever comes. Counts move by every
/// pod that comes or goes, even if preparing did not count it (pods that are being deleted, for
/// topology spread). Filters that keep counts of their own beyond a node and do not follow changes
/// are prepared anew.
///
/// Source: kube-scheduler, `framework/runtime/framework.go` (`RunPreFilterPlugins`,
/// `RunPreFilterExtensionAddPod`, `RunPreFilterExtensionRemovePod`, `RunFilterPlugins`).
pub(super) struct CycleState<'a> {
    framework: &'a Framework,
    shape: Arc<PodShape>,
    group: Option<&'a PodGroup>,
    now: Time,
    filters: PreparedFilters,
    /// Filters that are prepared anew once something has changed.
    anew: Vec<bool>,
    changed: bool,
}

impl<'a> CycleState<'a> {
    /// Prepares all filters on a cluster as it is.
    pub(super) fn new(
        framework: &'a Framework,
        cluster: &Cluster,
        pod: &Pod,
        group: Option<&'a PodGroup>,
        now: Time,
    ) -> CycleState<'a> {
        let shape = Arc::clone(pod.shape());
        let cx = Context { group, now, ..Context::new(cluster, &shape) };
        let mut filters = PreparedFilters::new(framework, &cx, |_| true);
        let follows = |filter: &mut ReadyFilter| {
            let declaration = framework.filters()[filter.index].declare(&shape);
            declaration.is_node_local() || filter.prepared.incremental().is_some()
        };
        let anew = filters.filters.iter_mut().map(|filter| !follows(filter)).collect();
        CycleState { framework, shape, group, now, filters, anew, changed: false }
    }

    /// Whether no filter has left a row out while preparing.
    pub(super) fn includes(&self, row: Row) -> bool {
        self.filters.rows.includes(row)
    }

    /// Whether the pod can go to a node of the cluster, or the first reason why not. Rows that were
    /// left out while preparing are judged like others.
    pub(super) fn filter(&self, cluster: &Cluster, row: Row) -> Result<(), Rejection> {
        if let Some((plugin, verdict)) = self.filters.rows.rejected() {
            return Err(Rejection::Refused(plugin, verdict));
        }
        let Some(node) = cluster.view(row) else { return Err(Rejection::Narrowed) };
        let cx = self.context(cluster);
        for (filter, anew) in self.filters.filters.iter().zip(&self.anew) {
            let verdict = if *anew && self.changed {
                self.filter_anew(filter.index, cluster, row)
            } else {
                filter.prepared.filter(&filter.context(cx), node)
            };
            if !verdict.passes() {
                return Err(Rejection::Filter(filter.index, verdict));
            }
        }
        Ok(())
    }

    /// A pod of a shape has come to a row, on which the cluster shows it.
    pub(super) fn add_pod(&mut self, cluster: &Cluster, shape: &PodShape, row: Row) {
        self.change(cluster, shape, row, 1);
    }

    /// A pod of a shape has left a row, on which the cluster does not show it any more.
    pub(super) fn remove_pod(&mut self, cluster: &Cluster, shape: &PodShape, row: Row) {
        self.change(cluster, shape, row, -1);
    }

    fn change(&mut self, cluster: &Cluster, placed: &PodShape, row: Row, sign: i64) {
        self.changed = true;
        let Some(node) = cluster.view(row) else { return };
        for filter in &mut self.filters.filters {
            let PreparedPlugin { prepared, counters, .. } = filter;
            for counter in &mut *counters {
                counter.change(placed, node, &self.shape, sign);
            }
            let base = Context::new(cluster, &self.shape);
            let cx = Context { group: self.group, now: self.now, counters, ..base };
            match prepared.incremental() {
                Some(incremental) if sign > 0 => incremental.pod_added(&cx, placed, node),
                Some(incremental) => incremental.pod_removed(&cx, placed, node),
                None => {}
            }
        }
    }

    fn context<'b>(&'b self, cluster: &'b Cluster) -> Context<'b> {
        Context { group: self.group, now: self.now, ..Context::new(cluster, &self.shape) }
    }

    fn filter_anew(&self, index: usize, cluster: &Cluster, row: Row) -> Verdict {
        let declaration = self.framework.filters()[index].declare(&self.shape);
        let counters = Counter::of_declaration(&declaration, cluster, &self.shape);
        let cx = Context { counters: &counters, ..self.context(cluster) };
        let Some(node) = cluster.view(row) else { return Verdict::Unresolvable };
        match self.framework.prepare_filter(index, &cx) {
            FilterPreparation::Skip => Verdict::Pass,
            FilterPreparation::Reject(verdict) => verdict,
            FilterPreparation::Narrow(_, rows) if !rows.contains(row) => Verdict::Unresolvable,
            FilterPreparation::Ready(prepared) | FilterPreparation::Narrow(prepared, _) => {
                prepared.filter(&cx, node)
            }
        }
    }
}
