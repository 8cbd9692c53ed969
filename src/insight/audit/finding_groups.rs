//! Findings that are the same mistake: of one kind, done in the same way, about keys that differ in numbers and random parts.

use std::collections::HashMap;

use super::code::{Code, Severity};
use super::finding::Finding;
use super::key_family::key_glob;

/// A mistake, and how often it was made.
pub struct FindingGroup<T> {
    /// In the order in which they were done. The first one is described.
    pub findings: Vec<T>,
    /// A glob for all their keys.
    pub keys: Vec<u8>,
}

/// What makes two findings one mistake: code, severity, advice, database, keys, whether it is allowed, and the place.
type Mistake<P> = (Code, Severity, &'static str, u32, Vec<u8>, bool, P);

/// Groups findings, and sorts the groups by harm. `finding_of` tells of each thing its finding, and the place (such as a
/// space) outside of which it is another mistake.
pub fn grouped<T, P: Eq + std::hash::Hash>(
    things: impl IntoIterator<Item = T>,
    finding_of: impl Fn(&T) -> (&Finding, P),
) -> Vec<FindingGroup<T>> {
    let mut groups: Vec<FindingGroup<T>> = Vec::new();
    let mut known: HashMap<Mistake<P>, usize> = HashMap::new();
    for thing in things {
        let (finding, place) = finding_of(&thing);
        let keys = key_glob(&finding.key);
        let mistake = (
            finding.code,
            finding.severity,
            finding.instead(),
            finding.db,
            keys.clone(),
            finding.allowed.is_some(),
            place,
        );
        let group = *known.entry(mistake).or_insert_with(|| {
            groups.push(FindingGroup { findings: Vec::new(), keys });
            groups.len() - 1
        });
        groups[group].findings.push(thing);
    }
    let harm = |thing: &T| finding_of(thing).0.harm();
    for group in &mut groups {
        group.findings.sort_by_key(harm);
    }
    groups.sort_by_key(|group| group.findings.first().map(harm));
    groups
}

impl<T> FindingGroup<T> {
    /// How often it was seen in all.
    pub fn times(&self, finding_of: impl Fn(&T) -> &Finding) -> u64 {
        self.findings.iter().map(|thing| finding_of(thing).times).sum()
    }
}
