//! ed25519 with a domain, the wire version and the run: a signature means one thing only.

use std::fmt;

use libp2p_identity::ed25519::{Keypair, PublicKey, SecretKey};
use serde::{Deserialize, Serialize};

use crate::id::{NodeId, RunId};
use crate::wire;
use crate::wire::tag::Domain;
use crate::wire::version::WIRE_VERSION;

/// A node's identity: the same ed25519 key it uses in libp2p.
#[derive(Clone)]
pub struct Key(Keypair);

impl Key {
    /// The key made of 32 secret bytes.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        let secret = SecretKey::try_from_bytes(secret).expect("any 32 bytes are a secret key");
        Self(Keypair::from(secret))
    }

    /// The public half, which names the node.
    pub fn node(&self) -> NodeId {
        NodeId(self.0.public().to_bytes())
    }

    /// The same key for the transport: who signs is who is connected.
    pub fn keypair(&self) -> libp2p_identity::Keypair {
        self.0.clone().into()
    }

    /// Signs `body` for `run`. The body must name this key as its signer.
    pub fn sign<T: Body>(&self, run: RunId, body: T) -> Signed<T> {
        assert_eq!(body.signer(), self.node(), "a body is signed by the node it names");
        let signature = self.0.sign(&preimage(T::DOMAIN, run, &body));
        let signature = signature.try_into().expect("ed25519 signatures have 64 bytes");
        Signed { body, signature: Signature(signature) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.node())
    }
}

/// Something that is signed by the node it names.
pub trait Body: Serialize {
    /// What the signature is about.
    const DOMAIN: Domain;
    /// The node that signs.
    fn signer(&self) -> NodeId;
}

/// A body with a signature nobody has checked yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed<T> {
    /// What is said.
    pub body: T,
    /// By whom, if it verifies.
    pub signature: Signature,
}

impl<T: Body> Signed<T> {
    /// The same with the signature checked, or none if it is not the signer's for `run`.
    pub fn verify(self, run: RunId) -> Option<Verified<T>> {
        let key = PublicKey::try_from_bytes(&self.body.signer().0).ok()?;
        let preimage = preimage(T::DOMAIN, run, &self.body);
        key.verify(&preimage, &self.signature.0).then_some(Verified(self))
    }
}

/// A body whose signature holds. Only [`Signed::verify`] and a node's own key make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<T>(Signed<T>);

impl<T> Verified<T> {
    /// What is said.
    pub fn body(&self) -> &T {
        &self.0.body
    }

    /// The wire form, to pass on.
    pub fn signed(&self) -> &Signed<T> {
        &self.0
    }
}

/// 64 bytes of ed25519.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

// serde implements arrays up to 32 only.
impl Serialize for Signature {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (low, high) = self.0.split_at(32);
        let half = |part: &[u8]| <[u8; 32]>::try_from(part).expect("half of 64");
        (half(low), half(high)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (low, high) = <([u8; 32], [u8; 32])>::deserialize(deserializer)?;
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&low);
        bytes[32..].copy_from_slice(&high);
        Ok(Self(bytes))
    }
}

fn preimage<T: Body>(domain: Domain, run: RunId, body: &T) -> Vec<u8> {
    let mut bytes = domain.tag().to_vec();
    bytes.extend_from_slice(&WIRE_VERSION.to_le_bytes());
    bytes.extend_from_slice(&run.0);
    bytes.extend_from_slice(&wire::encode(body));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Note(NodeId, u32);

    impl Body for Note {
        const DOMAIN: Domain = Domain::Goodbye;
        fn signer(&self) -> NodeId {
            self.0
        }
    }

    #[test]
    fn a_signature_holds_for_its_run_and_body_only() {
        let key = Key::from_secret([7; 32]);
        let signed = key.sign(RunId([1; 32]), Note(key.node(), 5));
        assert!(signed.clone().verify(RunId([1; 32])).is_some());
        assert!(signed.clone().verify(RunId([2; 32])).is_none());
        let mut other = signed;
        other.body.1 = 6;
        assert!(other.verify(RunId([1; 32])).is_none());
    }
}
