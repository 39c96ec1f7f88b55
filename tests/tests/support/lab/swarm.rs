//! Several nodes of one run, looked at together.

use std::time::Duration;

use super::patience::wait_every;
use super::{Node, Status};

/// Nodes of one run that are looked at together.
pub(crate) struct Swarm<'a>(pub(crate) Vec<&'a Node>);

impl Swarm<'_> {
    /// Every node's status, in order.
    pub(crate) fn statuses(&self) -> Result<Vec<Status>, String> {
        self.0
            .iter()
            .map(|node| node.status().map_err(|it| format!("{}: {it}", node.name())))
            .collect()
    }

    /// Looks until `holds` for every node at once.
    pub(crate) fn wait_until(
        &self,
        what: &str,
        timeout: Duration,
        mut holds: impl FnMut(&Status) -> bool,
    ) -> Vec<Status> {
        self.wait_until_all(what, timeout, |statuses| statuses.iter().all(&mut holds))
    }

    /// Looks until `holds` for the nodes together.
    pub(crate) fn wait_until_all(
        &self,
        what: &str,
        timeout: Duration,
        mut holds: impl FnMut(&[Status]) -> bool,
    ) -> Vec<Status> {
        wait_every(LOOK_EVERY, what, timeout, || {
            let statuses = self.statuses()?;
            if holds(&statuses) { Ok(statuses) } else { Err(self.describe(&statuses)) }
        })
    }

    /// Waits until every node is `versions` further in every fragment than it is now.
    pub(crate) fn wait_for_rounds(&self, versions: u64, timeout: Duration) -> Vec<Status> {
        let before = wait_every(LOOK_EVERY, "every status", timeout, || self.statuses());
        self.wait_until_all(&format!("{versions} more versions"), timeout, |statuses| {
            statuses.iter().zip(&before).all(|(now, before)| {
                let pairs = now.versions().into_iter().zip(before.versions());
                pairs.into_iter().all(|(now, before)| now >= before + versions)
            })
        })
    }

    /// [`Swarm::quiesce_and_agree`], after which the islands go on.
    pub(crate) fn agree(&self, timeout: Duration) -> Vec<Status> {
        let statuses = self.quiesce_and_agree(timeout);
        self.resume();
        statuses
    }

    /// Lets no island step any more.
    pub(crate) fn quiesce(&self) {
        self.0.iter().for_each(|node| node.quiesce());
    }

    /// Lets all islands step again.
    pub(crate) fn resume(&self) {
        self.0.iter().for_each(|node| node.resume());
    }

    /// Lets no island step any more, and waits until every node has the same outer state for good.
    pub(crate) fn quiesce_and_agree(&self, timeout: Duration) -> Vec<Status> {
        self.quiesce();
        let mut settled = 0;
        let mut last = Vec::new();
        self.wait_until_all("equal digests that stay", timeout, |statuses| {
            let first = statuses[0].digests();
            let equal = statuses.iter().all(|status| status.digests() == first);
            settled = if equal && first == last { settled + 1 } else { 0 };
            last = first;
            settled >= LOOKS
        })
    }

    fn describe(&self, statuses: &[Status]) -> String {
        let named = self.0.iter().zip(statuses);
        let lines = named.map(|(node, status)| format!("\n{}: {status}", node.name()));
        lines.collect()
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Looks in a row that must see the same: longer than a few heartbeats of the lab's genesis.
const LOOKS: usize = 10;
