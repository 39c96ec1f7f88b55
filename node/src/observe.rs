//! What people see of a node: status, events, metrics and log lines.
//!
//! The driver gives everything to an [`Observer`]; nothing here knows the network, the store or
//! the island, and nothing here ever makes the driver wait.

pub mod client;
pub mod clock;
pub mod command;
mod door;
pub mod event;
pub mod event_log;
pub mod logging;
mod metrics;
mod observer;
pub mod page;
mod receipts;
pub mod server;
pub mod status;
mod telling;
pub mod written;

pub use client::Client;
pub use clock::Clock;
pub use command::{Answer, Command, Refusal, Request};
pub use event::Event;
pub use event_log::EventLog;
pub use observer::Observer;
pub use server::Server;
pub use status::Status;
