//! One value of everything that has a wire or disk form, from fixed inputs.

use std::collections::BTreeMap;

use atoll_protocol::chain::{Chain, History, HistoryEntry, next_trail};
use atoll_protocol::codec::{self, Codec, Payload};
use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::Signed;
use atoll_protocol::engine::{Record, Settled};
use atoll_protocol::frontier::{Frontier, FrontierEntry, Goodbye, Standing};
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, RoundId, RunId, Short, Trail};
use atoll_protocol::ledger::{Evidence, cut_digest};
use atoll_protocol::message::{Message, RosterRecords, Summary};
use atoll_protocol::outer::OuterState;
use atoll_protocol::pool::Inline;
use atoll_protocol::roster::{Invite, Revocation};
use atoll_protocol::{testkit, wire};

/// Every vector by name.
pub(crate) fn vectors() -> BTreeMap<String, Vec<u8>> {
    let mut vectors = BTreeMap::new();
    let mut add = |name: String, bytes: Vec<u8>| {
        assert!(vectors.insert(name.clone(), bytes).is_none(), "{name} is there twice");
    };
    for message in messages() {
        add(format!("message-{}", MESSAGES[message_index(&message)]), message.encode());
    }
    for record in records() {
        add(format!("record-{}", RECORDS[record_index(&record)]), wire::encode(&record));
    }
    for (name, text) in [("model", GENESIS_MODEL), ("tensors", GENESIS_TENSORS)] {
        let genesis = Genesis::from_toml(text).unwrap();
        add(format!("genesis-{name}"), genesis.to_bytes());
        add(format!("genesis-{name}-run-id"), genesis.run_id().0.to_vec());
    }
    for codec in Codec::ALL {
        let payload = codec::encode(codec, &values(), &Inline).unwrap();
        add(format!("payload-{}-values", codec.name()), decoded(codec, &payload));
        add(format!("payload-{}", codec.name()), payload);
    }
    let snapshot = OuterState::new(FragmentId(3), &values()[..20]);
    add("snapshot".into(), snapshot.bytes().to_vec());
    add("snapshot-digest".into(), snapshot.digest(&Inline).0.to_vec());
    add("header-id".into(), header(1).body.id().0.to_vec());
    add("header-signature".into(), header(1).signature.0.to_vec());
    add("frontier-signature".into(), frontier().signature.0.to_vec());
    let cut = cut_digest(&[header(1).body.id(), header(2).body.id()]);
    add("cut-digest".into(), cut.0.to_vec());
    add("cut-digest-of-nothing".into(), cut_digest(&[]).0.to_vec());
    let trail = Chain::new(FragmentId(1), ContentId([9; 32])).base_trail();
    add("trail-root".into(), trail.0.to_vec());
    add("trail-next".into(), next_trail(trail, cut, 4096).0.to_vec());
    vectors
}

/// What a payload of [`values`] decodes to, as little-endian bytes.
pub(crate) fn decoded(codec: Codec, payload: &[u8]) -> Vec<u8> {
    let mut decoded = vec![0.0; values().len()];
    Payload::open(payload, codec, decoded.len()).unwrap().decode(&mut decoded, &Inline).unwrap();
    decoded.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// One message of each kind.
pub(crate) fn messages() -> Vec<Message> {
    vec![
        Message::Announce(header(1)),
        Message::Frontier(frontier()),
        Message::Evidence(evidence()),
        Message::Goodbye(goodbye()),
        Message::Invite(invite()),
        Message::Revocation(revocation()),
        Message::Summary(Summary {
            fragment: FragmentId(1),
            base: 40,
            rounds: vec![Short([1; 8]), Short([2; 8])],
        }),
        Message::Headers(vec![header(1), header(2)]),
        Message::AskHistory(FragmentId(2)),
        Message::History(history()),
        Message::AskRoster,
        Message::Roster(RosterRecords {
            invites: vec![invite()],
            revocations: vec![revocation()],
            evidence: vec![evidence()],
        }),
    ]
}

/// One record of each kind.
pub(crate) fn records() -> Vec<Record> {
    let settled = Settled { merged: 123_456, orphaned: 789, signed_floor: 21 };
    vec![
        Record::Contribution(header(1)),
        Record::Closed(RoundId { fragment: FragmentId(1), number: 42 }),
        Record::Stable { fragment: FragmentId(1), entry: entry(1), settled },
        Record::Installed { history: history(), settled },
        Record::Evidence(evidence()),
        Record::Invite(invite()),
        Record::Revocation(revocation()),
        Record::Waiting { fragment: FragmentId(1), own: vec![ContributionId([9; 32])] },
    ]
}

/// Which of [`MESSAGES`] it is. A new kind does not compile until it has a name here, and has
/// no peace until it has a sample above.
pub(crate) fn message_index(message: &Message) -> usize {
    match message {
        Message::Announce(_) => 0,
        Message::Frontier(_) => 1,
        Message::Evidence(_) => 2,
        Message::Goodbye(_) => 3,
        Message::Invite(_) => 4,
        Message::Revocation(_) => 5,
        Message::Summary(_) => 6,
        Message::Headers(_) => 7,
        Message::AskHistory(_) => 8,
        Message::History(_) => 9,
        Message::AskRoster => 10,
        Message::Roster(_) => 11,
    }
}

/// Which of [`RECORDS`] it is.
pub(crate) fn record_index(record: &Record) -> usize {
    match record {
        Record::Contribution(_) => 0,
        Record::Closed(_) => 1,
        Record::Stable { .. } => 2,
        Record::Installed { .. } => 3,
        Record::Evidence(_) => 4,
        Record::Invite(_) => 5,
        Record::Revocation(_) => 6,
        Record::Waiting { .. } => 7,
    }
}

fn header(author: u8) -> Signed<Header> {
    signed_header(author, 4096)
}

fn signed_header(author: u8, tokens: u64) -> Signed<Header> {
    let key = testkit::key(author);
    let header = Header {
        author: key.node(),
        fragment: FragmentId(1),
        round: 42,
        base: 41,
        tokens,
        steps: 24,
        payload: ContentId([0xa5; 32]),
        payload_bytes: 70_000,
    };
    key.sign(RUN, header)
}

fn frontier() -> Signed<Frontier> {
    let key = testkit::key(1);
    let entry = |n| FrontierEntry {
        base: 40,
        version: 43,
        base_trail: Short([n; 8]),
        mark_trail: Short([n + 1; 8]),
        trail: Short([n + 2; 8]),
        digest: Short([n + 3; 8]),
    };
    let frontier = Frontier {
        node: key.node(),
        incarnation: 3,
        sequence: 77,
        standing: Standing::CaughtUp,
        trains: true,
        step_ms: 350,
        roster: Short([0x11; 8]),
        first: FragmentId(2),
        entries: vec![entry(0x20), entry(0x30)],
    };
    key.sign(RUN, frontier)
}

fn evidence() -> Evidence {
    Evidence::between(&signed_header(3, 1), &signed_header(3, 2)).unwrap()
}

fn goodbye() -> Signed<Goodbye> {
    let key = testkit::key(2);
    key.sign(RUN, Goodbye { node: key.node(), incarnation: 3, sequence: 78 })
}

fn invite() -> Signed<Invite> {
    let (steward, node) = (testkit::key(1), testkit::key(4).node());
    steward.sign(RUN, Invite { steward: steward.node(), node, last_round: 500 })
}

fn revocation() -> Signed<Revocation> {
    let (steward, node) = (testkit::key(1), testkit::key(5).node());
    steward.sign(RUN, Revocation { steward: steward.node(), node })
}

fn history() -> History {
    History {
        fragment: FragmentId(1),
        root: 38,
        root_trail: Trail([0x44; 32]),
        root_weight: 99_000,
        root_digest: ContentId([0x55; 32]),
        entries: vec![entry(1), entry(2)],
    }
}

fn entry(n: u8) -> HistoryEntry {
    HistoryEntry {
        cut: vec![ContributionId([n; 32]), ContributionId([n + 1; 32])],
        weight: 8192,
        digest: ContentId([n + 2; 32]),
    }
}

/// Pseudo-gradient values: both signs, several magnitudes, zeros.
fn values() -> Vec<f32> {
    (0..300u16)
        .map(|n| {
            let level = f32::from(n * 37 % 101) - 50.0;
            if n % 7 == 0 { 0.0 } else { level / f32::from(64u16 << (n % 5)) }
        })
        .collect()
}

/// Names of the kinds of message.
pub(crate) const MESSAGES: [&str; 12] = [
    "announce",
    "frontier",
    "evidence",
    "goodbye",
    "invite",
    "revocation",
    "summary",
    "headers",
    "ask-history",
    "history",
    "ask-roster",
    "roster",
];

/// Names of the kinds of record.
pub(crate) const RECORDS: [&str; 8] = [
    "contribution",
    "closed",
    "stable",
    "installed",
    "evidence",
    "invite",
    "revocation",
    "waiting",
];

const RUN: RunId = RunId([7; 32]);

/// Nothing is left to a default: only what is written here decides the bytes.
const GENESIS_MODEL: &str = include_str!("genesis-model.toml");
const GENESIS_TENSORS: &str = include_str!("genesis-tensors.toml");
