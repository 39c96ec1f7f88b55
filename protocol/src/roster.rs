//! Who may contribute: a pure function of the genesis and of what stewards have signed.
//!
//! Invitations end with a round, not with a date: whether a contribution counts must be the same
//! on every node, whatever its clock says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::crypto::{self, Body, Signed, Verified};
use crate::fault::Fault;
use crate::genesis::RosterPolicy;
use crate::id::{NodeId, Version};
use crate::limits::ROSTER_RECORDS_MAX;
use crate::wire::tag::Domain;

/// A steward admits a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Invite {
    /// Who admits.
    pub steward: NodeId,
    /// Who is admitted.
    pub node: NodeId,
    /// The last round it may contribute to.
    pub last_round: Version,
}

impl Body for Invite {
    const DOMAIN: Domain = Domain::Invite;

    fn signer(&self) -> NodeId {
        self.steward
    }
}

/// A steward excludes a node: its contributions drop out of every round that is not stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Revocation {
    /// Who excludes.
    pub steward: NodeId,
    /// Who is excluded.
    pub node: NodeId,
}

impl Body for Revocation {
    const DOMAIN: Domain = Domain::Revocation;

    fn signer(&self) -> NodeId {
        self.steward
    }
}

/// The nodes that may contribute.
#[derive(Clone, Debug)]
pub struct Roster {
    policy: RosterPolicy,
    invites: BTreeMap<NodeId, Signed<Invite>>,
    revocations: BTreeMap<NodeId, Signed<Revocation>>,
}

impl Roster {
    /// The roster of a run before any steward has said anything.
    pub fn new(policy: RosterPolicy) -> Self {
        Self { policy, invites: BTreeMap::new(), revocations: BTreeMap::new() }
    }

    /// Takes an invitation. True if it changes who is admitted.
    pub fn invite(&mut self, invite: &Verified<Invite>) -> Result<bool, Fault> {
        let body = invite.body();
        if !matches!(self.policy, RosterPolicy::Invite { .. }) || !self.is_steward(&body.steward) {
            return Err(Fault::NotOnRoster);
        }
        match self.invites.get(&body.node) {
            Some(known) if known.body.last_round >= body.last_round => Ok(false),
            None if self.invites.len() >= ROSTER_RECORDS_MAX => Ok(false),
            _ => {
                self.invites.insert(body.node, invite.signed().clone());
                Ok(true)
            }
        }
    }

    /// Takes a revocation. True if the node was not excluded before.
    pub fn revoke(&mut self, revocation: &Verified<Revocation>) -> Result<bool, Fault> {
        let body = revocation.body();
        if !self.is_steward(&body.steward) {
            return Err(Fault::NotOnRoster);
        }
        if self.revocations.contains_key(&body.node) || self.revocations.len() >= ROSTER_RECORDS_MAX
        {
            return Ok(false);
        }
        self.revocations.insert(body.node, revocation.signed().clone());
        Ok(true)
    }

    /// Whether `node` may contribute to `round`.
    pub fn admits(&self, node: &NodeId, round: Version) -> Result<(), Fault> {
        if self.is_revoked(node) {
            return Err(Fault::Revoked);
        }
        let admitted = match &self.policy {
            RosterPolicy::Open => true,
            RosterPolicy::Closed { nodes, .. } => nodes.binary_search(node).is_ok(),
            RosterPolicy::Invite { .. } => {
                self.invites.get(node).is_some_and(|invite| round <= invite.body.last_round)
            }
        };
        if admitted { Ok(()) } else { Err(Fault::NotOnRoster) }
    }

    /// Whether an invitation that has not reached us could admit `node`.
    pub fn may_come_to_admit(&self, node: &NodeId) -> bool {
        matches!(self.policy, RosterPolicy::Invite { .. }) && !self.is_revoked(node)
    }

    /// Whether a steward excluded `node`.
    pub fn is_revoked(&self, node: &NodeId) -> bool {
        self.revocations.contains_key(node)
    }

    /// Whether `node` may invite and revoke.
    pub fn is_steward(&self, node: &NodeId) -> bool {
        match &self.policy {
            RosterPolicy::Open => false,
            RosterPolicy::Closed { stewards, .. } | RosterPolicy::Invite { stewards } => {
                stewards.contains(node)
            }
        }
    }

    /// Every invitation, to pass on.
    pub fn invites(&self) -> impl Iterator<Item = &Signed<Invite>> {
        self.invites.values()
    }

    /// Every revocation, to pass on.
    pub fn revocations(&self) -> impl Iterator<Item = &Signed<Revocation>> {
        self.revocations.values()
    }

    /// A hash over who is invited, who is excluded and who, of `equivocators`, is refused:
    /// equal on two nodes exactly if they would admit the same contributions.
    pub fn digest<'a>(&self, equivocators: impl Iterator<Item = &'a NodeId>) -> [u8; 32] {
        let mut bytes = Vec::new();
        for invite in self.invites.values() {
            bytes.push(b'i');
            bytes.extend_from_slice(&invite.body.node.0);
            bytes.extend_from_slice(&invite.body.last_round.to_le_bytes());
        }
        for node in self.revocations.keys() {
            bytes.push(b'r');
            bytes.extend_from_slice(&node.0);
        }
        for node in equivocators {
            bytes.push(b'e');
            bytes.extend_from_slice(&node.0);
        }
        crypto::hash(Domain::Roster, &[&bytes])
    }
}
