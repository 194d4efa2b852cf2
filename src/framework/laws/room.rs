//! Bounds on how many pods a node takes, and filters that read sums alone.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;

use super::subject::{FilterSubject, Question, Ready, put, rows};
use super::{Law, LawError};
use crate::framework::block::Block;
use crate::framework::declaration::Reach;
use crate::framework::traits::Filter;
use crate::model::{Pod, PodShape};
use crate::state::{Cluster, NodeView, Row};

/// Pods placed one after another on a node, at most.
const PODS: usize = 12;

/// Checks one shape of a filter.
pub(super) fn check_room(
    filter: &dyn Filter,
    cluster: &Cluster,
    shapes: &[PodShape],
    index: usize,
) -> Result<(), LawError> {
    let Some(pod) = shapes.get(index) else { return Ok(()) };
    let subject = FilterSubject(filter);
    let declaration = filter.declare(pod);
    let rows = rows(cluster);
    let question = Question::new(pod, &rows);
    let broken = |law, row: Row, detail: String| LawError {
        plugin: filter.name().to_owned(),
        law,
        node: cluster.view(row).map_or("", |node| node.name()).to_owned(),
        shape: index,
        detail,
    };
    let passes = |cluster: &Cluster, row: Row| {
        let question = Question::new(pod, &rows);
        let ready = Ready::new(&subject, &declaration, cluster, question);
        let at = Question { rows: &[row], ..question };
        ready.answers(&subject, cluster, at, false).iter().all(|answer| !answer.is_no())
    };
    let ready = Ready::new(&subject, &declaration, cluster, question);
    if !ready.is_prepared() {
        return Ok(());
    }
    let cx = ready.context(cluster, question);
    for block in Block::all(cluster) {
        for before in [i64::MAX, 1] {
            let mut bounds = vec![before; block.len()];
            filter.room_block(&cx, &block, &mut bounds);
            for (row, bound) in block.rows().zip(bounds) {
                let Some(node) = cluster.view(row) else { continue };
                let expected = before.min(filter.room(&cx, node));
                if bound != expected {
                    let detail = format!("the block has room for {bound}, the node for {expected}");
                    return Err(broken(Law::Room, row, detail));
                }
            }
        }
    }
    let step = rows.len().div_ceil(super::disturb::NODES).max(1);
    let of_all = [1, PODS as i64, i64::MAX].map(|enough| filter.room_of_all(&cx, enough));
    let of_all = of_all.into_iter().min().unwrap_or(i64::MAX);
    let mut together = cluster.txn();
    let mut number = 0;
    for &row in rows.iter().step_by(step) {
        for _ in 0..PODS {
            let pod = Pod::of_shape(pod.clone().into()).name(format!("law-pod-{number}"));
            if !passes(&together, row) || put(&mut together, &pod, row).is_err() {
                break;
            }
            number += 1;
            if number > of_all {
                let detail = format!("all nodes together take more than {of_all}");
                return Err(broken(Law::Room, row, detail));
            }
        }
    }
    drop(together);
    for &row in rows.iter().step_by(step) {
        let Some(node) = cluster.view(row) else { continue };
        if declaration.room && passes(cluster, row) != has_room(cluster, node, pod) {
            let detail = "the verdict is not whether the node has room".to_owned();
            return Err(broken(Law::Room, row, detail));
        }
        let bound = filter.room(&cx, node);
        let mut txn = cluster.txn();
        for placed in 0..PODS {
            if !passes(&txn, row) {
                break;
            }
            if placed as i64 >= bound {
                let detail = format!("takes more than the {bound} it has room for");
                return Err(broken(Law::Room, row, detail));
            }
            let pod = Pod::of_shape(pod.clone().into()).name(format!("law-pod-{placed}"));
            if put(&mut txn, &pod, row).is_err() {
                break;
            }
        }
        if declaration.reach != Reach::Node || declaration.reads_pods {
            continue;
        }
        for other in shapes {
            let mut bare = PodShape::default();
            bare.requests.clone_from(&other.requests);
            bare.incoming_requests.clone_from(&other.incoming_requests);
            bare.existing_requests = other.existing_requests;
            bare.devices.clone_from(&other.devices);
            let verdict = |shape: &PodShape| {
                let mut txn = cluster.txn();
                let pod = Pod::of_shape(shape.clone().into()).name("law-pod");
                put(&mut txn, &pod, row).ok().map(|()| passes(&txn, row))
            };
            if verdict(other) != verdict(&bare) {
                let detail = "tells pods apart that take the same".to_owned();
                return Err(broken(Law::Pods, row, detail));
            }
        }
    }
    Ok(())
}

/// Room as [`Fit`](crate::plugins::Fit) has it.
fn has_room(cluster: &Cluster, node: NodeView<'_>, pod: &PodShape) -> bool {
    let mut asked = pod.requests.iter().filter(|(_, amount)| *amount > 0);
    node.pod_count() < node.pod_limit()
        && asked.all(|(name, amount)| {
            cluster.resource(name).is_some_and(|resource| amount <= node.free(resource))
        })
}
