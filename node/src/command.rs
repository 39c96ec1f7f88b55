//! What the command line can do, one file for each task.

pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod failure;
pub(crate) mod folder;
pub(crate) mod genesis_check;
pub(crate) mod import;
mod island;
pub(crate) mod sample;
mod session;
pub(crate) mod train;
