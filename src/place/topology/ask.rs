//! What a group asks of the topology.

use alloc::vec::Vec;

use crate::model::PodGroup;
use crate::state::Cluster;

/// The keys that confine a group, best first.
///
/// A requirement is one key. A preference is its own level and each level above, up to the highest
/// allowed, the required one, or the whole.
pub(crate) fn keys<'a>(cluster: &'a Cluster, group: &'a PodGroup) -> Vec<Option<&'a str>> {
    let topology = &group.topology;
    let levels: Vec<&str> = cluster.levels().collect();
    let place = |key: &str| levels.iter().position(|level| *level == key);
    let require = topology.require.as_deref();
    let mut keys = Vec::new();
    // A preference counts where it is finer than what is required.
    let prefer = topology.prefer.as_deref().filter(|prefer| {
        require.is_none_or(|require| match (place(prefer), place(require)) {
            (Some(prefer), Some(require)) => require < prefer,
            _ => false,
        })
    });
    if let Some(prefer) = prefer {
        keys.push(Some(prefer));
        let stop = topology.highest.as_deref().or(require);
        if stop != Some(prefer) {
            let own = place(prefer).unwrap_or(0);
            for level in levels[..own].iter().rev() {
                keys.push(Some(*level));
                if Some(*level) == stop {
                    break;
                }
            }
        }
    }
    match require {
        Some(require) if !keys.contains(&Some(require)) => keys.push(Some(require)),
        None if prefer.is_none() || topology.highest.is_none() => keys.push(None),
        _ => {}
    }
    keys
}
