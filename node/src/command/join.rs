//! `atoll join`: from a ticket to a node that contributes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use atoll_node::config::Config;
use atoll_node::identity::Identity;
use atoll_node::net::{self, Contents, Incoming, NetConfig, Stored};
use atoll_node::store::Store;
use atoll_node::ticket::Ticket;
use atoll_protocol::crypto::content_id;
use atoll_protocol::engine::Record;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::ContentId;

use super::failure::Failure;
use super::home::{Home, RunFolder};
use super::run::{runtime, take_part};
use crate::cli::swarm::JoinOptions;

pub(crate) fn run(options: &JoinOptions) -> Result<(), Failure> {
    let ticket: Ticket = options.ticket.parse()?;
    let config = Config::load(options.swarm.config.clone())?;
    if options.swarm.print_config {
        super::say(&config.to_toml());
        return Ok(());
    }
    let identity = Identity::load_or_create(&config.home)?;
    let path = Home::new(&config.home).folder(&ticket.run);
    let folder = if path.join("genesis.bin").is_file() {
        eprintln!("1/4 ticket   run {}: already joined, going on", ticket.name);
        RunFolder::open(&path)?
    } else {
        eprintln!("1/4 ticket   run {} ({})", ticket.name, ticket.run.short());
        let genesis = fetch_genesis(&config, &identity, &ticket)?;
        let parameters = genesis.fragment_map().elements();
        eprintln!(
            "2/4 genesis  {parameters} parameters in {} fragments, hash checked",
            genesis.fragments
        );
        preflight(&config, &genesis, &path)?;
        drop(Store::create(&path, &genesis)?);
        RunFolder::open(&path)?
    };
    keep(&folder, &identity, &ticket)?;
    take_part(&config, &identity, &folder, &options.swarm)
}

/// Keeps the ticket's addresses, and its invitation among the records.
fn keep(folder: &RunFolder, identity: &Identity, ticket: &Ticket) -> Result<(), Failure> {
    folder.keep_ticket(ticket)?;
    if let Some(invite) = &ticket.invite {
        Store::open(&folder.path)?.persist(identity.node(), &[Record::Invite(invite.clone())])?;
    }
    Ok(())
}

fn fetch_genesis(
    config: &Config,
    identity: &Identity,
    ticket: &Ticket,
) -> Result<Genesis, Failure> {
    let settings = NetConfig {
        key: identity.key(),
        run: ticket.run,
        genesis: Arc::from([]),
        listen: config.listen.clone(),
        external: Vec::new(),
        bootstrap: ticket.bootstrap.iter().chain(&config.bootstrap).cloned().collect(),
        peers: ticket.peers.clone(),
        mdns: config.mdns,
        upnp: false,
        max_upload: None,
        max_download: config.max_download.map(|rate| rate.bytes()),
        upload_slots: 1,
        clock: std::time::SystemTime::now,
    };
    let runtime = runtime()?;
    let bytes = runtime.block_on(async {
        let (net, mut events) = net::start(settings, Arc::new(Nothing))?;
        let drain = tokio::spawn(async move { while events.recv().await.is_some() {} });
        let good = |bytes: &[u8]| content_id(bytes).0 == ticket.run.0;
        let bytes = net.genesis(GENESIS_WITHIN, good).await;
        net.leave().await;
        drain.abort();
        bytes.map_err(|error| {
            Failure::new(format!("no peer of run {} gave its genesis: {error}", ticket.name)).hint(
                "is anybody running it, and can this machine reach the addresses of the ticket? \
                 `atoll doctor` looks closer",
            )
        })
    });
    runtime.shutdown_background();
    Ok(Genesis::from_bytes(&bytes?)?)
}

/// Says what taking part needs, and refuses what cannot work before anything is written.
fn preflight(config: &Config, genesis: &Genesis, path: &std::path::Path) -> Result<(), Failure> {
    let need = super::needs::Needs::new(genesis);
    let free = super::needs::free_disk(path);
    eprintln!("3/4 machine  {}", need.describe(free));
    let budget = config.max_disk.map(|size| size.bytes());
    if let Some(room) = [free, budget].into_iter().flatten().min()
        && room < need.disk
    {
        return Err(Failure::new(format!(
            "taking part needs about {} of disk, and there is room for {}",
            atoll_node::units::bytes(need.disk),
            atoll_node::units::bytes(room)
        ))
        .hint("make room, raise --max-disk, or put --home on another disk"));
    }
    eprintln!("4/4 joining  training begins when this node has caught up");
    Ok(())
}

/// A newcomer has nothing to give.
pub(super) struct Nothing;

impl Contents for Nothing {
    fn open(&self, _: &ContentId) -> Option<Arc<dyn Stored>> {
        None
    }

    fn receive(&self, _: &ContentId) -> io::Result<Box<dyn Incoming>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// How long to look for somebody who has the genesis.
const GENESIS_WITHIN: Duration = Duration::from_secs(60);
