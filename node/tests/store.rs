//! The store: what it promises about the disk.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "store/crash.rs"]
mod crash;
#[path = "store/damage.rs"]
mod damage;
#[path = "store/full.rs"]
mod full;
#[path = "store/incoming.rs"]
mod incoming;
#[path = "store/property.rs"]
mod property;
#[path = "store/support.rs"]
mod support;
#[path = "store/transitions.rs"]
mod transitions;
