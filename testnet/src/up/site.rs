//! Where a swarm is built: its folder, its programs, and who ends them.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::binaries::Binaries;
use super::error::UpError;
use super::interrupt::Interrupt;
use super::keeper::Keeper;
use super::network::Place;
use super::options::Options;
use super::process::{self, Output, Process};
use super::stage::Stage;

/// Where a swarm is built. Dropped, its folder is removed, unless that is to stay.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) folder: PathBuf,
    pub(super) binaries: Binaries,
    pub(super) keeper: Arc<Keeper>,
    // After the keeper, so that the folder is still there for whoever is ended last.
    _temporary: Option<TempDir>,
}

impl Site {
    /// Makes the folder, and the programs if they must be made.
    pub(super) fn prepare(options: &Options, interrupt: &Interrupt) -> Result<Self, UpError> {
        let (folder, temporary) = make_folder(options)?;
        let keeper = Arc::new(Keeper::start(temporary.as_ref().map(TempDir::path))?);
        let binaries = Binaries::find(&keeper, interrupt)?;
        Ok(Self { folder, binaries, keeper, _temporary: temporary })
    }

    /// Runs `atoll` to its end and gives what it printed.
    pub(super) fn atoll(
        &self,
        stage: &mut Stage,
        name: &str,
        arguments: &[OsString],
        patience: Duration,
    ) -> Result<String, UpError> {
        let mut command = process::command(&self.binaries.atoll);
        command.args(arguments);
        let log = self.log(name);
        let mut process = Process::start(command, name, Some(&log), Output::Pipe, &self.keeper)?;
        let output = process.output();
        stage.wait_for(&mut process, patience)?;
        let mut text = String::new();
        if let Some(mut output) = output {
            output.read_to_string(&mut text).map_err(UpError::file(&self.binaries.atoll))?;
        }
        Ok(text)
    }

    /// Starts a node: it joins with a ticket, or goes on with the run that its home has.
    pub(super) fn node(
        &self,
        name: &str,
        home: &Path,
        place: &Place,
        ticket: Option<&str>,
        flags: &[String],
    ) -> Result<Process, UpError> {
        let mut command = process::command(&self.binaries.atoll);
        match ticket {
            Some(ticket) => command.args(["join", ticket]),
            None => command.arg("run"),
        };
        command.arg("--home").arg(home).args(["--listen", &place.listen()]).args(flags);
        let log = self.log(name);
        place.within(|| Process::start(command, name, Some(&log), Output::Log, &self.keeper))?
    }

    /// The log of the process of this name.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.log", name.replace(' ', "-")))
    }
}

/// Words of a command line.
pub(super) fn words<const N: usize>(words: [&dyn AsRef<std::ffi::OsStr>; N]) -> Vec<OsString> {
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

fn make_folder(options: &Options) -> Result<(PathBuf, Option<TempDir>), UpError> {
    if let Some(folder) = &options.dir {
        let taken = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if taken || folder.is_file() {
            let what = format!("--dir {}: there is something already", folder.display());
            return Err(UpError::usage(what, "name a folder that is empty or not there yet"));
        }
        std::fs::create_dir_all(folder).map_err(UpError::file(folder))?;
        // Nodes get absolute paths: what they say of their files is then true anywhere.
        return Ok((std::path::absolute(folder).map_err(UpError::file(folder))?, None));
    }
    let mut builder = tempfile::Builder::new();
    let temporary = builder.prefix(PREFIX).tempdir()?;
    if options.keep {
        return Ok((temporary.keep(), None));
    }
    Ok((temporary.path().to_owned(), Some(temporary)))
}

/// The name of a file as the command line takes it.
pub(super) fn text_of(path: &Path) -> String {
    path.display().to_string()
}

const PREFIX: &str = "atoll-testnet-";
