//! Label selectors and pod affinity terms, checked once.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::model::{LabelSelector, Labels, PodAffinityTerm, PodShape, Requirement, SelectorError};
use crate::state::Cluster;

/// A label selector that is well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selector {
    /// The absent one.
    Nothing,
    /// Every requirement.
    All(Vec<Requirement>),
}

impl Selector {
    pub(super) fn new(selector: Option<&LabelSelector>) -> Result<Selector, SelectorError> {
        let Some(selector) = selector else { return Ok(Selector::Nothing) };
        selector.check()?;
        let pairs = selector.match_labels.iter().map(|(key, value)| {
            Requirement::new(key.as_str(), crate::model::Operator::In, [value.as_str()])
        });
        Ok(Selector::All(pairs.chain(selector.match_expressions.iter().cloned()).collect()))
    }

    /// Adds a pair that is not checked.
    pub(super) fn require(&mut self, key: &str, value: &str) {
        if let Selector::All(requirements) = self {
            requirements.push(Requirement::new(key, crate::model::Operator::In, [value]));
        }
    }

    /// Whether it has no requirement, and so matches everything.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Selector::All(requirements) if requirements.is_empty())
    }

    pub(super) fn matches(&self, labels: &Labels) -> bool {
        match self {
            Selector::Nothing => false,
            Selector::All(requirements) => requirements.iter().all(|requirement| {
                requirement.matches(labels.get(&requirement.key).map(String::as_str))
            }),
        }
    }
}

/// A pod affinity term that is well-formed.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) key: String,
    selector: Selector,
    /// In order.
    namespaces: Vec<String>,
    namespace_selector: Selector,
}

impl Term {
    fn new(term: &PodAffinityTerm, own_namespace: &str) -> Result<Term, SelectorError> {
        let mut namespaces = if term.is_own() {
            alloc::vec![own_namespace.to_string()]
        } else {
            term.namespaces.clone()
        };
        namespaces.sort_unstable();
        Ok(Term {
            key: term.topology_key.clone(),
            selector: Selector::new(term.label_selector.as_ref())?,
            namespaces,
            namespace_selector: Selector::new(term.namespace_selector.as_ref())?,
        })
    }

    /// The terms of a list; an error if one is malformed.
    pub(super) fn list<'a>(
        terms: impl IntoIterator<Item = &'a PodAffinityTerm>,
        own_namespace: &str,
    ) -> Result<Vec<Term>, SelectorError> {
        terms.into_iter().map(|term| Term::new(term, own_namespace)).collect()
    }

    /// Puts the names of the namespaces that the namespace selector means in the list of names.
    ///
    /// This is done for the pod being placed. The selector stays, and is then judged against no
    /// labels at all ([`Term::means`]): one that no label satisfies matches pods in every
    /// namespace. kube-scheduler does the same.
    pub(super) fn expand(&mut self, cluster: &Cluster) {
        if self.namespace_selector == Selector::Nothing || self.namespace_selector.is_empty() {
            return;
        }
        for (name, labels) in cluster.namespaces() {
            if self.namespace_selector.matches(labels) {
                self.namespaces.push(name.to_string());
            }
        }
        self.namespaces.sort_unstable();
    }

    /// The namespaces that the term means pods of; `None` if it means those of every namespace.
    pub(super) fn namespaces(&self) -> Option<&[String]> {
        let everywhere = self.namespace_selector.matches(&Labels::new());
        if everywhere { None } else { Some(&self.namespaces) }
    }

    /// Whether the term means a pod, whose namespace has these labels.
    pub(super) fn means(&self, pod: &PodShape, namespace_labels: &Labels) -> bool {
        let namespace = self.namespaces.binary_search(&pod.namespace).is_ok()
            || self.namespace_selector.matches(namespace_labels);
        namespace && self.selector.matches(&pod.labels)
    }
}

/// Whether the selectors of a term are well-formed.
pub(super) fn is_sound(term: &PodAffinityTerm) -> bool {
    let selectors = term.label_selector.iter().chain(&term.namespace_selector);
    selectors.into_iter().all(|selector| selector.check().is_ok())
}

/// Entries of a pod's list with a term about another pod, whose namespace has these labels; nothing
/// if a term of the list is malformed.
///
/// As [`Term::means`] for each, without a copy of any text: most terms mean other pods, and a list is
/// checked only where one does.
pub(super) fn meaning<'a, T>(
    list: &'a [T],
    term: impl Fn(&T) -> &PodAffinityTerm + Copy + 'a,
    own_namespace: &'a str,
    (pod, namespace_labels): (&'a PodShape, &'a Labels),
) -> impl Iterator<Item = &'a T> {
    let means = move |item: &&T| {
        let term = term(item);
        let meets = |selector: &Option<LabelSelector>, labels: &Labels| {
            selector.as_ref().is_some_and(|selector| selector.matches(labels))
        };
        let named = if term.is_own() {
            own_namespace == pod.namespace
        } else {
            term.namespaces.contains(&pod.namespace)
        };
        (named || meets(&term.namespace_selector, namespace_labels))
            && meets(&term.label_selector, &pod.labels)
    };
    let counts = list.iter().any(|item| means(&item)) && list.iter().all(|own| is_sound(term(own)));
    let list = if counts { list } else { &[] };
    list.iter().filter(means)
}
