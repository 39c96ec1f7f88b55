//! Liars: what stands in the place of an engine when a node does not follow the protocol.

use std::fmt::Debug;
use std::rc::Rc;

use atoll_protocol::crypto::Key;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, NodeId};
use atoll_protocol::time::Time;

/// A node that does as it likes. It sees what its peers send and decides what it says.
pub trait Actor: Debug {
    /// The node starts.
    fn on_start(&mut self, now: Time) -> Vec<Act>;
    /// A moment it asked for with [`Act::Timer`] has come.
    fn on_timer(&mut self, now: Time) -> Vec<Act>;
    /// A peer sent or relayed these bytes.
    fn on_message(&mut self, now: Time, from: NodeId, bytes: &[u8]) -> Vec<Act>;
    /// A peer asks for content.
    fn on_fetch(&mut self, now: Time, from: NodeId, content: &ContentId) -> Reply;
    /// How often it did what its attack is since it was last asked: what else it says to look
    /// alive does not count.
    fn attacks(&mut self) -> u64 {
        0
    }
}

/// Something a liar does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sends to one node, connected or not.
    Send {
        /// Whom.
        to: NodeId,
        /// What.
        bytes: Vec<u8>,
    },
    /// Gossips to everyone.
    Publish(Vec<u8>),
    /// Asks to be called at this time.
    Timer(Time),
}

/// What a liar answers to a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// These bytes, whatever was asked for.
    Bytes(Rc<[u8]>),
    /// That it has no such content.
    NotFound,
    /// Nothing, ever.
    Silence,
}

/// What a liar does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attack {
    /// Headers and frontiers with signatures that do not hold.
    BadSignature,
    /// What it signed for another run, said again in this one.
    OtherRun,
    /// Two headers for one slot, each to one half of the swarm.
    Equivocation,
    /// Payloads with NaN or Inf.
    NotFinite,
    /// Payloads with a huge norm.
    HugeNorm,
    /// Well-formed payloads that point the wrong way, ten times as long as an honest one.
    Poison,
    /// Well-formed payloads that point the wrong way, no longer than an honest one.
    SignFlip,
    /// Headers that claim far too many tokens.
    TokenInflation,
    /// Payloads of another length than the header says.
    WrongLength,
    /// Small payloads that would expand to many times their fragment.
    Bomb,
    /// Announcements of payloads it never serves.
    Withholding,
    /// Fetches answered with other bytes.
    WrongContent,
    /// As many messages as the links take.
    Flood,
    /// Random bytes.
    Garbage,
    /// Frontiers of a state that does not exist, in a new way every time.
    LyingFrontier,
    /// Frontiers and histories of a state that does not exist.
    FalseHistory,
    /// Well-formed snapshots of bad parameters in answer to every fetch.
    PoisonedSnapshot,
    /// Rounds far ahead and long past.
    OutOfRange,
    /// Old messages of others, again and again.
    Replay,
    /// Evidence that proves nothing.
    BadEvidence,
    /// Contributions of a key that the roster does not admit.
    NotOnRoster,
}

impl Attack {
    /// Every attack.
    pub const ALL: [Self; 21] = [
        Self::BadSignature,
        Self::OtherRun,
        Self::Equivocation,
        Self::NotFinite,
        Self::HugeNorm,
        Self::Poison,
        Self::SignFlip,
        Self::TokenInflation,
        Self::WrongLength,
        Self::Bomb,
        Self::Withholding,
        Self::WrongContent,
        Self::Flood,
        Self::Garbage,
        Self::LyingFrontier,
        Self::FalseHistory,
        Self::PoisonedSnapshot,
        Self::OutOfRange,
        Self::Replay,
        Self::BadEvidence,
        Self::NotOnRoster,
    ];

    /// What people call it, and what its firing is counted by.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadSignature => "liar: bad signature",
            Self::OtherRun => "liar: replay from another run",
            Self::Equivocation => "liar: equivocation",
            Self::NotFinite => "liar: not finite",
            Self::HugeNorm => "liar: huge norm",
            Self::Poison => "liar: poison",
            Self::SignFlip => "liar: sign flip",
            Self::TokenInflation => "liar: token inflation",
            Self::WrongLength => "liar: wrong length",
            Self::Bomb => "liar: compression bomb",
            Self::Withholding => "liar: withholding",
            Self::WrongContent => "liar: wrong content",
            Self::Flood => "liar: flood",
            Self::Garbage => "liar: garbage",
            Self::LyingFrontier => "liar: lying frontier",
            Self::FalseHistory => "liar: false history",
            Self::PoisonedSnapshot => "liar: poisoned snapshot",
            Self::OutOfRange => "liar: out of range",
            Self::Replay => "liar: replay",
            Self::BadEvidence => "liar: bad evidence",
            Self::NotOnRoster => "liar: not on roster",
        }
    }
}

/// What a liar is made of.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it does wrong.
    pub attack: Attack,
    /// Its identity.
    pub key: Key,
    /// The run it disturbs.
    pub genesis: Genesis,
    /// Every other node.
    pub others: Vec<NodeId>,
    /// Which toy language the islands learn.
    pub task_seed: u64,
    /// Seed of its choices.
    pub seed: u64,
}

/// Makes the liar that plays a part.
pub type Cast = fn(Part) -> Box<dyn Actor>;

/// A cast of nodes that say nothing at all.
pub fn silent(_part: Part) -> Box<dyn Actor> {
    Box::new(Silent)
}

/// A node that is there and never says anything.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Actor for Silent {
    fn on_start(&mut self, _now: Time) -> Vec<Act> {
        Vec::new()
    }

    fn on_timer(&mut self, _now: Time) -> Vec<Act> {
        Vec::new()
    }

    fn on_message(&mut self, _now: Time, _from: NodeId, _bytes: &[u8]) -> Vec<Act> {
        Vec::new()
    }

    fn on_fetch(&mut self, _now: Time, _from: NodeId, _content: &ContentId) -> Reply {
        Reply::Silence
    }
}
