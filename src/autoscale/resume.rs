//! The last answer, from which one for nearly the same list of groups starts.

use alloc::vec::Vec;

use super::build::{Built, Limits};
use super::error::AutoscaleError;
use super::needs::Needs;
use super::stage::Stage;
use super::template::NodeTemplate;
use crate::framework::Framework;
use crate::model::PodGroup;
use crate::state::journal::Moment;

/// The last answer was made from nothing for a list of groups. If no more than one group in so many
/// has changed since, the next answer starts from it.
const FEW: usize = 8;

/// The last answer for many groups.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) moment: Moment,
    pub(super) framework: Framework,
    pub(super) templates: Vec<NodeTemplate>,
    pub(super) limits: Limits,
    /// The groups, as far as room was made for them.
    pub(super) groups: Vec<PodGroup>,
    pub(super) built: Built,
    /// Lower bound of the cost of any set, by counting alone.
    pub(super) least: Option<i128>,
    /// How many groups have come and gone since an answer was made from nothing.
    pub(super) changed: usize,
}

/// The last answer, changed by what the list of groups has changed by.
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) built: Built,
    /// Lower bound of the cost of any set: known from the list before, if all its groups are in
    /// this one.
    pub(super) least: Option<i128>,
    pub(super) changed: usize,
}

impl Kept {
    /// The last answer, changed by what the list of groups has changed by; `None` if that is too much,
    /// or the last answer was to another question.
    pub(super) fn resume(
        self,
        (moment, framework, templates, limits): (Moment, &Framework, &[NodeTemplate], &Limits),
        (stage, needs): (&mut Stage<'_, '_>, &mut Needs),
        steps: &mut u64,
    ) -> Result<Option<Resumed>, AutoscaleError> {
        let same = self.moment == moment
            && self.framework.same(framework)
            && self.templates == templates
            && self.limits == *limits;
        if !same {
            return Ok(None);
        }
        // By the place of a group in the last list, its place in this one.
        let mut by_name: Vec<(&str, &str, usize)> = (self.groups.iter().enumerate())
            .map(|(at, group)| (&*group.namespace, &*group.name, at))
            .collect();
        by_name.sort_unstable();
        let mut place = alloc::vec![None; self.groups.len()];
        let mut fresh = Vec::new();
        for &at in &stage.order {
            let group = stage.asks[at].group();
            let known = by_name.binary_search_by(|(namespace, name, _)| {
                (*namespace, *name).cmp(&(&group.namespace, &group.name))
            });
            match known.map(|known| by_name[known].2) {
                Ok(known) if place[known].is_none() && self.groups[known] == *group => {
                    place[known] = Some(at);
                }
                _ => fresh.push(at),
            }
        }
        let gone = place.iter().filter(|place| place.is_none()).count();
        let changed = self.changed + gone + fresh.len();
        if changed.saturating_mul(FEW) > stage.asks.len() {
            return Ok(None);
        }
        let mut built = self.built;
        built.forget(&place);
        built.replay(stage)?;
        built.drop_unused(stage)?;
        for group in fresh {
            if !built.place(stage, needs, limits, (group, None), steps)? {
                return Ok(None);
            }
        }
        built.drop_unused(stage)?;
        Ok(Some(Resumed { built, least: self.least.filter(|_| gone == 0), changed }))
    }
}
