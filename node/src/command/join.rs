//! `atoll join`: from a ticket to a node that contributes.

mod parcel;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use atoll_node::config::Config;
use atoll_node::identity::Identity;
use atoll_node::island::data::tokenizer::TOKENIZER;
use atoll_node::net::{self, NetConfig, NetEvent, NetHandle};
use atoll_node::store::Store;
use atoll_node::ticket::Ticket;
use atoll_protocol::crypto::content_id;
use atoll_protocol::engine::Record;
use atoll_protocol::fetch::FetchOutcome;
use atoll_protocol::genesis::Genesis;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::failure::Failure;
use super::home::{Home, RunFolder};
use super::run::{effort, merged, runtime, take_part};
use crate::cli::swarm::JoinOptions;
pub(super) use parcel::Parcel;

pub(crate) fn run(options: &JoinOptions) -> Result<(), Failure> {
    let ticket: Ticket = options.ticket.parse()?;
    let config = super::configured(&options.swarm.config)?;
    effort(&options.swarm)?;
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
        let Fetched { genesis, tokenizer } = fetch(&config, &identity, &ticket, &path)?;
        let parameters = genesis.fragment_map().elements();
        eprintln!(
            "2/4 genesis  {parameters} parameters in {} fragments, hash checked",
            genesis.fragments
        );
        preflight(&config, &genesis, &path)?;
        drop(Store::create(&path, &genesis)?);
        if let Some(bytes) = tokenizer {
            let file = path.join(TOKENIZER);
            std::fs::write(&file, bytes).map_err(Failure::file(&file))?;
        }
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

/// What a newcomer gets from the run's nodes before it is one.
struct Fetched {
    genesis: Genesis,
    /// The run's tokenizer.json, unless it has none or it lies in the folder already.
    tokenizer: Option<Vec<u8>>,
}

fn fetch(
    config: &Config,
    identity: &Identity,
    ticket: &Ticket,
    path: &Path,
) -> Result<Fetched, Failure> {
    let settings = |visits: bool| NetConfig {
        key: identity.key(),
        run: ticket.run,
        genesis: Arc::from([]),
        listen: if visits { Vec::new() } else { config.listen.clone() },
        external: Vec::new(),
        bootstrap: merged(&config.bootstrap, &ticket.bootstrap),
        peers: ticket.peers.clone(),
        visits,
        mdns: config.mdns,
        upnp: false,
        max_upload: None,
        max_download: config.max_download.map(|rate| rate.bytes()),
        upload_slots: 1,
        clock: std::time::SystemTime::now,
    };
    let runtime = runtime()?;
    let fetched = runtime.block_on(async {
        match visit(settings(true), ticket, path, VISIT_WITHIN).await {
            // Peers that nobody can dial have to dial us.
            Err(_) => visit(settings(false), ticket, path, GENESIS_WITHIN).await,
            fetched => fetched,
        }
    });
    runtime.shutdown_background();
    fetched
}

async fn visit(
    settings: NetConfig,
    ticket: &Ticket,
    path: &Path,
    within: Duration,
) -> Result<Fetched, Failure> {
    let parcel = Parcel::default();
    let (net, mut events) = net::start(settings, Arc::new(parcel.clone()))?;
    let fetched = match fetch_genesis(&net, &mut events, ticket, within).await {
        Ok(genesis) => fetch_tokenizer(&net, &mut events, &parcel, &genesis, path)
            .await
            .map(|tokenizer| Fetched { genesis, tokenizer }),
        Err(error) => Err(error),
    };
    net.leave().await;
    fetched
}

async fn fetch_genesis(
    net: &NetHandle,
    events: &mut mpsc::Receiver<NetEvent>,
    ticket: &Ticket,
    within: Duration,
) -> Result<Genesis, Failure> {
    let good = |bytes: &[u8]| content_id(bytes).0 == ticket.run.0;
    let fetching = net.genesis(within, good);
    let drain = async { while events.recv().await.is_some() {} };
    let bytes = tokio::select! {
        bytes = fetching => bytes,
        () = drain => {
            return Err(Failure::new("the network has ended").hint("please report this").passing());
        }
    };
    let bytes = bytes.map_err(|error| {
        Failure::new(format!("no peer of run {} gave its genesis: {error}", ticket.name)).hint(
            "is anybody running it, and can this machine reach the addresses of the ticket? \
             `atoll doctor` looks closer",
        )
    })?;
    Ok(Genesis::from_bytes(&bytes)?)
}

/// Asks one peer after another for the tokenizer that the genesis names.
async fn fetch_tokenizer(
    net: &NetHandle,
    events: &mut mpsc::Receiver<NetEvent>,
    parcel: &Parcel,
    genesis: &Genesis,
    path: &Path,
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(content) = genesis.data.tokenizer_content else { return Ok(None) };
    let file = path.join(TOKENIZER);
    if std::fs::read(&file).is_ok_and(|bytes| content_id(&bytes) == content) {
        return Ok(None);
    }
    let until = Instant::now() + TOKENIZER_WITHIN;
    while Instant::now() < until {
        for peer in net.peers() {
            net.fetch(content, peer.node, Vec::new(), TOKENIZER_BYTES_MAX);
            let ended = async {
                loop {
                    match events.recv().await {
                        Some(NetEvent::Fetched { outcome, .. }) => return outcome,
                        Some(_) => {}
                        None => return FetchOutcome::Unreachable,
                    }
                }
            };
            if timeout_at(until, ended).await == Ok(FetchOutcome::Stored) {
                return Ok(parcel.take());
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(Failure::new(format!("no peer gave the run's tokenizer, {content}")).hint(&format!(
        "get the run's tokenizer.json from somebody who takes part, put it at {} and join again",
        file.display()
    )))
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

/// How long to look for somebody who has the genesis.
const GENESIS_WITHIN: Duration = Duration::from_secs(50);
/// How long to try that without being found by anybody.
const VISIT_WITHIN: Duration = Duration::from_secs(10);
/// How long to look for somebody who has the tokenizer.
const TOKENIZER_WITHIN: Duration = Duration::from_secs(120);
/// The largest vocabularies take a tenth of it.
const TOKENIZER_BYTES_MAX: u64 = 256 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(500);
