//! A node that lies over the real network: one of the simulator's liars behind a real socket.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use atoll_node::net::{self, Contents, Incoming, NetConfig, NetEvent, NetHandle, Stored};
use atoll_protocol::crypto::Key;
use atoll_protocol::fault::Verdict;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, NodeId};
use atoll_protocol::time::Time;
use atoll_testnet::sim::byzantine::{Act, Actor, Attack, Part, Reply};
use atoll_testnet::sim::liars;
use tokio::sync::mpsc;

use crate::lab::Host;

/// What a liar met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Encounter {
    /// How often it did what its attack is.
    pub(crate) attacks: u64,
    /// Honest nodes it was connected to at once, at most.
    pub(crate) met: usize,
    /// Whether all of them have broken with it.
    pub(crate) cut_off: bool,
}

/// A liar on a host.
pub(crate) struct Liar<'a> {
    pub(crate) host: &'a Host,
    pub(crate) attack: Attack,
    pub(crate) genesis: Genesis,
    pub(crate) bootstrap: Vec<String>,
    pub(crate) honest: Vec<NodeId>,
    pub(crate) seed: u8,
}

impl Liar<'_> {
    /// Lies for so long, or until nobody speaks with it any more.
    pub(crate) fn lie(&self, time: Duration) -> Encounter {
        self.host.within(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            let encounter = runtime.block_on(self.live(time));
            runtime.shutdown_background();
            encounter
        })
    }

    async fn live(&self, time: Duration) -> Encounter {
        let key = Key::from_secret([self.seed; 32]);
        let (ask, mut asks) = mpsc::channel(16);
        let (handle, mut events) = net::start(self.config(&key), Arc::new(Shelf(ask))).unwrap();
        let mut actor = liars::cast(Part {
            attack: self.attack,
            key,
            genesis: self.genesis.clone(),
            others: self.honest.clone(),
            task_seed: 0,
            seed: u64::from(self.seed),
        });
        let began = Instant::now();
        let now = || Time(u64::try_from(began.elapsed().as_millis()).unwrap());
        let mut due = perform(&handle, actor.on_start(now())).unwrap_or(Time(0));
        let (mut up, mut encounter) = (BTreeSet::new(), Encounter::default());
        let mut heard = Instant::now();
        while began.elapsed() < time && !encounter.cut_off {
            let mut wait = Duration::from_millis(due.0.saturating_sub(now().0)).min(ALONE / 4);
            if self.attack == Attack::Flood {
                // As much as the socket takes.
                wait = Duration::ZERO;
            }
            tokio::select! {
                Some(event) = events.recv() => self.hear(event, &handle, &mut actor, now(), &mut up),
                Some((content, answer)) = asks.recv() => serve(&mut actor, now(), content, &answer),
                () = tokio::time::sleep(wait) => {
                    tokio::task::yield_now().await;
                    due = perform(&handle, actor.on_timer(now())).unwrap_or(due);
                }
            }
            encounter.met = encounter.met.max(up.len());
            encounter.attacks += actor.attacks();
            if !up.is_empty() || encounter.met == 0 {
                heard = Instant::now();
            }
            // Whoever only lost a connection would be back by then.
            encounter.cut_off = heard.elapsed() > ALONE;
        }
        encounter
    }

    fn config(&self, key: &Key) -> NetConfig {
        NetConfig {
            key: key.clone(),
            run: self.genesis.run_id(),
            genesis: self.genesis.to_bytes().into(),
            listen: vec![format!("/ip4/{}/udp/4001/quic-v1", self.host.address())],
            external: Vec::new(),
            bootstrap: self.bootstrap.clone(),
            peers: Vec::new(),
            mdns: false,
            upnp: false,
            max_upload: None,
            max_download: None,
            upload_slots: 8,
            clock: std::time::SystemTime::now,
        }
    }

    fn hear(
        &self,
        event: NetEvent,
        handle: &NetHandle,
        actor: &mut Box<dyn Actor>,
        now: Time,
        up: &mut BTreeSet<NodeId>,
    ) {
        match event {
            NetEvent::PeerUp(node) if self.honest.contains(&node) => drop(up.insert(node)),
            NetEvent::PeerDown(node) => drop(up.remove(&node)),
            NetEvent::Received { from, bytes, receipt } => {
                handle.judge(receipt, Verdict::Accept);
                perform(handle, actor.on_message(now, from, &bytes));
            }
            _ => {}
        }
    }
}

/// Does what it decided, and says when it wants to be called.
fn perform(handle: &NetHandle, acts: Vec<Act>) -> Option<Time> {
    let mut due = None;
    for act in acts {
        match act {
            Act::Send { to, bytes } => handle.send(to, bytes),
            Act::Publish(bytes) => handle.publish(bytes),
            Act::Timer(time) => due = Some(time),
        }
    }
    due
}

fn serve(
    actor: &mut Box<dyn Actor>,
    now: Time,
    content: ContentId,
    answer: &SyncSender<Option<Vec<u8>>>,
) {
    // Whoever asked may have stopped waiting; silence is not to answer.
    let _ = match actor.on_fetch(now, NodeId([0; 32]), &content) {
        Reply::Bytes(bytes) => answer.try_send(Some(bytes.to_vec())),
        Reply::NotFound => answer.try_send(None),
        Reply::Silence => return std::mem::forget(answer.clone()),
    };
}

type Ask = (ContentId, SyncSender<Option<Vec<u8>>>);

/// What it serves is what it decides to serve, one question at a time.
struct Shelf(mpsc::Sender<Ask>);

impl Contents for Shelf {
    fn open(&self, content: &ContentId) -> Option<Arc<dyn Stored>> {
        let (answer, answered) = sync_channel(1);
        self.0.blocking_send((*content, answer)).ok()?;
        let bytes = answered.recv_timeout(SILENCE).ok()??;
        Some(Arc::new(Bytes(bytes)))
    }

    fn receive(&self, _content: &ContentId) -> io::Result<Box<dyn Incoming>> {
        Err(io::Error::other("a liar fetches nothing"))
    }
}

struct Bytes(Vec<u8>);

impl Stored for Bytes {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let found = self.0.get(start..start + into.len());
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// How long nobody speaks with one that was broken with.
const ALONE: Duration = Duration::from_secs(4);
/// How long one that says nothing says nothing.
const SILENCE: Duration = Duration::from_secs(20);
