//! Gossip: small signed messages that everybody relays once they were judged good.

use std::collections::BTreeMap;
use std::time::Duration;

use atoll_protocol::fault::Verdict;
use atoll_protocol::limits::{GOSSIP_BYTES_MAX, RECEIPTS_MAX};
use libp2p::PeerId;
use libp2p::gossipsub::{
    Behaviour, ConfigBuilder, IdentTopic, Message, MessageAcceptance, MessageAuthenticity,
    MessageId, PeerScoreParams, PeerScoreThresholds, TopicScoreParams, ValidationMode,
};

use super::error::NetError;

/// Gossip over one topic. Messages are signed inside, by the core, so gossip adds nothing.
pub(super) fn gossip(topic: &IdentTopic) -> Result<Behaviour, NetError> {
    let failed = |reason: String| NetError::Setup { part: "gossip", reason };
    let config = ConfigBuilder::default()
        .validation_mode(ValidationMode::Anonymous)
        .validate_messages()
        .message_id_fn(|message: &Message| message_id(&message.data))
        .max_transmit_size_for_topic(GOSSIP_BYTES_MAX + OVERHEAD, topic.hash())
        .heartbeat_initial_delay(Duration::from_secs(1))
        .heartbeat_interval(HEARTBEAT)
        .history_length(HISTORY)
        // A node sends its own messages to everybody; so relaying is for those out of its reach
        // and can be sparse, and what it misses is told to two more peers now and then.
        .flood_publish(true)
        .gossip_lazy(2)
        .gossip_factor(0.0)
        .idontwant_message_size_threshold(IDONTWANT_BYTES)
        .mesh_n_low(1)
        .mesh_n(2)
        // Where one is between all others, it passes on to some more.
        .mesh_n_high(6)
        .mesh_outbound_min(1)
        .connection_handler_queue_len(QUEUE)
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let mut behaviour = Behaviour::new(MessageAuthenticity::Anonymous, config)
        .map_err(|error| failed(error.to_owned()))?;
    behaviour.with_peer_score(scores(topic), thresholds()).map_err(failed)?;
    behaviour.subscribe(topic).map_err(|error| failed(error.to_string()))?;
    Ok(behaviour)
}

/// What names a message: equal bytes are the same message, whoever sent them.
pub(super) fn message_id(data: &[u8]) -> MessageId {
    MessageId::from(&blake3::hash(data).as_bytes()[..ID_BYTES])
}

/// Gossip that was delivered and has no verdict yet.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    next: u64,
    open: BTreeMap<u64, (MessageId, PeerId)>,
}

impl Receipts {
    /// A name for something that needs no verdict.
    pub(super) fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A name for a message, and the oldest one if there are too many: it is to be ignored.
    pub(super) fn open(
        &mut self,
        message: MessageId,
        from: PeerId,
    ) -> (u64, Option<(MessageId, PeerId)>) {
        let receipt = self.name();
        self.open.insert(receipt, (message, from));
        let oldest = (self.open.len() > RECEIPTS_MAX).then(|| self.open.pop_first());
        (receipt, oldest.flatten().map(|(_, message)| message))
    }

    /// The message with this name, if it waits for a verdict.
    pub(super) fn close(&mut self, receipt: u64) -> Option<(MessageId, PeerId)> {
        self.open.remove(&receipt)
    }
}

/// gossipsub's word for a verdict.
pub(super) fn acceptance(verdict: Verdict) -> MessageAcceptance {
    match verdict {
        Verdict::Accept => MessageAcceptance::Accept,
        Verdict::Ignore => MessageAcceptance::Ignore,
        Verdict::Reject => MessageAcceptance::Reject,
    }
}

fn scores(topic: &IdentTopic) -> PeerScoreParams {
    let of_topic = TopicScoreParams {
        topic_weight: 1.0,
        time_in_mesh_weight: 0.01,
        time_in_mesh_quantum: Duration::from_secs(1),
        time_in_mesh_cap: 100.0,
        first_message_deliveries_weight: 0.1,
        first_message_deliveries_decay: 0.9,
        first_message_deliveries_cap: 50.0,
        // Nodes are quiet for long, so nobody owes a rate of messages.
        mesh_message_deliveries_weight: 0.0,
        mesh_failure_penalty_weight: 0.0,
        // The engine has points for bad messages, and knows whose they are. Here a refused message
        // counts against all who pass it on: they may have known less, or heard less of a flood.
        invalid_message_deliveries_weight: 0.0,
        ..TopicScoreParams::default()
    };
    PeerScoreParams {
        topics: [(topic.hash(), of_topic)].into(),
        topic_score_cap: 10.0,
        // Points of the engine, negative: see `penalty`.
        app_specific_weight: 1.0,
        // A lab, or a home, may have many nodes behind one address.
        ip_colocation_factor_weight: 0.0,
        ..PeerScoreParams::default()
    }
}

/// What gossipsub counts, a slow line or a late answer, may choose whom messages are passed on to.
/// It never decides who is heard: whoever has too many points is not even connected.
fn thresholds() -> PeerScoreThresholds {
    PeerScoreThresholds {
        gossip_threshold: -20.0,
        publish_threshold: f64::NEG_INFINITY,
        graylist_threshold: f64::NEG_INFINITY,
        accept_px_threshold: 1000.0,
        opportunistic_graft_threshold: 0.5,
    }
}

/// What gossipsub puts around a message: the topic's name and a few tags.
const OVERHEAD: usize = 128;
/// Bytes of a message's id: no two will ever be the same, and ids travel too.
const ID_BYTES: usize = 20;
/// Messages longer than this are worth telling others that they need not be sent. Most are not:
/// to say so takes a packet, too.
const IDONTWANT_BYTES: usize = 768;
/// How often gossipsub looks after its mesh; nodes are quiet for long.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Heartbeats for which a message may wait for its verdict.
const HISTORY: usize = 6;
/// Messages that wait for one connection.
const QUEUE: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_receipts_close_the_oldest() {
        let mut receipts = Receipts::default();
        let peer = PeerId::random();
        let first = receipts.open(message_id(b"first"), peer).0;
        for count in 1..RECEIPTS_MAX {
            assert_eq!(receipts.open(message_id(&count.to_le_bytes()), peer).1, None);
        }
        let (last, oldest) = receipts.open(message_id(b"last"), peer);
        assert_eq!(oldest, Some((message_id(b"first"), peer)));
        assert_eq!(receipts.close(first), None);
        assert!(receipts.close(last).is_some());
        assert_eq!(receipts.close(last), None);
    }
}
