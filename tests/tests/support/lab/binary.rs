//! The workspace's programs, built as the tests were.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use super::cleaner::is_alive;

/// A program of the workspace, built once for each process of tests.
///
/// It is a link of this process' own, so that a build that goes on beside the tests cannot
/// exchange the program between two starts.
pub(crate) fn binary(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    assert!(PROGRAMS.contains(&name), "no program is called {name}");
    FOLDER.get_or_init(build).join(name)
}

fn build() -> PathBuf {
    let tests = env::current_exe().unwrap();
    // Test programs are in `<target>/<profile>/deps`.
    let built = tests.ancestors().nth(2).unwrap();
    let profile = match built.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        profile => profile,
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    if !PROGRAMS.iter().all(|program| is_fresh(&built.join(program), root)) {
        run_cargo(profile, built.parent().unwrap(), root);
    }
    let links = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    remove_links_of_the_dead(&links);
    let folder = links.join(std::process::id().to_string());
    fs::create_dir_all(&folder).unwrap();
    for program in PROGRAMS {
        let (from, to) = (built.join(program), folder.join(program));
        fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop)).unwrap();
    }
    folder
}

/// `cargo test --workspace` has built it already.
fn is_fresh(program: &Path, root: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
    let Some(built) = modified(program) else { return false };
    let mut folders: Vec<PathBuf> = SOURCES.iter().map(|name| root.join(name)).collect();
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            folders.extend(fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
        } else if modified(&path).is_none_or(|changed| changed > built) {
            return false;
        }
    }
    true
}

/// Builds with the features of the whole workspace, as the tests were: nothing is compiled twice.
fn run_cargo(profile: &str, target: &Path, root: &Path) {
    let mut command = Command::new("timeout");
    command
        .args(["-k", "5", BUILD_SECONDS_MAX])
        .arg(env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()))
        .args(["build", "--quiet", "--profile", profile])
        .args(PROGRAMS.iter().flat_map(|program| ["--bin", program]))
        .arg("--target-dir")
        .arg(target)
        .current_dir(root);
    // Cargo told the tests about their package; some build scripts look at that.
    for (name, _) in env::vars_os() {
        let about = name.to_string_lossy();
        if about.starts_with("CARGO_PKG_") || about.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    let status = command.status().unwrap();
    assert!(status.success(), "the programs could not be built: {status}");
}

fn remove_links_of_the_dead(links: &Path) {
    let Ok(entries) = fs::read_dir(links) else { return };
    for entry in entries.flatten() {
        let process = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if process.is_some_and(|id| !is_alive(id)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// From nothing, on two cores.
const BUILD_SECONDS_MAX: &str = "1800";
/// The programs that labs run.
const PROGRAMS: [&str; 2] = ["atoll", "atoll-bootstrap"];
/// What they are made of.
const SOURCES: [&str; 5] =
    ["node/src", "node/kernels/src", "bootstrap/src", "protocol/src", "Cargo.lock"];
