//! What the command line can do, one file for each task.

pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod failure;
pub(crate) mod folder;
pub(crate) mod genesis_check;
mod home;
pub(crate) mod import;
mod island;
pub(crate) mod join;
pub(crate) mod look;
mod needs;
pub(crate) mod new;
pub(crate) mod run;
pub(crate) mod sample;
mod session;
pub(crate) mod steward;
pub(crate) mod train;
mod trained;

use std::io::Write;

use atoll_node::config::{Config, Partial};
use failure::Failure;

/// The configuration of a node, after a word on what looks like a mistake in it.
fn configured(flags: &Partial) -> Result<Config, Failure> {
    let config = Config::load(flags.clone())?;
    for warning in &config.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(config)
}

/// Prints the one thing that scripts read; everything else goes to the standard error.
fn say(text: &str) {
    // Whoever reads may have gone; that is no reason to fail.
    let _ = writeln!(std::io::stdout(), "{text}");
}
