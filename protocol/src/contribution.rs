//! A contribution: a signed header plus a payload by reference, and its way to the ledger.
//!
//! ```text
//! Received   bytes from anyone                 wire::decode
//! Decoded    Signed<Header>                    well-formed, nothing more
//! Verified   Verified<Header>                  the author signed it for this run
//! Admitted   roster, limits and round hold, the payload is here, finite, exactly sized,
//!            norm-bounded                      the only thing a ledger takes
//! ```

mod admitted;
mod header;

pub use admitted::{Admitted, PayloadProof};
pub use header::Header;
