//! The programs that a swarm is made of: where they are, and how they get there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::error::UpError;
use super::interrupt::Interrupt;
use super::keeper::Keeper;
use super::process::{Output, Process, describe};

/// The programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binaries {
    /// The node.
    pub(crate) atoll: PathBuf,
    /// Where nodes meet.
    pub(crate) bootstrap: PathBuf,
}

impl Binaries {
    /// Those of the folder that `ATOLL_BINARIES` names, or those beside this program, built
    /// first if they are missing or older than their sources.
    pub(crate) fn find(keeper: &Arc<Keeper>, interrupt: &Interrupt) -> Result<Self, UpError> {
        if let Some(folder) = std::env::var_os(VARIABLE) {
            let binaries = Self::of(Path::new(&folder));
            return binaries.found().map_err(|missing| UpError::Binaries {
                what: format!("{VARIABLE}: there is no {}", missing.display()),
                hint: format!("unset {VARIABLE} to have them built"),
            });
        }
        let place = Place::of(&std::env::current_exe()?);
        let binaries = Self::of(&place.folder);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let has_sources = sources.join("Cargo.toml").is_file();
        if has_sources && binaries.is_stale(&sources) {
            build(&sources, place.target.as_deref(), keeper, interrupt)?;
        }
        binaries.found().map_err(|missing| UpError::Binaries {
            what: format!("there is no {}", missing.display()),
            hint: format!("put it there, or name its folder in {VARIABLE}"),
        })
    }

    /// The folder that they are in.
    pub(crate) fn folder(&self) -> PathBuf {
        self.atoll.parent().unwrap_or(Path::new(".")).to_owned()
    }

    fn of(folder: &Path) -> Self {
        let program = |name: &str| folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        Self { atoll: program("atoll"), bootstrap: program("atoll-bootstrap") }
    }

    /// Itself if both are there, or the path of the one that is not.
    fn found(self) -> Result<Self, PathBuf> {
        let missing = [&self.atoll, &self.bootstrap].into_iter().find(|path| !path.is_file());
        match missing.cloned() {
            Some(missing) => Err(missing),
            None => Ok(self),
        }
    }

    /// Whether something is missing or older than what it is made from.
    fn is_stale(&self, sources: &Path) -> bool {
        let built = [&self.atoll, &self.bootstrap].map(|path| modified(path));
        let oldest = match built {
            [Some(one), Some(other)] => one.min(other),
            _ => return true,
        };
        let files = ["Cargo.toml", "Cargo.lock"].map(|name| modified(&sources.join(name)));
        let folders = PACKAGES.map(|name| newest(&sources.join(name)));
        files.into_iter().chain(folders).flatten().any(|time| time > oldest)
    }
}

/// Where cargo puts programs.
struct Place {
    folder: PathBuf,
    /// The target folder, if this program is in one.
    target: Option<PathBuf>,
}

impl Place {
    /// Beside this program; nodes are always built for speed, whatever this program is.
    fn of(program: &Path) -> Self {
        let folder = program.parent().unwrap_or(Path::new("."));
        // Tests are one level below.
        let folder =
            if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
        if folder.ends_with("debug") || folder.ends_with("release") {
            let target = folder.parent().unwrap_or(Path::new("."));
            return Self { folder: target.join("release"), target: Some(target.to_owned()) };
        }
        Self { folder: folder.to_owned(), target: None }
    }
}

fn build(
    sources: &Path,
    target: Option<&Path>,
    keeper: &Arc<Keeper>,
    interrupt: &Interrupt,
) -> Result<(), UpError> {
    eprintln!("building the node and the bootstrap; the first time takes a few minutes");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // No package is named: with the features of the whole workspace, as this program was built,
    // nothing is compiled twice.
    command.args(["build", "--release", "--bin", "atoll", "--bin", "atoll-bootstrap"]);
    // Cargo told this program about its package; some build scripts look at that, and would begin
    // anew.
    for (name, _) in std::env::vars_os() {
        let about = name.to_string_lossy();
        if about.starts_with("CARGO_PKG_") || about.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    if let Some(target) = target {
        command.arg("--target-dir").arg(target);
    }
    // Standard output is for what the swarm did.
    command.current_dir(sources).stdout(std::io::stderr());
    let mut cargo = Process::start(command, "cargo build", None, Output::Log, keeper)?;
    while !cargo.wait(Duration::from_millis(100)) {
        interrupt.check()?;
    }
    match cargo.ended() {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(UpError::Binaries {
            what: format!("the node cannot be built: cargo {}", describe(status)),
            hint: "the lines above say why".into(),
        }),
        None => Ok(()),
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|about| about.modified()).ok()
}

/// When the newest source below `folder` was written.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(folder).ok()?;
    let times = entries.flatten().map(|entry| entry.path()).map(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match path.is_dir() {
            true if NO_SOURCES.contains(&name) => None,
            true => newest(&path),
            false if name.ends_with(".rs") || name == "Cargo.toml" => modified(&path),
            false => None,
        }
    });
    times.flatten().max()
}

/// Names a folder with both programs, for tests of builds from elsewhere.
pub(crate) const VARIABLE: &str = "ATOLL_BINARIES";
/// What both programs are made from.
const PACKAGES: [&str; 3] = ["protocol", "node", "bootstrap"];
const NO_SOURCES: [&str; 6] = ["target", "tests", "fuzz", "benches", "examples", "compare"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_built_when_a_source_is_newer() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let binaries = Binaries::of(&root.join("release"));
        let write = |path: &str, seconds: u64| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        write("node/src/deep/main.rs", 10);
        assert!(binaries.is_stale(root), "they are missing");
        write("release/atoll", 20);
        write("release/atoll-bootstrap", 20);
        assert!(!binaries.is_stale(root));
        write("node/tests/cli.rs", 30);
        write("node/README.md", 30);
        assert!(!binaries.is_stale(root), "those are no sources");
        write("protocol/src/id.rs", 30);
        assert!(binaries.is_stale(root));
        assert_eq!(binaries.clone().found(), Ok(binaries));
    }

    #[test]
    fn nodes_are_built_for_speed() {
        let place = Place::of(Path::new("/x/target/debug/deps/atoll_testnet-1"));
        assert_eq!(place.folder, Path::new("/x/target/release"));
        let place = Place::of(Path::new("/usr/bin/atoll-testnet"));
        assert_eq!((place.folder.as_path(), place.target), (Path::new("/usr/bin"), None));
    }
}
