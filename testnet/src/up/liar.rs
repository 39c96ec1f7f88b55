//! Somebody who signs two different things for one slot: two processes with one key.
//!
//! That is all that can be made of programs that do not lie: other lies are for the simulator.

use std::fs;
use std::path::PathBuf;

use super::error::UpError;
use super::network::Place;
use super::process::{self, Output, Process};
use super::site::{Site, words};
use super::stage::Stage;

/// A liar. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct Liar {
    _twins: [Process; 2],
}

impl Liar {
    /// Starts one that joins with `ticket`; gives its name in the run, too.
    pub(super) fn start(
        site: &Site,
        number: usize,
        places: [Place; 2],
        flags: &[String],
        ticket: &str,
        stage: &mut Stage,
    ) -> Result<(Self, String), UpError> {
        let homes = ["a", "b"].map(|twin| site.folder.join(format!("liar-{number}{twin}")));
        let whoami = words([&"whoami", &"--home", &homes[0]]);
        let node = site.atoll(stage, "whoami", &whoami, WHOAMI_WITHIN)?.trim().to_owned();
        copy_key(&homes)?;
        let start = |twin: usize| {
            let name = format!("liar {number}{}", ["a", "b"][twin]);
            let mut command = process::command(&site.binaries.atoll);
            command.args(["join", ticket]).arg("--home").arg(&homes[twin]);
            command.args(["--listen", &places[twin].listen()]).args(flags);
            let log = site.log(&name);
            places[twin]
                .within(|| Process::start(command, &name, Some(&log), Output::Log, &site.keeper))?
        };
        Ok((Self { _twins: [start(0)?, start(1)?] }, node))
    }
}

/// Copies everything but runs: there are none yet.
fn copy_key([from, to]: &[PathBuf; 2]) -> Result<(), UpError> {
    fs::create_dir_all(to).map_err(UpError::file(to))?;
    let entries = fs::read_dir(from).map_err(UpError::file(from))?;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
        if let Some(name) = path.file_name() {
            // Permissions are copied, too: nobody else may read a key.
            fs::copy(&path, to.join(name)).map_err(UpError::file(&path))?;
        }
    }
    Ok(())
}

const WHOAMI_WITHIN: std::time::Duration = std::time::Duration::from_secs(30);
