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
    static ATOLL: OnceLock<PathBuf> = OnceLock::new();
    static BOOTSTRAP: OnceLock<PathBuf> = OnceLock::new();
    let (package, sources, built) = match name {
        "atoll" => ("atoll-node", NODE_SOURCES, &ATOLL),
        "atoll-bootstrap" => ("atoll-bootstrap", BOOTSTRAP_SOURCES, &BOOTSTRAP),
        name => panic!("no program is called {name}"),
    };
    built.get_or_init(|| build(package, name, sources)).clone()
}

fn build(package: &str, program: &str, sources: &[&str]) -> PathBuf {
    let tests = env::current_exe().unwrap();
    // Test programs are in `<target>/<profile>/deps`.
    let built = tests.ancestors().nth(2).unwrap();
    let profile = match built.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        profile => profile,
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    if !is_fresh(&built.join(program), root, sources) {
        run_cargo(package, program, profile, built.parent().unwrap(), root);
    }
    let links = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    remove_links_of_the_dead(&links);
    let folder = links.join(std::process::id().to_string());
    fs::create_dir_all(&folder).unwrap();
    let (from, to) = (built.join(program), folder.join(program));
    fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop)).unwrap();
    to
}

/// `cargo test --workspace` has built it already, and to build it alone, with other features of
/// what it depends on, would take minutes.
fn is_fresh(program: &Path, root: &Path, sources: &[&str]) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
    let Some(built) = modified(program) else { return false };
    let mut folders: Vec<PathBuf> = sources.iter().map(|name| root.join(name)).collect();
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            folders.extend(fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
        } else if modified(&path).is_none_or(|changed| changed > built) {
            return false;
        }
    }
    true
}

fn run_cargo(package: &str, program: &str, profile: &str, target: &Path, root: &Path) {
    let status = Command::new("timeout")
        .args(["-k", "5", BUILD_SECONDS_MAX])
        .arg(env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()))
        .args(["build", "--quiet", "-p", package, "--bin", program, "--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .current_dir(root)
        .status()
        .unwrap();
    assert!(status.success(), "{program} could not be built: {status}");
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
/// What the programs are made of.
const NODE_SOURCES: &[&str] = &["node/src", "node/kernels/src", "protocol/src", "Cargo.lock"];
const BOOTSTRAP_SOURCES: &[&str] = &["bootstrap/src", "protocol/src", "Cargo.lock"];
