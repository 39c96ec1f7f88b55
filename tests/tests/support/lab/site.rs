//! What a lab's parts share: names, files and the processes to end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::{fs, mem};

use super::cleaner::is_alive;
use super::process::Running;
use super::shell::{run, try_write, write};

/// What a lab's parts share.
pub(super) struct Site {
    /// What the names of its namespaces begin with.
    pub(super) prefix: String,
    /// Where logs and homes are.
    pub(super) folder: PathBuf,
    processes: Mutex<Vec<Arc<Running>>>,
    files: AtomicU32,
}

impl Site {
    pub(super) fn new(name: &str, prefix: String) -> Self {
        let labs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab");
        remove_folders_of_the_dead(&labs, name);
        let folder = labs.join(format!("{name}-{}", &prefix[super::cleaner::SCHEME.len()..]));
        fs::create_dir_all(&folder).unwrap();
        Self { prefix, folder, processes: Mutex::default(), files: AtomicU32::new(0) }
    }

    /// The namespace that a host's name stands for.
    pub(super) fn namespace(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// A new namespace with its own loopback device.
    pub(super) fn add_namespace(&self, name: &str) -> String {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        assert!(plain && !name.is_empty(), "{name:?} is no name for a host");
        let namespace = self.namespace(name);
        run(&format!("ip netns add {namespace}"));
        // Nobody has the same address, and looking for one delays the first packet by a second.
        write(&namespace, "/proc/sys/net/ipv6/conf/default/accept_dad", "0");
        run(&format!("ip -n {namespace} link set lo up"));
        namespace
    }

    /// The two files that a new process writes to.
    pub(super) fn log_files(&self, title: &str) -> (PathBuf, PathBuf) {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let file = |kind| self.folder.join(format!("{number:03}-{title}.{kind}"));
        (file("out"), file("err"))
    }

    /// Remembers a process, to end it with the lab and to show its log if the test fails.
    pub(super) fn remember(&self, process: Arc<Running>) {
        self.processes.lock().unwrap().push(process);
    }

    /// Ends all processes, and says which of them have panicked.
    pub(super) fn kill_all(&self) -> Vec<String> {
        let processes = mem::take(&mut *self.processes.lock().unwrap());
        processes.iter().for_each(|process| process.kill());
        processes.iter().flat_map(|process| process.panics()).collect()
    }

    pub(super) fn print_tails(&self) {
        for process in self.processes.lock().unwrap().iter() {
            process.print_tails();
        }
    }

    pub(super) fn remove_folder(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Makes a cable's end show every packet as it would be on a wire.
///
/// Otherwise up to 64 KiB cross as one packet, and their headers would be counted once.
pub(super) fn prepare_cable(namespace: &str, device: &str) {
    run(&format!("ip -n {namespace} link set dev {device} gso_max_segs 1"));
}

/// Whether packets that the hub passes on go through its iptables.
pub(super) fn heed_rules(hub: &str, heed: bool) {
    for table in ["iptables", "ip6tables"] {
        let setting = format!("/proc/sys/net/bridge/bridge-nf-call-{table}");
        let written = try_write(hub, &setting, if heed { "1" } else { "0" });
        // A kernel without it never looks at the rules.
        assert!(!heed || written.is_ok(), "{written:?}");
    }
}

/// The files of a test that failed are kept until the same test runs again.
fn remove_folders_of_the_dead(labs: &Path, name: &str) {
    let Ok(entries) = fs::read_dir(labs) else { return };
    for entry in entries.flatten() {
        let file = entry.file_name();
        let rest = file.to_str().and_then(|it| it.strip_prefix(name)?.strip_prefix('-'));
        let process = rest.and_then(|rest| rest.split_once('-')?.0.parse().ok());
        if process.is_some_and(|id| !is_alive(id)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
