//! What is counted over a whole run.

use std::collections::{BTreeMap, BTreeSet};

use atoll_protocol::engine::{CloseReason, Report};
use atoll_protocol::id::{FragmentId, Version};

use crate::check::NodeIndex;

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) faults: BTreeMap<&'static str, u64>,
    /// How often engines took each way that they rarely take.
    pub(super) ways: BTreeMap<&'static str, u64>,
    pub(super) rounds_closed: u64,
    pub(super) late: u64,
    pub(super) refolds: u64,
    pub(super) reissued: u64,
    pub(super) installs: u64,
    pub(super) message_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) events: u64,
    folded: BTreeSet<(NodeIndex, FragmentId, Version)>,
}

impl Tally {
    /// Counts a fault that happened.
    pub(super) fn fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_default() += 1;
    }

    /// Counts what an engine reports.
    pub(super) fn report(&mut self, node: NodeIndex, report: &Report) {
        if let Some(way) = way(report) {
            *self.ways.entry(way).or_default() += 1;
        }
        match report {
            Report::Closed { .. } => self.rounds_closed += 1,
            Report::Admitted { late: true, .. } => self.late += 1,
            Report::Materialised { fragment, version, .. } => {
                self.refolds += u64::from(!self.folded.insert((node, *fragment, *version)));
            }
            Report::Installed { .. } => self.installs += 1,
            _ => {}
        }
    }
}

/// Which of several ways an engine took.
fn way(report: &Report) -> Option<&'static str> {
    Some(match report {
        Report::Closed { reason: CloseReason::Everyone, .. } => "closed: everyone",
        Report::Closed { reason: CloseReason::Grace { .. }, .. } => "closed: grace",
        Report::Closed { reason: CloseReason::Peers { .. }, .. } => "closed: peers",
        Report::Stable { forced: true, .. } => "stable: forced",
        Report::Stable { forced: false, .. } => "stable: unanimous",
        Report::Installed { reissued: 1.., .. } => "installed: another history",
        _ => return None,
    })
}
