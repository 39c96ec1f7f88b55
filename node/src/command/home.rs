//! The folder of a node: its key, its config, and the runs it takes part in.

use std::fs;
use std::path::{Path, PathBuf};

use atoll_node::ticket::Ticket;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::RunId;

use super::failure::Failure;

/// The folder of a node.
#[derive(Debug)]
pub(crate) struct Home {
    root: PathBuf,
}

/// The folder of one run.
#[derive(Clone, Debug)]
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
    pub(crate) genesis: Genesis,
}

impl Home {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where a run's folder is, whether it exists or not.
    pub(crate) fn folder(&self, run: &RunId) -> PathBuf {
        self.root.join(RUNS).join(&run.to_hex()[..RUN_DIGITS])
    }

    /// The run of this name, of an id that begins like this, or in this folder; without a name
    /// the only one there is.
    pub(crate) fn find(&self, wanted: Option<&str>) -> Result<RunFolder, Failure> {
        if let Some(path) = wanted.map(Path::new).filter(|path| RunFolder::is_at(path)) {
            return RunFolder::open(path);
        }
        let mut runs = self.runs()?;
        if let Some(wanted) = wanted {
            runs.retain(|run| {
                run.genesis.name == wanted || run.genesis.run_id().to_hex().starts_with(wanted)
            });
        }
        let named = wanted.map(|it| format!(" called `{it}`")).unwrap_or_default();
        match runs.len() {
            1 => Ok(runs.remove(0)),
            0 => Err(Failure::new(format!("no run{named} in {}", self.root.display())).hint(
                "`atoll new` makes one, `atoll join TICKET` joins one, --home names another folder",
            )),
            _ => {
                let list: Vec<String> = runs.iter().map(RunFolder::title).collect();
                Err(Failure::new(format!("several runs{named}: {}", list.join(", "))).hint(
                    "say which: `atoll run RUN`, elsewhere `--run RUN`, with its name or, where \
                         names are equal, the first digits of its id",
                ))
            }
        }
    }

    /// Whether there is no run at all.
    pub(crate) fn is_empty(&self) -> Result<bool, Failure> {
        Ok(self.runs()?.is_empty())
    }

    fn runs(&self) -> Result<Vec<RunFolder>, Failure> {
        let folder = self.root.join(RUNS);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Failure::file(&folder)(error)),
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| RunFolder::is_at(path));
        paths.sort();
        paths.iter().map(|path| RunFolder::open(path)).collect()
    }
}

impl RunFolder {
    /// Whether this is the folder of a run.
    pub(crate) fn is_at(path: &Path) -> bool {
        path.join(GENESIS).is_file()
    }

    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = path.join(GENESIS);
        let bytes = fs::read(&file).map_err(Failure::file(&file))?;
        let genesis = Genesis::from_bytes(&bytes).map_err(|error| {
            Failure::new(format!("{}: {error}", file.display()))
                .hint("the folder is of another version or damaged: join the run again")
        })?;
        Ok(Self { path: path.to_owned(), genesis })
    }

    /// Its name and the beginning of its id.
    pub(crate) fn title(&self) -> String {
        format!("{} ({})", self.genesis.name, &self.genesis.run_id().to_hex()[..RUN_DIGITS])
    }

    /// The ticket that the node came with.
    pub(crate) fn ticket(&self) -> Result<Ticket, Failure> {
        let file = self.path.join(TICKET);
        match fs::read_to_string(&file) {
            Ok(text) => Ok(text.trim().parse()?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ticket {
                run: self.genesis.run_id(),
                name: self.genesis.name.clone(),
                bootstrap: Vec::new(),
                peers: Vec::new(),
                sponsor: None,
                invite: None,
            }),
            Err(error) => Err(Failure::file(&file)(error)),
        }
    }

    /// Keeps a ticket for the next start.
    pub(crate) fn keep_ticket(&self, ticket: &Ticket) -> Result<(), Failure> {
        let file = self.path.join(TICKET);
        fs::write(&file, ticket.encode()?).map_err(Failure::file(&file))
    }
}

const RUNS: &str = "runs";
const GENESIS: &str = "genesis.bin";
const TICKET: &str = "ticket";
/// Hexadecimal digits of a run id that name its folder.
const RUN_DIGITS: usize = 16;
