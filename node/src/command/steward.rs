//! `atoll invite` and `atoll revoke`: who may contribute.

use atoll_node::config::{Config, Partial};
use atoll_node::identity::Identity;
use atoll_node::observe::{Client, Command};
use atoll_node::store::Store;
use atoll_node::ticket::Ticket;
use atoll_protocol::crypto::Signed;
use atoll_protocol::engine::Record;
use atoll_protocol::genesis::{Genesis, RosterPolicy};
use atoll_protocol::id::NodeId;
use atoll_protocol::limits::VERSION_MAX;
use atoll_protocol::roster::{Invite, Revocation};

use super::failure::Failure;
use super::home::{Home, RunFolder};
use crate::cli::swarm::{InviteOptions, RevokeOptions, Whose};

/// Signs an invitation and prints the ticket that carries it.
pub(crate) fn invite(options: &InviteOptions) -> Result<(), Failure> {
    let (folder, identity) = steward(&options.whose)?;
    if !matches!(folder.genesis.roster, RosterPolicy::Invite { .. }) {
        return Err(Failure::new("this run has no invitations: its roster is fixed")
            .hint("a run made with `atoll new --roster invite` has"));
    }
    let last_round = options.last_round.unwrap_or(VERSION_MAX);
    let invite = Invite { steward: identity.node(), node: options.node, last_round };
    let signed = identity.key().sign(folder.genesis.run_id(), invite);
    keep(
        &folder,
        Record::Invite(signed.clone()),
        &identity,
        &Command::Invite { node: options.node, last_round },
    )?;
    let sponsor = Some(identity.node());
    let ticket = Ticket { sponsor, invite: Some(signed), ..reachable(&folder)? };
    eprintln!("invited {}; its ticket:", options.node);
    super::say(&ticket.encode()?);
    Ok(())
}

/// Excludes a node.
pub(crate) fn revoke(options: &RevokeOptions) -> Result<(), Failure> {
    let (folder, identity) = steward(&options.whose)?;
    let revocation = Revocation { steward: identity.node(), node: options.node };
    let signed: Signed<Revocation> = identity.key().sign(folder.genesis.run_id(), revocation);
    keep(&folder, Record::Revocation(signed), &identity, &Command::Revoke { node: options.node })?;
    eprintln!(
        "revoked {}: what it contributed to rounds that are not stable drops out",
        options.node
    );
    Ok(())
}

fn steward(whose: &Whose) -> Result<(RunFolder, Identity), Failure> {
    let config = Config::load(Partial { home: whose.home.clone(), ..Partial::default() })?;
    let identity = Identity::load_or_create(&config.home)?;
    let folder = Home::new(&config.home).find(whose.run.as_deref())?;
    if folder.genesis.roster == RosterPolicy::Open {
        return Err(Failure::new("this run is open: nobody is invited or excluded")
            .hint("a run made with `atoll new --roster invite` has a steward"));
    }
    if !is_steward(&folder.genesis, &identity.node()) {
        return Err(Failure::new(format!("{} is no steward of this run", identity.node()))
            .hint("the node that made the run is; use its --home"));
    }
    Ok((folder, identity))
}

fn is_steward(genesis: &Genesis, node: &NodeId) -> bool {
    match &genesis.roster {
        RosterPolicy::Open => false,
        RosterPolicy::Closed { stewards, .. } | RosterPolicy::Invite { stewards } => {
            stewards.contains(node)
        }
    }
}

/// Tells the running node, or writes the record for its next start.
fn keep(
    folder: &RunFolder,
    record: Record,
    identity: &Identity,
    command: &Command,
) -> Result<(), Failure> {
    if let Ok(client) = Client::of_folder(&folder.path) {
        client.command(command)?;
        return Ok(());
    }
    Ok(Store::open(&folder.path)?.persist(identity.node(), &[record])?)
}

/// The run's ticket with the addresses of this node, if it runs.
fn reachable(folder: &RunFolder) -> Result<Ticket, Failure> {
    let mut ticket = folder.ticket()?;
    if let Ok(status) = Client::of_folder(&folder.path).and_then(|client| client.status()) {
        ticket.peers = status.addresses;
    }
    Ok(ticket)
}
