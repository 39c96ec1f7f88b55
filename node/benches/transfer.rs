//! What a fetch costs: a content from one process to another over loopback, verified and written
//! to a file, against plain TCP between two processes (and iperf3, where it is installed).
//!
//! `cargo bench -p atoll-node --bench transfer -- [MiB] [quic|tcp] [RATE]`; with a rate, such as
//! `100mbit`, over a cable of that rate between two network namespaces, which takes root.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use atoll_node::net::{Contents, Incoming, NetConfig, NetEvent, NetHandle, Notice, Stored, start};
use atoll_protocol::crypto::{Key, Outline};
use atoll_protocol::fetch::FetchOutcome;
use atoll_protocol::id::{ContentId, RunId};
use atoll_protocol::limits::CONTENT_CHUNK_BYTES;
use tokio::sync::mpsc;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    let mebibytes = arguments.first().and_then(|it| it.parse().ok()).unwrap_or(256);
    let transport = arguments.get(1).cloned().unwrap_or_else(|| "quic".into());
    match std::env::var(ROLE).as_deref() {
        Ok("serve") => serve(mebibytes, &transport),
        Ok("pour") => pour(mebibytes),
        Ok(_) => race(mebibytes, &transport),
        Err(_) => match arguments.get(2) {
            Some(rate) => Cable::new(rate).race(&arguments),
            None => race(mebibytes, &transport),
        },
    }
}

#[expect(clippy::print_stdout, reason = "the figures are for whoever ran it")]
fn race(mebibytes: usize, transport: &str) {
    let mut lines = Vec::new();
    for round in 0..ROUNDS {
        // Side by side, so that both see the same machine.
        let fetched = fetch(mebibytes, transport);
        let plain = plain(mebibytes);
        let iperf = iperf();
        let shown = iperf.map_or("-".into(), |rate| format!("{rate:.0} ({:.2})", fetched / rate));
        println!(
            "round {round}: {transport} {fetched:.0} MB/s, plain TCP {plain:.0} MB/s ({:.2}), iperf3 {shown}",
            fetched / plain
        );
        lines.push((fetched, plain, iperf));
    }
    lines.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (fetched, plain, iperf) = lines[ROUNDS / 2];
    let ratio = iperf.map_or("-".into(), |rate| format!("{:.2}", fetched / rate));
    println!(
        "{transport}, {mebibytes} MiB, median: {fetched:.0} MB/s, {:.2} of plain TCP, {ratio} of iperf3",
        fetched / plain
    );
}

/// Starts this program again in another role; what it says on its first line.
fn other(role: &str, mebibytes: usize, transport: &str) -> (Child, String) {
    let program = std::env::current_exe().expect("this program");
    let mut child = over_there(program.to_str().expect("a plain path"))
        .args([mebibytes.to_string(), transport.to_owned()])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    (child, line.trim().to_owned())
}

/// A program at the other end of the cable, if there is one.
fn over_there(program: &str) -> Command {
    let Ok(far) = std::env::var(FAR) else { return Command::new(program) };
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &far, program]);
    command
}

/// The address of the other end.
fn address() -> String {
    std::env::var(ADDRESS).unwrap_or_else(|_| "127.0.0.1".into())
}

/// Two network namespaces and a cable between them, gone with it.
struct Cable {
    near: String,
    far: String,
}

impl Cable {
    fn new(rate: &str) -> Self {
        let name = |side| format!("atoll-transfer-{}-{side}", std::process::id());
        let cable = Self { near: name("near"), far: name("far") };
        let Self { near, far } = &cable;
        for line in [
            format!("netns add {near}"),
            format!("netns add {far}"),
            format!("link add cable netns {near} type veth peer name cable netns {far}"),
        ] {
            run("ip", &line);
        }
        for (side, address) in [(near, NEAR_END), (far, FAR_END)] {
            for line in [
                format!("-n {side} link set lo up"),
                format!("-n {side} address add {address}/30 dev cable"),
                // As on a wire: no packet of many packets.
                format!("-n {side} link set cable gso_max_segs 1 up"),
            ] {
                run("ip", &line);
            }
            let shape = format!("-n {side} qdisc add dev cable root tbf");
            run("tc", &format!("{shape} rate {rate} burst 256kb latency 50ms"));
        }
        cable
    }

    /// Runs this program at the near end.
    fn race(&self, arguments: &[String]) {
        let program = std::env::current_exe().expect("this program");
        let ended = Command::new("ip")
            .args(["netns", "exec", &self.near])
            .arg(program)
            .args(arguments)
            .env(ROLE, "race")
            .env(FAR, &self.far)
            .env(ADDRESS, FAR_END)
            .status();
        assert!(ended.expect("it was started").success(), "the race failed");
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for side in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "delete", side]).status();
        }
    }
}

fn run(program: &str, line: &str) {
    let done = Command::new(program).args(line.split(' ')).status();
    assert!(done.is_ok_and(|status| status.success()), "{program} {line}: it takes root");
}

/// Ends a second process that waits for the end of its input.
fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().expect("it ends");
}

/// MB/s of a fetch.
fn fetch(mebibytes: usize, transport: &str) -> f64 {
    let (child, address) = other("serve", mebibytes, transport);
    let folder = tempfile::tempdir().expect("a folder");
    let (content, _) = content(mebibytes);
    let folder_path = folder.path().to_owned();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let rate = runtime.block_on(async move {
        let (net, mut events) = net(2, transport, vec![address], &folder_path);
        let holder = Key::from_secret([1; 32]).node();
        while events.recv().await != Some(NetEvent::PeerUp(holder)) {}
        let began = Instant::now();
        net.fetch(content, holder, Vec::new(), u64::from(u32::MAX));
        loop {
            if let Some(NetEvent::Fetched { outcome, .. }) = events.recv().await {
                assert_eq!(outcome, FetchOutcome::Stored);
                break;
            }
        }
        let rate = (mebibytes << 20) as f64 / 1e6 / began.elapsed().as_secs_f64();
        net.leave().await;
        rate
    });
    end(child);
    rate
}

#[expect(clippy::print_stdout, reason = "the first line is the address")]
fn serve(mebibytes: usize, transport: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let (content, bytes) = content(mebibytes);
    std::fs::write(folder.path().join(content.to_hex()), bytes).expect("a written file");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _net = runtime.block_on(async {
        let (net, mut events) = net(1, transport, Vec::new(), folder.path());
        loop {
            if let Some(NetEvent::Notice(Notice::Listening(address))) = events.recv().await {
                println!("{address}/p2p/{}", net.status().peer);
                break;
            }
        }
        (net, tokio::spawn(async move { while events.recv().await.is_some() {} }))
    });
    // Until the other process ends it.
    io::stdin().read_to_end(&mut Vec::new()).expect("the end");
}

fn net(
    secret: u8,
    transport: &str,
    peers: Vec<String>,
    folder: &Path,
) -> (NetHandle, mpsc::Receiver<NetEvent>) {
    let listen = match transport {
        "tcp" => format!("/ip4/{}/tcp/0", address()),
        _ => format!("/ip4/{}/udp/0/quic-v1", address()),
    };
    let config = NetConfig {
        key: Key::from_secret([secret; 32]),
        run: RunId([1; 32]),
        genesis: Vec::new().into(),
        listen: if peers.is_empty() { vec![listen] } else { Vec::new() },
        external: Vec::new(),
        bootstrap: Vec::new(),
        peers,
        visits: false,
        mdns: false,
        upnp: false,
        max_upload: None,
        max_download: None,
        upload_slots: 4,
        clock: std::time::SystemTime::now,
    };
    start(config, Arc::new(Folder(folder.to_owned()))).expect("a network")
}

/// MB/s of a plain TCP connection between two processes.
fn plain(mebibytes: usize) -> f64 {
    let (child, address) = other("pour", mebibytes, "plain");
    let mut stream = TcpStream::connect(address).expect("a connection");
    let began = Instant::now();
    let mut buffer = vec![0; 128 * 1024];
    let mut count = 0;
    while count < mebibytes << 20 {
        count += stream.read(&mut buffer).expect("bytes");
    }
    let rate = (mebibytes << 20) as f64 / 1e6 / began.elapsed().as_secs_f64();
    end(child);
    rate
}

#[expect(clippy::print_stdout, reason = "the first line is the address")]
fn pour(mebibytes: usize) {
    let listener = TcpListener::bind((address(), 0)).expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    let (mut stream, _) = listener.accept().expect("a connection");
    let buffer = vec![7; 128 * 1024];
    for _ in 0..(mebibytes << 20) / buffer.len() {
        stream.write_all(&buffer).expect("it is read");
    }
    io::stdin().read_to_end(&mut Vec::new()).expect("the end");
}

/// MB/s that iperf3 gets over loopback, if it is installed.
fn iperf() -> Option<f64> {
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port().to_string();
    let mut server =
        over_there("iperf3").args(["-s", "-1", "-p", &port]).stdout(Stdio::null()).spawn().ok()?;
    let rate = (0..50).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let output = Command::new("iperf3")
            .args(["-c", &address(), "-p", &port, "-t", "4", "-O", "1", "-J"])
            .output()
            .ok()?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        report.pointer("/end/sum_received/bits_per_second")?.as_f64()
    });
    // It ended with its only client, or never had one.
    let _ = server.kill();
    let _ = server.wait();
    rate.map(|bits| bits / 8e6)
}

/// The content that is fetched.
fn content(mebibytes: usize) -> (ContentId, Vec<u8>) {
    let mut bytes = vec![0; mebibytes << 20];
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    (atoll_protocol::crypto::content_id(&bytes), bytes)
}

/// Contents as files of a folder.
struct Folder(PathBuf);

impl Contents for Folder {
    fn open(&self, content: &ContentId) -> Option<Arc<dyn Stored>> {
        Some(Arc::new(Part(File::open(self.0.join(content.to_hex())).ok()?)))
    }

    fn receive(&self, content: &ContentId) -> io::Result<Box<dyn Incoming>> {
        let path = self.0.join(content.to_hex());
        let file = File::create(path.with_extension("part"))?;
        Ok(Box::new(Coming { file, path, outline: None }))
    }
}

struct Part(File);

impl Stored for Part {
    fn bytes(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, offset)
    }
}

struct Coming {
    file: File,
    path: PathBuf,
    outline: Option<Outline>,
}

impl Incoming for Coming {
    fn outline(&self) -> Option<Outline> {
        self.outline.clone()
    }

    fn begin(&mut self, outline: &Outline) -> io::Result<()> {
        self.file.set_len(outline.bytes())?;
        self.outline = Some(outline.clone());
        Ok(())
    }

    fn has(&self, _: u32) -> bool {
        false
    }

    fn write(&mut self, chunk: u32, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, u64::from(chunk) * CONTENT_CHUNK_BYTES as u64)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        std::fs::rename(self.path.with_extension("part"), &self.path)
    }
}

/// The variable that tells a second process what to do.
const ROLE: &str = "TRANSFER_ROLE";
/// The namespace at the other end of the cable, and the address there.
const FAR: &str = "TRANSFER_FAR";
const ADDRESS: &str = "TRANSFER_ADDRESS";
const NEAR_END: &str = "10.77.0.1";
const FAR_END: &str = "10.77.0.2";
const ROUNDS: usize = 5;
