//! The command line of `atoll-bootstrap`, as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

#[test]
fn help_says_what_it_is() {
    let output = run(&mut bootstrap(Path::new("/nowhere"), &["--help"]));
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["first peers", "--listen", "ATOLL_BOOTSTRAP_LISTEN", "--relay-bytes", "4294967296"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bootstrap.toml");
    fs::write(
        &file,
        "max_connections = 5\nrelay_max_circuits = 6\nrelay_bytes = 7\nannounce_private = false\n\
         listen = [\"/ip4/127.0.0.1/tcp/1\", \"/ip4/127.0.0.1/tcp/2\"]\n",
    )
    .unwrap();
    let mut command = bootstrap(folder.path(), &["--print-config", "--max-connections", "9"]);
    command.arg("--config").arg(&file);
    command
        .env("ATOLL_BOOTSTRAP_MAX_CONNECTIONS", "8")
        .env("ATOLL_BOOTSTRAP_RELAY_MAX_CIRCUITS", "8");
    let output = run(&mut command);
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    for line in [
        "max_connections = 9",
        "relay_max_circuits = 8",
        "relay_bytes = 7",
        "announce_private = false",
        "listen = [\"/ip4/127.0.0.1/tcp/1\", \"/ip4/127.0.0.1/tcp/2\"]",
        "http = \"127.0.0.1:4002\"",
        "log = \"human\"",
        "atoll/bootstrap.key",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    // What it prints is such a file.
    fs::write(&file, &printed).unwrap();
    let mut command = bootstrap(folder.path(), &["--print-config", "--config"]);
    assert_eq!(String::from_utf8(run(command.arg(&file)).stdout).unwrap(), printed);
}

#[test]
fn bad_input_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let unknown = write("unknown.toml", "max_conections = 5\n");
    let own = write("own.toml", "print_config = true\n");
    let wrong = write("wrong.toml", "listen = \"4001\"\n");
    let broken = write("broken.toml", "listen = [\n");
    let short = write("short.key", "abcd\n");
    let open = write("open.key", &"ab".repeat(32));
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let taken_tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = format!("/ip4/127.0.0.1/tcp/{}", taken_tcp.local_addr().unwrap().port());
    let udp = format!("/ip4/127.0.0.1/udp/{}/quic-v1", taken_udp.local_addr().unwrap().port());
    let http = taken_tcp.local_addr().unwrap().to_string();
    let cases: [(&[&str], &str, &str); 15] = [
        (&["--listen", &tcp], &tcp, "hint: is another server"),
        (&["--listen", &udp], &udp, "hint: is another server"),
        (&["--http", &http], &http, "hint: is another server"),
        (&["--listen", "/dns4/localhost/tcp/0"], "/dns4/localhost", "hint:"),
        (&["--listen", "/ip4/203.0.113.1/tcp/0"], "/ip4/203.0.113.1", "hint:"),
        (&["--listen", "0.0.0.0:4001"], "0.0.0.0:4001", "hint: write it like"),
        (&["--external", "/ip4/1.2.3.4"], "/ip4/1.2.3.4", "hint: write it like"),
        (&["--config", &unknown], "\"max_conections\"", "hint: `atoll-bootstrap --print-config`"),
        (&["--config", &own], "\"print_config\"", "hint: `atoll-bootstrap --print-config`"),
        (&["--config", &wrong], "'4001'", "hint: write it like"),
        (&["--config", &broken], "broken.toml", "hint: `atoll-bootstrap --print-config`"),
        (&["--config", "/nowhere/at/all"], "/nowhere/at/all", "hint: `atoll-bootstrap"),
        (&["--key", &short], "short.key: not a key of 64 hex", "hint: name a file"),
        (&["--key", &open], "open.key: other users may read it", "hint: name a file"),
        (&["--key", "/dev/null/key"], "/dev/null/key", "hint: name a file"),
    ];
    for (arguments, message, hint) in cases {
        let output = run(&mut bootstrap(folder.path(), arguments));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}\n{text}");
        assert!(text.contains("error: "), "{text}");
        assert!(text.contains(message) && text.contains(hint), "{arguments:?}\n{text}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    for arguments in [["--max-connections", "0"], ["--log", "loud"], ["serve", "now"]] {
        assert_eq!(run(&mut bootstrap(folder.path(), &arguments)).status.code(), Some(2));
    }
}

#[test]
fn it_prints_its_addresses_keeps_its_key_and_stops_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for signal in ["-TERM", "-INT"] {
        let listen = "/ip4/127.0.0.1/tcp/0,/ip4/127.0.0.1/udp/0/quic-v1";
        let arguments = ["--listen", listen, "--log", "json", "--external", "/ip4/1.2.3.4/tcp/9"];
        let mut command = bootstrap(folder.path(), &arguments);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let addresses: Vec<String> = (0..3).map(|_| lines.next().unwrap().unwrap()).collect();
        let asked = Instant::now();
        let killed = Command::new("kill").arg(signal).arg(server.id().to_string()).status();
        assert!(killed.unwrap().success());
        assert!(server.wait().unwrap().success());
        assert!(asked.elapsed() < Duration::from_secs(30));
        let mut log = String::new();
        server.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(log.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{log}");
        let peer = addresses[0].strip_prefix("/ip4/1.2.3.4/tcp/9/p2p/").unwrap().to_owned();
        assert!(addresses.iter().all(|address| address.ends_with(&peer)), "{addresses:?}");
        seen.push(peer);
    }
    assert_eq!(seen[0], seen[1]);
    let key = fs::metadata(folder.path().join("data/atoll/bootstrap.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    assert_eq!(key.len(), 65);
}

/// On ports that are free unless others are named, with its key below `folder`.
fn bootstrap(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll-bootstrap"));
    command.env("XDG_DATA_HOME", folder.join("data")).args(arguments);
    let names = |flag| arguments.contains(&flag) || arguments.contains(&"--print-config");
    if !names("--http") {
        command.env("ATOLL_BOOTSTRAP_HTTP", "127.0.0.1:0");
    }
    if !names("--listen") && !names("--config") {
        command.env("ATOLL_BOOTSTRAP_LISTEN", "/ip4/127.0.0.1/tcp/0");
    }
    command
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}
