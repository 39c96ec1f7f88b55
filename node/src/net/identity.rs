//! A node's id and libp2p's name for it are the same key in two forms.

use atoll_protocol::id::NodeId;
use libp2p::PeerId;
use libp2p::identity::{PublicKey, ed25519};

/// libp2p's name for a node; none if its id is no key.
pub(super) fn peer_of(node: &NodeId) -> Option<PeerId> {
    let key = ed25519::PublicKey::try_from_bytes(&node.0).ok()?;
    Some(PublicKey::from(key).to_peer_id())
}

/// The node with this name; none if its key is not an ed25519 key.
pub(super) fn node_of(peer: &PeerId) -> Option<NodeId> {
    // Short keys are not hashed: the name holds the key itself.
    let key = PublicKey::try_decode_protobuf(peer.as_ref().digest()).ok()?;
    Some(NodeId(key.try_into_ed25519().ok()?.to_bytes()))
}

#[cfg(test)]
mod tests {
    use atoll_protocol::crypto::Key;

    use super::*;

    #[test]
    fn names_go_both_ways() {
        let key = Key::from_secret([3; 32]);
        let peer = key.keypair().public().to_peer_id();
        assert_eq!(peer_of(&key.node()), Some(peer));
        assert_eq!(node_of(&peer), Some(key.node()));
    }
}
