//! A process that takes a lab down, also when the tests' process was killed.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::patience::wait_for;

/// Waits until its input ends, which is when it is told to or this process is gone, and then
/// removes every namespace with the prefix, every process in them and the lab's disks.
pub(super) struct Cleaner {
    child: Child,
}

impl Cleaner {
    /// A cleaner for namespaces whose names begin with `prefix` and a dash.
    pub(super) fn start(prefix: &str) -> Self {
        assert!(prefix.starts_with(SCHEME), "{prefix} is not a lab's");
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "cleaner", prefix])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends the tests' process group must not end the cleaner.
            .process_group(0)
            .spawn()
            .unwrap();
        Self { child }
    }

    /// Cleans up now.
    pub(super) fn finish(&mut self) {
        drop(self.child.stdin.take());
        let mut ended = || match self.child.try_wait() {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("it is still busy".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        // A second panic would hide the first, so a cleaner that hangs is left to itself.
        if std::thread::panicking() {
            for _ in 0..500 {
                if ended().is_ok() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        } else {
            wait_for("the cleaner to end", Duration::from_secs(60), ended);
        }
    }
}

/// Takes down what labs of processes that no longer live have left, should their cleaners have
/// been killed too.
pub(super) fn clean_up_after_the_dead() {
    let Ok(entries) = std::fs::read_dir(NAMESPACES) else { return };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let dead: BTreeSet<u32> =
        names.filter_map(|name| process_of(&name)).filter(|id| !is_alive(*id)).collect();
    for id in dead {
        Cleaner::start(&format!("{SCHEME}{id}")).finish();
    }
}

/// Whether there is a process of that id.
pub(super) fn is_alive(id: u32) -> bool {
    Path::new("/proc").join(id.to_string()).exists()
}

/// The process whose lab a namespace belongs to.
fn process_of(name: &str) -> Option<u32> {
    name.strip_prefix(SCHEME)?.split_once('-')?.0.parse().ok()
}

/// What the names of all labs' namespaces begin with; the process' id follows.
pub(super) const SCHEME: &str = "atl";
const NAMESPACES: &str = "/run/netns";
const SCRIPT: &str = r#"
trap '' HUP INT TERM
cat > /dev/null
# Disks of nodes are mounted below the folder of a lab, whose name ends like the prefix.
while read -r _ place kind _; do
    case "$kind:$place" in
        tmpfs:*/lab/*-"${1#atl}"/* | tmpfs:*/lab/*-"${1#atl}"-*/*) umount -l "$place" ;;
    esac
done < /proc/mounts
for turn in 1 2 3 4 5 6 7 8 9 10; do
    left=0
    for file in /run/netns/"$1"-*; do
        [ -e "$file" ] || continue
        name=${file##*/}
        pids=$(timeout 10 ip netns pids "$name")
        if [ -n "$pids" ]; then
            kill -9 $pids
            left=1
        else
            timeout 10 ip netns delete "$name"
        fi
    done
    [ $left = 0 ] && exit 0
    sleep 0.1
done
# What cannot be killed keeps its namespace, but not the name.
for file in /run/netns/"$1"-*; do
    [ -e "$file" ] && timeout 10 ip netns delete "${file##*/}"
done
"#;
