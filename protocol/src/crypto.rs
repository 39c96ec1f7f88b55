//! Hashes and signatures, each bound to a domain; nothing else.

mod hash;
mod sign;

pub use hash::{content_id, content_id_with, hash};
pub use sign::{Body, Key, Signature, Signed, Verified};
