//! Hashes and signatures, each bound to a domain; nothing else.

mod hash;
mod outline;
mod sign;

pub use hash::{content_id, content_id_with, hash};
pub use outline::{Outline, OutlineDraft};
pub use sign::{Body, Key, Signature, Signed, Verified};
