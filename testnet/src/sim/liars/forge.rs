//! What liars make: payloads, headers, frontiers, histories and snapshots.

use atoll_protocol::chain::{History, HistoryEntry};
use atoll_protocol::codec::{self, Codec};
use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::{self, Key, Signed};
use atoll_protocol::fragment::Fragment;
use atoll_protocol::frontier::Frontier;
use atoll_protocol::id::{ContentId, FragmentId, RunId, Trail, Version};
use atoll_protocol::message::Message;
use atoll_protocol::outer::OuterState;
use atoll_protocol::pool::Inline;
use atoll_protocol::rng::Rng;
use atoll_protocol::wire::tag::Domain;

use super::super::byzantine::{Act, Attack};
use super::Liar;
use crate::toy::{LEARNING_RATE, Layout, Learner, Task, shard};

impl Liar {
    /// A payload of `values`, which must be finite.
    pub(super) fn payload(&self, values: &[f32]) -> Vec<u8> {
        codec::encode(self.part.genesis.codec, values, &Inline).expect("the values are finite")
    }

    /// What an honest island would send: the pseudo-gradient of H steps from the beginning.
    pub(super) fn honest_values(&mut self, fragment: &Fragment) -> Vec<f32> {
        if self.trained.is_none() {
            self.trained = Some(self.train());
        }
        let trained = self.trained.as_ref().and_then(|all| all.get(fragment.id.index()));
        trained.cloned().unwrap_or_else(|| vec![0.0; fragment.elements])
    }

    /// A header that answers `seen`, for a payload that is offered from now on.
    pub(super) fn header(&mut self, seen: &Header, payload: Vec<u8>) -> Header {
        let content = crypto::content_id(&payload);
        let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.offer(content, payload);
        Header { author: self.part.key.node(), payload: content, payload_bytes: bytes, ..*seen }
    }

    /// Signs for the run that everybody is in.
    pub(super) fn announce(&self, header: Header) -> Act {
        Act::Publish(Message::Announce(self.part.key.sign(self.run, header)).encode())
    }

    /// The newest frontier heard, as one's own.
    pub(super) fn frontier(&mut self) -> Option<Frontier> {
        let mut frontier = self.view.mirror()?;
        self.sequence += 1;
        frontier.node = self.part.key.node();
        frontier.incarnation = 1;
        frontier.sequence = self.sequence;
        frontier.trains = true;
        Some(frontier)
    }

    /// A history of rounds that never were, heavy enough to outweigh any other, and the
    /// snapshot that it ends with.
    pub(super) fn false_history(&mut self, fragment: &Fragment) -> History {
        let rounds: Version = 24;
        let params: Vec<f32> =
            self.honest_values(fragment).iter().map(|value| 100.0 * value).collect();
        let snapshot = snapshot(fragment.id, rounds, &params);
        let digest = crypto::content_id(&snapshot);
        self.offer(digest, snapshot);
        let entries =
            (0..rounds).map(|_| HistoryEntry { cut: Vec::new(), weight: 1 << 40, digest });
        let root = Trail(crypto::hash(Domain::Trail, &[&fragment.id.0.to_le_bytes()]));
        History {
            fragment: fragment.id,
            root: 0,
            root_trail: root,
            root_weight: 0,
            root_digest: digest,
            entries: entries.collect(),
        }
    }

    /// A snapshot as anybody might ask for, of parameters that nobody wants.
    pub(super) fn poisoned_snapshot(&mut self) -> Vec<u8> {
        let Some(fragment) = self.rng.pick(&self.fragments).cloned() else { return Vec::new() };
        let bad: Vec<f32> = self.honest_values(&fragment).iter().map(|it| 100.0 * it).collect();
        snapshot(fragment.id, 1, &bad)
    }

    fn train(&self) -> Vec<Vec<f32>> {
        let genesis = &self.part.genesis;
        let task = Task::new(self.part.task_seed);
        let layout = Layout::new(genesis);
        let map = genesis.fragment_map();
        if layout.elements() != task.parameters() {
            // Not the toy: whoever runs this liar elsewhere gets something of an honest size.
            let mut rng = Rng::new(self.part.seed);
            let noise = |fragment: &Fragment| -> Vec<f32> {
                (0..fragment.elements).map(|_| (rng.below(2001) as f32 - 1000.0) * 1e-6).collect()
            };
            return map.fragments().iter().map(noise).collect();
        }
        let initial = layout.initial(genesis, &map);
        let mut local = initial.clone();
        let mut learner = Learner::new(&task, shard(self.part.seed, 0));
        for _ in 0..genesis.rounds.steps {
            learner.step(&task, &mut local, LEARNING_RATE);
        }
        let moved: Vec<f32> = initial.iter().zip(&local).map(|(from, to)| from - to).collect();
        map.fragments().iter().map(|fragment| layout.gather(fragment, &moved)).collect()
    }
}

/// A payload that decodes to NaN, or would if its decoder did not look. Another one for each
/// round: what was refused once is not looked at again.
pub(super) fn not_finite(codec: Codec, good: &[u8], round: Version) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let [low, high, ..] = round.to_le_bytes();
    if codec == Codec::Sparse {
        // Its chunks begin with magnitudes, where all ones are NaN.
        let magnitudes = bytes.iter_mut().skip(HEADER_BYTES);
        magnitudes.zip([u8::MAX, u8::MAX, low, high]).for_each(|(byte, to)| *byte = to);
        return bytes;
    }
    // The others are one frame that ends with an exponent or a scale.
    let frame = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let mut raw =
        zstd::bulk::decompress(frame, BOMB_BYTES).expect("an honest payload can be expanded");
    raw.iter_mut().zip([low, high]).for_each(|(byte, to)| *byte = to);
    raw.iter_mut().rev().take(2).for_each(|byte| *byte = u8::MAX);
    one_chunk(good, &raw)
}

/// A small payload that would expand to many times its fragment, another one for each round.
pub(super) fn bomb(good: &[u8], round: Version) -> Vec<u8> {
    let mut raw = round.to_le_bytes().to_vec();
    raw.resize(BOMB_BYTES, 0);
    one_chunk(good, &raw)
}

/// Content that nobody has, other content for each round.
pub(super) fn nowhere(seen: &Header) -> ContentId {
    let mut content = [0xee; 32];
    content[..4].copy_from_slice(&seen.round.to_le_bytes());
    content[4..6].copy_from_slice(&seen.fragment.0.to_le_bytes());
    ContentId(content)
}

/// Headers that are no evidence, passed off as such: of two authors, and of one who signed
/// neither.
pub(super) fn false_evidence(key: &Key, run: RunId, seen: &Header) -> [Vec<u8>; 2] {
    let own = key.sign(run, Header { author: key.node(), ..*seen });
    let forged = |tokens| Signed { body: Header { tokens, ..*seen }, signature: own.signature };
    let (one, other) = (forged(seen.tokens), forged(seen.tokens.saturating_add(1)));
    [(&one, &own), (&one, &other)].map(|pair| {
        let mut bytes = EVIDENCE.to_vec();
        bytes.extend(atoll_protocol::wire::encode(&pair));
        bytes
    })
}

/// The header of `good`, then one chunk with a zstd frame of `raw`.
fn one_chunk(good: &[u8], raw: &[u8]) -> Vec<u8> {
    let frame = zstd::bulk::compress(raw, 1).expect("there is memory for a small frame");
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let mut bytes: Vec<u8> = good.iter().copied().take(LENGTHS_AT).collect();
    bytes.extend(length.to_le_bytes());
    bytes.extend(frame);
    bytes
}

fn snapshot(fragment: FragmentId, version: Version, params: &[f32]) -> Vec<u8> {
    let mut bytes = OuterState::new(fragment, params).bytes().to_vec();
    bytes[VERSION_AT..VERSION_AT + 4].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Whether this attack needs frontiers that lie.
pub(super) fn lies_in_frontiers(attack: Attack) -> bool {
    matches!(attack, Attack::LyingFrontier | Attack::FalseHistory)
}

/// How evidence begins: its place in `Message`.
const EVIDENCE: [u8; 4] = [2, 0, 0, 0];
/// Where a payload's table of chunk lengths begins.
const LENGTHS_AT: usize = 14;
/// Where the first chunk of a payload with one chunk begins.
const HEADER_BYTES: usize = 18;
/// Where a snapshot's version is written.
const VERSION_AT: usize = 12;
/// What the bomb expands to.
const BOMB_BYTES: usize = 8 << 20;
