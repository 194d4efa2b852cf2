//! A score for container images that are on the node already.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::framework::{
    Context, Declaration, MAX_SCORE, PreparedScore, ScorePlugin, ScorePreparation,
};
use crate::model::PodShape;
use crate::state::NodeView;

const MEBIBYTE: i64 = 1 << 20;
/// Fewer bytes than this are worth nothing.
const LEAST: i64 = 23 * MEBIBYTE;
/// More bytes than this, per container, are worth no more.
const MOST: i64 = 1_000 * MEBIBYTE;

/// Prefers nodes that have the pod's images, the large and widespread ones before all.
///
/// Each image counts with its size on the node times the share of nodes that have it. Of the sum
/// `s`, with `c` containers, the score is `100·(s − 23 MiB) ÷ (1000 MiB·c − 23 MiB)`, with `s`
/// held between those bounds. Images are looked up by exact name, with `:latest` where there is
/// no tag.
///
/// O(images of the node) a node; skipped if no node has any of the images.
///
/// Source: kube-scheduler, `imagelocality/image_locality.go`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImageLocality;

/// Images that some node has.
struct Wanted {
    /// Name, share of nodes that have it, and how often the pod names it.
    images: Vec<(String, f64, i64)>,
    most: i64,
}

impl ScorePlugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let (cluster, pod) = (cx.cluster(), cx.pod());
        let nodes = cluster.node_count() as f64;
        let mut images: Vec<(String, f64, i64)> = Vec::new();
        for image in &pod.images {
            let name = normalized(image);
            if let Some(known) = images.iter_mut().find(|(known, ..)| *known == name) {
                known.2 += 1;
                continue;
            }
            let having = cluster.nodes_with_image(&name);
            if having > 0 {
                images.push((name, f64::from(having) / nodes, 1));
            }
        }
        if images.is_empty() {
            return ScorePreparation::Skip;
        }
        let most = MOST * i64::from(pod.containers);
        ScorePreparation::ready(Wanted { images, most })
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        if pod.images.is_empty() {
            return Declaration::constant();
        }
        Declaration::constant().reading_nodes()
    }
}

impl PreparedScore for Wanted {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let mut sum = 0_i64;
        for (name, share, times) in &self.images {
            // The last of several images with one name counts.
            let mut here = node.images().iter().rev();
            if let Some(image) = here.find(|image| image.names.contains(name)) {
                sum = sum.saturating_add((image.size as f64 * share) as i64 * times);
            }
        }
        let sum = if sum < LEAST { LEAST } else { sum.min(self.most) };
        MAX_SCORE * (sum - LEAST) / (self.most - LEAST)
    }
}

/// The name with the tag that is meant where none is written.
fn normalized(image: &str) -> String {
    let tagged = image.rfind(':') > image.rfind('/');
    let mut name = String::from(image);
    if !tagged {
        name.push_str(":latest");
    }
    name
}

#[cfg(test)]
mod tests;
