//! The way into a network of one's own.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::tools;

/// What a network must be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wants {
    /// Packets are held back or lost.
    pub(crate) holder: bool,
}

/// Whether this process is in a network of its own already.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Begins this program again in a network of its own, with the same words and these variables.
/// Returns only if that cannot be, and says why.
pub(crate) fn enter(wants: Wants, variables: &[(&str, &Path)]) -> Result<Infallible, String> {
    let way = way(wants)?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut command = Command::new("unshare");
    command.args(way).arg("--").arg(program).args(words).env(INSIDE, "1");
    command.envs(variables.iter().copied());
    Err(format!("unshare: {}", command.exec()))
}

/// The options of `unshare` with which everything that is wanted works here.
fn way(wants: Wants) -> Result<&'static [&'static str], String> {
    let script = match wants.holder {
        true => format!("{CABLES} && {{ {NETEM} || {QUEUE}; }}"),
        false => CABLES.to_owned(),
    };
    // Root needs nothing more; everybody else is root in a user namespace, where there are any.
    let mut why = String::new();
    for way in [&["--net"][..], &["--user", "--map-root-user", "--net"][..]] {
        let mut words = vec!["unshare"];
        words.extend(way);
        words.extend(["--", "sh", "-c", &script]);
        match tools::run_words(&words) {
            Ok(()) => return Ok(way),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Set in a process that is in a network of its own.
const INSIDE: &str = "ATOLL_TESTNET_INSIDE";
/// What every network is made with.
const CABLES: &str = "ip link add hub type bridge && ip link add one type veth peer name other && \
                      tc qdisc add dev one root tbf rate 1mbit burst 16kb latency 50ms";
/// What holds packets back: the kernel itself, or we do.
const NETEM: &str = "tc qdisc add dev other root netem delay 1ms 2>/dev/null";
const QUEUE: &str = "iptables -w -t mangle -A INPUT -j NFQUEUE --queue-num 0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_cannot_says_why() {
        // Whether this machine can is not for a test to say; that the answer is one of two is.
        match way(Wants { holder: true }) {
            Ok(way) => assert!(way.contains(&"--net")),
            Err(why) => assert!(!why.is_empty()),
        }
        assert!(!is_inside());
    }
}
