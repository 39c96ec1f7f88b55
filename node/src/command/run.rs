//! `atoll run`: a node, until somebody stops it.

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use atoll_node::config::Config;
use atoll_node::driver::{Driver, Ending, Plan};
use atoll_node::identity::Identity;
use atoll_node::island::Island;
use atoll_node::island::host::{Effort, be_nice};
use atoll_node::island::layout::Layout;
use atoll_node::island::learner::{Choices, Learner};
use atoll_node::net::NetConfig;
use atoll_node::observe::{Clock, Event, EventLog, Observer, Server, Status, logging};
use atoll_node::store::{Store, StoreError};
use atoll_node::ticket::Ticket;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::NodeId;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::failure::Failure;
use super::folder::Folder;
use super::home::{Home, RunFolder};
use super::island::dataset;
use crate::cli::swarm::{RunOptions, SwarmOptions};

pub(crate) fn run(options: &RunOptions) -> Result<(), Failure> {
    let config = super::configured(&options.swarm.config)?;
    effort(&options.swarm)?;
    if options.swarm.print_config {
        super::say(&config.to_toml());
        return Ok(());
    }
    let identity = Identity::load_or_create(&config.home)?;
    let folder = Home::new(&config.home).find(options.run.as_deref())?;
    take_part(&config, &identity, &folder, &options.swarm)
}

/// Runs a node in its folder until it leaves.
pub(super) fn take_part(
    config: &Config,
    identity: &Identity,
    folder: &RunFolder,
    options: &SwarmOptions,
) -> Result<(), Failure> {
    let effort = effort(options)?;
    logging::start(config.log, config.log_level)?;
    let observer = Observer::new(
        Clock::system(),
        Some(EventLog::open(&folder.path).map_err(Failure::file(&folder.path))?),
    );
    let store = open(&folder.path, &observer)?;
    store.set_budget(config.max_disk.map(|size| size.bytes()));
    let ticket = folder.ticket()?;
    let island = if options.watch_only {
        None
    } else {
        Some(island(config, &folder.genesis, identity.node(), &store)?)
    };
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let (server, requests) = Server::start(config.http, &folder.path, observer.clone()).await?;
        let own = identity.node();
        let plan = Plan {
            key: identity.key(),
            sponsor: ticket.sponsor.filter(|sponsor| *sponsor != own),
            net: net(config, identity, &folder.genesis, &ticket, &store),
            store,
            island,
            effort,
            nice: config.nice,
            evaluate_every: evaluate_every(options.evaluate_every),
            observer: observer.clone(),
            requests,
        };
        let (driver, leave) = Driver::start(plan)?;
        let telling = tokio::spawn(tell_ticket(observer, Ticket { sponsor: Some(own), ..ticket }));
        let outcome = live(driver, leave).await;
        telling.abort();
        server.stop().await;
        outcome
    });
    // A second Ctrl-C does not wait for whatever is still under way.
    runtime.shutdown_background();
    outcome
}

/// Prints a ticket that leads to this very node, once it knows where it is.
async fn tell_ticket(observer: Observer, ticket: Ticket) {
    let mut watch = observer.watch();
    let located = |status: &Option<Arc<Status>>| {
        status.as_ref().is_some_and(|status| status.uptime_s >= 2 && !status.addresses.is_empty())
    };
    let Ok(status) = watch.wait_for(located).await.map(|status| status.clone()) else { return };
    let mut peers = status.map(|status| status.addresses.clone()).unwrap_or_default();
    if peers.iter().any(|address| !is_loopback(address)) {
        peers.retain(|address| !is_loopback(address));
    }
    peers.truncate(TICKET_ADDRESSES_MAX);
    if let Ok(text) = (Ticket { peers, invite: None, ..ticket }).encode() {
        eprintln!("others join with: atoll join TICKET");
        super::say(&text);
    }
}

fn is_loopback(address: &str) -> bool {
    address.starts_with("/ip4/127.") || address.starts_with("/ip6/::1/")
}

async fn live(driver: Driver, leave: mpsc::Sender<()>) -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
    let node = driver.run();
    tokio::pin!(node);
    let mut asked = false;
    loop {
        tokio::select! {
            ending = &mut node => return explain(ending),
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if asked {
            return Ok(());
        }
        asked = true;
        // A driver that takes nothing any more has ended.
        let _ = leave.try_send(());
    }
}

fn explain(ending: Ending) -> Result<(), Failure> {
    match ending {
        Ending::Left => Ok(()),
        Ending::SameKey => Err(Failure::new("another node runs with the same key")
            .hint("stop it first, or give this one a folder of its own with --home")),
        Ending::Island => Err(Failure::new("the island cannot go on; what it learned is kept")
            .hint("the lines above say why; `atoll run` goes on from the last checkpoint")
            .passing()),
        Ending::Broken => {
            Err(Failure::new("a part of the node has failed; what it learned is kept")
                .hint("please report the lines above; `atoll run` goes on from the last checkpoint")
                .passing())
        }
    }
}

/// Opens the store. A damaged database is put aside: the swarm has what was in it.
fn open(folder: &Path, observer: &Observer) -> Result<Store, Failure> {
    // Also what is read only later: by then there would be no going back.
    let opened = Store::open(folder).and_then(|store| store.records().map(|_| store));
    match opened {
        Err(error @ StoreError::Corrupt { .. }) => {
            let kept = Store::repair(folder)?;
            let kept = kept.map(|path| format!(" and kept as {}", path.display()));
            observer.event(Event::Recovered {
                what: format!("{error}; it was put aside{}", kept.unwrap_or_default()),
            });
            Ok(Store::open(folder)?)
        }
        other => Ok(other?),
    }
}

/// The island of this node, made by a thread that is as nice as it is to be: threads have that
/// from the one that starts them.
fn island(
    config: &Config,
    genesis: &Genesis,
    node: NodeId,
    store: &Store,
) -> Result<Box<dyn Island>, Failure> {
    std::thread::scope(|scope| {
        let making = scope.spawn(|| {
            let refused = |error| Failure::new(format!("--nice {}: {error}", config.nice));
            be_nice(config.nice).map_err(refused)?;
            learner(config, genesis, node, store)
        });
        making.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The island of this node, with the run's initial parameters.
fn learner(
    config: &Config,
    genesis: &Genesis,
    node: NodeId,
    store: &Store,
) -> Result<Box<dyn Island>, Failure> {
    let data = config.data.clone().unwrap_or_else(|| genesis.data.corpus.clone());
    let folder = Folder::new(store.folder());
    let tokenizer = folder.tokenizer(genesis)?;
    if let Some(content) = &genesis.data.tokenizer_content
        && !store.has(content)
    {
        // Joiners ask for it like for any other content.
        store.put(&folder.tokenizer_json()?)?;
    }
    let dataset = dataset(&folder, genesis, tokenizer, &data, config.field.as_deref())?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let device = config.device.resolve()?;
    let choices = Choices {
        precision: config.precision.resolve(&device)?,
        device,
        threads: config.threads.unwrap_or(cores),
        accumulate: 1,
    };
    let parameters = Layout::new(genesis).initial(genesis);
    Ok(Box::new(Learner::new(genesis, &node, &dataset, &choices, parameters)?))
}

fn net(
    config: &Config,
    identity: &Identity,
    genesis: &Genesis,
    ticket: &Ticket,
    store: &Store,
) -> NetConfig {
    NetConfig {
        key: identity.key(),
        run: genesis.run_id(),
        genesis: Arc::from(genesis.to_bytes()),
        listen: config.listen.clone(),
        external: config.external.clone(),
        bootstrap: merged(&config.bootstrap, &ticket.bootstrap),
        peers: merged(&store.peers(), &ticket.peers),
        visits: false,
        mdns: config.mdns,
        upnp: config.upnp,
        max_upload: config.max_upload.map(|rate| rate.bytes()),
        max_download: config.max_download.map(|rate| rate.bytes()),
        upload_slots: upload_slots(config.max_upload.map(|rate| rate.bytes())),
        clock: std::time::SystemTime::now,
    }
}

/// Peers that this node uploads to at once: under a low cap fewer, or each would get so little
/// that it gives up.
fn upload_slots(max_upload: Option<u64>) -> usize {
    let of_rate = max_upload.map_or(UPLOAD_SLOTS as u64, |rate| rate / SLOT_BYTES_MIN);
    usize::try_from(of_rate).unwrap_or(UPLOAD_SLOTS).clamp(1, UPLOAD_SLOTS)
}

/// The addresses of both, each once, those of the first before the others.
pub(super) fn merged(one: &[String], other: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for address in one.iter().chain(other) {
        if !all.contains(address) {
            all.push(address.clone());
        }
    }
    all
}

pub(super) fn effort(options: &SwarmOptions) -> Result<Effort, Failure> {
    match (options.effort, options.step_ms) {
        (Some(share), _) if !(0.01..=1.0).contains(&share) => {
            Err(Failure::new(format!("--effort {share}: between 0.01 and 1"))
                .hint("0.5 is half of the time"))
        }
        (Some(share), _) => Ok(Effort::Share(share)),
        (None, Some(step)) => Ok(Effort::Step(Duration::from_millis(step))),
        (None, None) => Ok(Effort::Full),
    }
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .max_blocking_threads(blocking_threads())
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("no threads for the network: {error}")))
}

/// Threads for the disk, folds and hashes. Each keeps memory of its own, so there are not many more than
/// the machine can use: two may wait for the disk or for the island.
fn blocking_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    (cores + 2).min(BLOCKING_THREADS_MAX)
}

/// None, if it is never to be measured.
fn evaluate_every(seconds: f64) -> Option<Duration> {
    (seconds > 0.0).then(|| Duration::from_secs_f64(seconds.clamp(0.5, 86_400.0)))
}

fn signals(error: std::io::Error) -> Failure {
    Failure::new(format!("signals cannot be heard: {error}"))
}

/// Peers that this node uploads to at once.
const UPLOAD_SLOTS: usize = 8;
/// Bytes in a second for each of them, at least.
const SLOT_BYTES_MIN: u64 = 16 * 1024;
/// Addresses in the ticket of a running node: enough for every way to it, few enough to paste.
const TICKET_ADDRESSES_MAX: usize = 6;
/// Threads of the network and the driver; training has its own.
const RUNTIME_THREADS: usize = 2;
const BLOCKING_THREADS_MAX: usize = 8;
