//! A node that lies over the real network: one of the simulator's liars behind a real socket.

use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
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

/// Whom liars lie to.
#[derive(Clone, Debug)]
pub(crate) struct Prey {
    pub(crate) genesis: Genesis,
    pub(crate) bootstrap: Vec<String>,
    pub(crate) honest: Vec<NodeId>,
}

/// What a liar has done and met so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encounter {
    /// How often it did what its attack is.
    pub(crate) attacks: u64,
    /// Messages it has sent, true or not.
    pub(crate) said: u64,
    /// Honest nodes it was ever connected to.
    pub(crate) met: BTreeSet<NodeId>,
    /// Honest nodes it is connected to.
    pub(crate) up: BTreeSet<NodeId>,
}

/// A liar at work on a host of its own; dropping it ends it.
pub(crate) struct Liar {
    pub(crate) attack: Attack,
    pub(crate) node: NodeId,
    began: Instant,
    encounter: Arc<Mutex<Encounter>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    /// Starts one with a key of its own for each attack.
    pub(crate) fn start(host: &Host, attack: Attack, prey: &Prey) -> Self {
        let place = Attack::ALL.iter().position(|it| *it == attack).unwrap();
        let seed = 100 + u8::try_from(place).unwrap();
        let key = Key::from_secret([seed; 32]);
        let (node, host) = (key.node(), host.clone());
        let (encounter, over) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let life = Life {
            attack,
            key,
            seed,
            prey: prey.clone(),
            listen: format!("/ip4/{}/udp/4001/quic-v1", host.address()),
            encounter: Arc::clone(&encounter),
            over: over.clone(),
        };
        let thread = Some(thread::spawn(move || host.within(|| life.run())));
        Self { attack, node, began: Instant::now(), encounter, over, thread }
    }

    /// How long it is there.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// What it has done and met so far.
    pub(crate) fn encounter(&self) -> Encounter {
        self.encounter.lock().unwrap().clone()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "{}", self.attack.name());
    }
}

struct Life {
    attack: Attack,
    key: Key,
    seed: u8,
    prey: Prey,
    listen: String,
    encounter: Arc<Mutex<Encounter>>,
    over: Arc<AtomicBool>,
}

impl Life {
    fn run(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.unwrap();
        runtime.block_on(self.live());
        // Somebody may still wait for an answer that never comes.
        runtime.shutdown_background();
    }

    async fn live(&self) {
        let (ask, mut asks) = mpsc::channel(16);
        let (handle, mut events) = net::start(self.config(), Arc::new(Shelf(ask))).unwrap();
        let mut actor = liars::cast(Part {
            attack: self.attack,
            key: self.key.clone(),
            genesis: self.prey.genesis.clone(),
            others: self.prey.honest.clone(),
            task_seed: 0,
            seed: u64::from(self.seed),
        });
        let began = Instant::now();
        let now = || Time(u64::try_from(began.elapsed().as_millis()).unwrap());
        let mut due = self.perform(&handle, actor.on_start(now())).unwrap_or(Time(0));
        while !self.over.load(Ordering::Relaxed) {
            // Here, not when the sleep is over: one that hears much never sleeps.
            if now() >= due {
                let mut acts = actor.on_timer(now());
                if self.attack == Attack::Flood {
                    acts.push(Act::Timer(Time(now().0 + FLOOD_MS)));
                    // Behind a newer one a message is heard and not passed on. If all were, this
                    // machine would be worn out before anybody has heard too much.
                    acts.chunks_mut(FLOOD_PASSED_ON).for_each(<[Act]>::reverse);
                }
                due = self.perform(&handle, acts).unwrap_or(due);
            }
            let wait = Duration::from_millis(due.0.saturating_sub(now().0)).min(BREATH);
            tokio::select! {
                Some(event) = events.recv() => self.hear(event, &handle, &mut actor, now()),
                Some((content, answer)) = asks.recv() => serve(&mut actor, now(), content, answer),
                () = tokio::time::sleep(wait) => {}
            }
            self.encounter.lock().unwrap().attacks += actor.attacks();
        }
        handle.leave().await;
    }

    fn config(&self) -> NetConfig {
        NetConfig {
            key: self.key.clone(),
            run: self.prey.genesis.run_id(),
            genesis: self.prey.genesis.to_bytes().into(),
            listen: vec![self.listen.clone()],
            external: Vec::new(),
            bootstrap: self.prey.bootstrap.clone(),
            peers: Vec::new(),
            visits: false,
            mdns: false,
            upnp: false,
            max_upload: None,
            max_download: None,
            upload_slots: 8,
            clock: std::time::SystemTime::now,
        }
    }

    fn hear(&self, event: NetEvent, handle: &NetHandle, actor: &mut Box<dyn Actor>, now: Time) {
        match event {
            NetEvent::PeerUp(node) if self.prey.honest.contains(&node) => {
                let mut encounter = self.encounter.lock().unwrap();
                encounter.met.insert(node);
                encounter.up.insert(node);
            }
            NetEvent::PeerDown(node) => drop(self.encounter.lock().unwrap().up.remove(&node)),
            NetEvent::Received { from, bytes, receipt } => {
                // It passes nothing on, or it would answer for the lies of others.
                handle.judge(receipt, Verdict::Ignore);
                self.perform(handle, actor.on_message(now, from, &bytes));
            }
            _ => {}
        }
    }

    /// Does what it decided, and says when it wants to be called.
    fn perform(&self, handle: &NetHandle, acts: Vec<Act>) -> Option<Time> {
        let (mut due, mut said) = (None, 0);
        for act in acts {
            said += u64::from(!matches!(act, Act::Timer(_)));
            match act {
                Act::Send { to, bytes } => handle.send(to, bytes),
                Act::Publish(bytes) => handle.publish(bytes),
                Act::Timer(time) => due = Some(due.map_or(time, |due: Time| due.min(time))),
            }
        }
        self.encounter.lock().unwrap().said += said;
        due
    }
}

fn serve(actor: &mut Box<dyn Actor>, now: Time, content: ContentId, answer: Answer) {
    // Whoever asked may have stopped waiting.
    let _ = match actor.on_fetch(now, NodeId([0; 32]), &content) {
        Reply::Bytes(bytes) => answer.try_send(Some(bytes.to_vec())),
        Reply::NotFound => answer.try_send(None),
        // Without an answer, and with nobody who could still give one, it would not be silence.
        Reply::Silence => return mem::forget(answer),
    };
}

type Answer = SyncSender<Option<Vec<u8>>>;

/// What it serves is what it decides to serve, one question at a time.
struct Shelf(mpsc::Sender<(ContentId, Answer)>);

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

/// How long it does not look whether it is over.
const BREATH: Duration = Duration::from_millis(50);
/// How often one that floods sends its few hundred messages: many times what a peer may send.
const FLOOD_MS: u64 = 50;
/// One in so many of them is passed on.
const FLOOD_PASSED_ON: usize = 8;
/// How long one that says nothing says nothing.
const SILENCE: Duration = Duration::from_secs(20);
