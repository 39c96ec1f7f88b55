//! Which rounds there were, and who took part in them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::Recording;

/// A round by its fragment and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::up) struct RoundName {
    pub(in crate::up) fragment: u64,
    pub(in crate::up) number: u64,
}

impl RoundName {
    /// From `f3/r41`.
    pub(in crate::up) fn read(text: &str) -> Option<Self> {
        let (fragment, number) = text.strip_prefix('f')?.split_once("/r")?;
        Some(Self { fragment: fragment.parse().ok()?, number: number.parse().ok()? })
    }
}

impl fmt::Display for RoundName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}/r{}", self.fragment, self.number)
    }
}

/// What was seen of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::up) struct Round {
    /// When the first island closed it.
    pub(in crate::up) closed: Option<f64>,
    /// Islands with a contribution to it.
    pub(in crate::up) authors: BTreeSet<usize>,
}

impl Recording {
    /// Rounds that have closed, in the order in which they did.
    pub(in crate::up) fn closed_rounds(&self) -> Vec<(RoundName, &Round, f64)> {
        let closed = self.rounds.iter().filter_map(|(name, it)| Some((*name, it, it.closed?)));
        let mut closed: Vec<_> = closed.collect();
        closed.sort_by(|one, other| one.2.total_cmp(&other.2));
        closed
    }

    /// Rounds that have closed, and in how many of them island `index` took part.
    pub(in crate::up) fn participation(&self, index: usize) -> (u64, u64) {
        let closed = self.rounds.values().filter(|it| it.closed.is_some());
        let within = closed.clone().filter(|it| it.authors.contains(&index)).count() as u64;
        (within, closed.count() as u64)
    }

    /// Takes note of what an event says of a round. False if it was known: all islands close a
    /// round, and the first one is worth a line.
    pub(super) fn round_event(&mut self, at: f64, island: usize, event: &Value) -> bool {
        let Some(name) = event["round"].as_str().and_then(RoundName::read) else { return true };
        let author =
            self.islands.iter().position(|it| it.node.as_deref() == event["author"].as_str());
        match event["event"].as_str().unwrap_or_default() {
            "contributed" => drop(self.rounds.entry(name).or_default().authors.insert(island)),
            "admitted" => self.rounds.entry(name).or_default().authors.extend(author),
            "closed" => {
                let round = self.rounds.entry(name).or_default();
                let first = round.closed.is_none();
                round.closed.get_or_insert(at);
                return first;
            }
            _ => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_have_names() {
        let name = RoundName { fragment: 3, number: 41 };
        assert_eq!(RoundName::read(&name.to_string()), Some(name));
        for text in ["", "f3", "r41", "f/r", "fx/r1"] {
            assert_eq!(RoundName::read(text), None, "{text}");
        }
    }
}
