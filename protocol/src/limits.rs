//! Every bound, with its reason. Nothing a peer sends can make a structure outgrow these.

/// Bytes of a gossip message: small enough to be relayed by everyone without a thought.
pub const GOSSIP_BYTES_MAX: usize = 1024;
/// Bytes of a direct message (reconcile): a page of headers, a history.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a genesis, canonical or TOML.
pub const GENESIS_BYTES_MAX: usize = 1024 * 1024;

/// Fragments in a run.
pub const FRAGMENTS_MAX: usize = 1024;
/// Fragments in one frontier message; a run with more sends them in turns.
pub const FRONTIER_ENTRIES_MAX: usize = 16;
/// Tensors in a model.
pub const TENSORS_MAX: usize = 16 * 1024;
/// Parameters in one fragment: keeps every byte count, also that of a snapshot with its head,
/// below `u32::MAX`.
pub const FRAGMENT_ELEMENTS_MAX: usize = (1 << 29) - 8;

/// Authors in one round: above this a swarm needs reduction committees, not a longer list.
pub const ROUND_AUTHORS_MAX: usize = 1024;
/// Rounds ahead of our version for which a contribution is kept: a peer may have closed a
/// round or two before us, more means that we must reconcile first.
pub const ROUNDS_AHEAD_MAX: u32 = 4;
/// The newest version a history may claim: any round number that follows from it can be counted
/// on from without overflow.
pub const VERSION_MAX: u32 = 1 << 31;
/// Tokens one island may train in its life: sums over all its contributions cannot overflow.
pub const TOKENS_MAX: u64 = 1 << 48;
/// Rounds a horizon may span.
pub const HORIZON_MAX: u32 = 4096;
/// Stable rounds whose cuts are remembered, so that a loser of a divergence can tell which of
/// its contributions the surviving history contains.
pub const HISTORY_ROUNDS_MAX: usize = 128;

/// Peers (connected or heard of) an engine keeps track of.
pub const PEERS_MAX: usize = 2048;
/// Invitations and revocations a roster holds.
pub const ROSTER_RECORDS_MAX: usize = 16 * 1024;
/// Evidence kept, one for each author.
pub const EVIDENCE_MAX: usize = 4096;

/// Payloads wanted at once.
pub const WANTS_MAX: usize = 16 * 1024;
/// Fetches in flight over all peers.
pub const FETCHES_MAX: usize = 16;
/// Fetches in flight to one peer: one slow holder must not hold everything up.
pub const FETCHES_PER_PEER_MAX: usize = 4;
/// Holders remembered for one payload.
pub const HOLDERS_MAX: usize = 8;
/// Attempts after which a wanted payload counts as withheld.
pub const FETCH_ATTEMPTS_MAX: u32 = 12;
/// Payloads remembered as refused, so that they are not fetched again.
pub const REFUSED_MAX: usize = 4096;

/// Bytes of a chunk, the part of a content that is asked for and verified by itself: large enough
/// to keep blake3's lanes full, small enough to be lost without regret. A power of two.
pub const CONTENT_CHUNK_BYTES: usize = 256 * 1024;
/// Chunks asked for at once: the most a holder sends before another peer has its turn.
pub const RANGE_CHUNKS_MAX: u32 = 16;
/// Content streams that peers may hold open here, together and each.
pub const CONTENT_STREAMS_MAX: usize = 128;
/// See [`CONTENT_STREAMS_MAX`].
pub const CONTENT_STREAMS_PER_PEER_MAX: usize = 24;
/// Requests that wait for an upload slot; what comes on top is told to ask somebody else.
pub const UPLOADS_WAITING_MAX: usize = 64;
/// Holders that are read from at once, over all fetches: each has a few chunks in memory.
pub const DOWNLOADS_MAX: usize = 32;
/// Bytes of outlines kept for contents that are served often.
pub const OUTLINES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Peers to be connected to; a swarm up to this size is a full mesh.
pub const CONNECTED_PEERS_MAX: usize = 64;
/// Connections to one peer: a relayed one, a direct one, one that was dialled from each side.
pub const CONNECTIONS_PER_PEER_MAX: u32 = 4;
/// Peers whose addresses are remembered.
pub const KNOWN_PEERS_MAX: usize = 1024;
/// Addresses remembered for one peer.
pub const ADDRESSES_PER_PEER_MAX: usize = 8;
/// Bytes of a list of addresses that a peer gives: all its peers, with some addresses each.
pub const PEERS_BYTES_MAX: usize = 16 * 1024;
/// Gossip that waits for a verdict; the oldest is ignored for every one on top.
pub const RECEIPTS_MAX: usize = 4096;
/// Messages that wait for the network, and messages from it that wait for the driver.
pub const MESSAGES_WAITING_MAX: usize = 1024;

/// Headers in one direct message.
pub const HEADERS_PER_MESSAGE_MAX: usize = 256;
/// Outputs waiting for the driver; an engine that has this many takes no more from peers.
pub const OUTBOX_MAX: usize = 64 * 1024;

/// Messages a peer may send in a burst, and how many it regains each second.
pub const PEER_BURST: u64 = 4096;
/// See [`PEER_BURST`].
pub const PEER_MESSAGES_PER_SECOND: u64 = 1024;

const _: () = assert!(GOSSIP_BYTES_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(HEADERS_PER_MESSAGE_MAX * 512 < MESSAGE_BYTES_MAX);
const _: () = assert!(FETCHES_PER_PEER_MAX <= FETCHES_MAX);
const _: () = assert!(CONTENT_CHUNK_BYTES.is_power_of_two());
const _: () = assert!(FRONTIER_ENTRIES_MAX <= FRAGMENTS_MAX);
