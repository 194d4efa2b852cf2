//! The range of scores, permits, scores of domains.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::law::{Law, LawError};
use super::subject::{Answer, Question, Ready, Subject};
use crate::framework::MAX_SCORE;
use crate::framework::context::{DomainContext, PermitContext};
use crate::framework::plugin::ScorePlugin;
use crate::framework::traits::{DomainScore, Normalization, Permit, PermitVerdict};
use crate::model::PodShape;
use crate::state::{Cluster, Row};

/// Checks a permit on each of some contexts.
///
/// # Errors
/// The first law found broken: [`Law::Name`], [`Law::Repeatable`], or [`Law::Hold`].
pub fn check_permit(permit: &dyn Permit, contexts: &[PermitContext<'_>]) -> Result<(), LawError> {
    let broken = |law, shape, detail| LawError {
        plugin: permit.name().to_owned(),
        law,
        node: String::new(),
        shape,
        detail,
    };
    if permit.name().is_empty() {
        return Err(broken(Law::Name, 0, "the name is empty".to_owned()));
    }
    let verdicts: Vec<PermitVerdict> = contexts.iter().map(|cx| permit.permit(cx)).collect();
    // Asked again last first, on a copy of everything.
    for (index, (cx, first)) in contexts.iter().zip(&verdicts).enumerate().rev() {
        let (cluster, group, plan) = (cx.cluster.clone(), cx.group.clone(), cx.plan.clone());
        let copy = PermitContext { cluster: &cluster, group: &group, plan: &plan, now: cx.now };
        let again = permit.permit(&copy);
        if again != *first {
            let detail = format!("{first:?} became {again:?} when asked again");
            return Err(broken(Law::Repeatable, index, detail));
        }
        if let PermitVerdict::Hold { until } = first
            && *until <= cx.now
        {
            let detail = format!("holds until {until:?} at {:?}", cx.now);
            return Err(broken(Law::Hold, index, detail));
        }
    }
    Ok(())
}

/// Checks a score of domains on the candidate domains of one choice.
///
/// # Errors
/// The first law found broken: [`Law::Name`], [`Law::Repeatable`], or [`Law::Range`].
pub fn check_domain_score(
    score: &dyn DomainScore,
    domains: &[DomainContext<'_>],
) -> Result<(), LawError> {
    let broken = |law, shape, detail| LawError {
        plugin: score.name().to_owned(),
        law,
        node: String::new(),
        shape,
        detail,
    };
    if score.name().is_empty() {
        return Err(broken(Law::Name, 0, "the name is empty".to_owned()));
    }
    let normalization = score.normalization();
    if normalization == Normalization::Extremes {
        let detail = format!("{normalization:?} is not for scores of domains");
        return Err(broken(Law::Range, 0, detail));
    }
    let raws: Vec<i64> = domains.iter().map(|cx| score.score(cx)).collect();
    for (index, (cx, &first)) in domains.iter().zip(&raws).enumerate().rev() {
        let again = score.score(cx);
        if again != first {
            let detail = format!("{first} became {again} when asked again");
            return Err(broken(Law::Repeatable, index, detail));
        }
        if first < 0 || normalization == Normalization::None && first > MAX_SCORE {
            return Err(broken(Law::Range, index, format!("{first} is out of range")));
        }
    }
    Ok(())
}

/// Whether scores end within their range without being clamped.
pub(super) fn check_range(
    score: &Arc<dyn ScorePlugin>,
    cluster: &Cluster,
    index: usize,
    pod: &PodShape,
    rows: &[Row],
) -> Result<(), LawError> {
    let broken = |law, row: Option<Row>, detail| LawError {
        plugin: score.name().to_owned(),
        law,
        node: row.and_then(|row| cluster.view(row)).map_or("", |node| node.name()).to_owned(),
        shape: index,
        detail,
    };
    let question = Question::new(pod, rows);
    let subject = Subject::Score(Arc::clone(score));
    let ready = Ready::new(&subject, &subject.declare(pod), cluster, question);
    let answers = ready.answers(cluster, question, false);
    let raws: Vec<i64> = answers
        .iter()
        .filter_map(|answer| match answer {
            Answer::Score(raw) => Some(*raw),
            _ => None,
        })
        .collect();
    if raws.len() < rows.len() {
        return Ok(());
    }
    let normalization = score.normalization();
    let ends: Vec<i64> = match normalization {
        Normalization::Extremes => {
            let counted = || raws.iter().copied().filter(|raw| *raw != Normalization::IGNORED);
            let low = counted().min().unwrap_or(0);
            let high = counted().max().unwrap_or(0);
            raws.iter()
                .map(|&raw| match raw {
                    Normalization::IGNORED => 0,
                    raw => score.rescale(raw, low, high),
                })
                .collect()
        }
        Normalization::None => raws,
        // In proportion to the highest: only a negative score leaves the range.
        Normalization::Max | Normalization::MaxReversed => {
            raws.iter().map(|&raw| raw.min(0)).collect()
        }
    };
    match ends.iter().position(|end| !(0..=MAX_SCORE).contains(end)) {
        None => Ok(()),
        Some(at) => {
            let detail = format!("the score is {}, under {normalization:?}", ends[at]);
            Err(broken(Law::Range, Some(rows[at]), detail))
        }
    }
}
