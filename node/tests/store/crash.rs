//! A process that is killed at any instant loses nothing that was acknowledged.

use std::env;
use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use atoll_node::store::{Store, StoreError};
use atoll_protocol::crypto::content_id;
use atoll_protocol::engine::Record;
use atoll_protocol::id::FragmentId;
use atoll_protocol::limits::CONTENT_CHUNK_BYTES;
use atoll_protocol::rng::Rng;
use tempfile::TempDir;

use crate::support::{closed, contribution, create, genesis, key, norms, own, scratch};

/// The payload of round `n`, of more than one page.
fn payload(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(2000 + n as usize % 7)
}

/// What arrives while round `n` goes on.
fn arriving(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(CONTENT_CHUNK_BYTES / 4 + 100)
}

/// What is persisted for round `n`, all in one.
fn batch(n: u32) -> [Record; 3] {
    let bytes = payload(n);
    [contribution(&key(1), 0, n, &bytes), contribution(&key(2), 0, n, &bytes), closed(0, n)]
}

/// The rounds that are still there after round `n`.
fn kept(n: u32) -> std::ops::RangeInclusive<u32> {
    n.saturating_sub(KEPT) + 1..=n
}

/// The child: works until it is killed, and says after each round that it is durable.
#[test]
fn child_of_the_crash_test() {
    let Some(folder) = env::var_os(CHILD) else { return };
    let store = Store::create(Path::new(&folder), &genesis()).unwrap();
    let records = store.records().unwrap();
    let rounds = records.iter().filter_map(Record::contribution_round);
    let first = rounds.map(|round| round.number).max().unwrap_or(0) + 1;
    let mut out = std::io::stdout();
    writeln!(out, "\n{STARTED} {}", store.begin().unwrap()).unwrap();
    for n in first.. {
        let id = store.put(&payload(n)).unwrap();
        store.measure(&id, &norms(1));
        store.persist(own(), &batch(n)).unwrap();
        writeln!(out, "{DURABLE} {n}").unwrap();
        let bytes = arriving(n);
        let mut incoming = store.incoming(&content_id(&bytes)).unwrap();
        incoming.begin(bytes.len() as u64, b"outline").unwrap();
        for (chunk, part) in (0..).zip(bytes.chunks(CONTENT_CHUNK_BYTES)) {
            incoming.write(chunk, part).unwrap();
        }
        incoming.finish().unwrap();
        store.put_base(content_id(&bytes), &bytes, FragmentId(0)).unwrap();
        let text = n.to_string().repeat(1000);
        let save = store.save_checkpoint(|path| {
            fs::write(path.join("one"), &text)?;
            fs::write(path.join("two"), &text)
        });
        save.unwrap();
        let through = n.saturating_sub(KEPT);
        let gone = [content_id(&payload(through)), content_id(&arriving(through))];
        store.prune(own(), FragmentId(0), through, through, &gone).unwrap();
    }
}

#[test]
fn fifty_kills_lose_nothing() {
    // On a real disk, where a write takes long enough to be cut off.
    let folder = TempDir::new().unwrap();
    let mut rng = Rng::new(50);
    let (mut durable, mut incarnation) = (0, 0);
    for kill in 0..50 {
        let mut child = spawn(folder.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let rounds = rng.below(3);
        let mut heard = 0;
        while heard <= rounds {
            let line = lines.next().unwrap().unwrap();
            if let Some(number) = line.strip_prefix(STARTED) {
                let number: u64 = number.trim().parse().unwrap();
                assert!(number > incarnation, "kill {kill}");
                incarnation = number;
                heard += 1;
            } else if let Some(number) = line.strip_prefix(DURABLE) {
                durable = number.trim().parse().unwrap();
                heard += 1;
            }
        }
        // Some way into whatever it does now.
        for step in 0..rng.below(40_000_000) {
            black_box(step);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            if let Some(number) = line.strip_prefix(DURABLE) {
                durable = number.trim().parse().unwrap();
            }
        }
        durable = check(folder.path(), durable, kill);
    }
    assert!(durable > 20, "{durable} rounds");
}

/// What a killed process left, which had acknowledged round `durable`; returns the last round.
fn check(folder: &Path, durable: u32, kill: u32) -> u32 {
    let store = match Store::open(folder) {
        // Killed before it had made the folder.
        Err(StoreError::NoRun { .. }) if durable == 0 => return 0,
        other => other.unwrap_or_else(|error| panic!("kill {kill}: {error}")),
    };
    let records = store.records().unwrap();
    let last = records.iter().filter_map(Record::contribution_round).map(|round| round.number);
    let last = last.max().unwrap_or(0);
    assert!(last == durable || last == durable + 1, "kill {kill}: {last} after {durable}");
    // The round before the last that was pruned may have gone or not.
    let whole = |through: u32| -> Vec<Record> { (through + 1..=last).flat_map(batch).collect() };
    let through = kept(last).start() - 1;
    assert!(
        records == whole(through) || records == whole(through.saturating_sub(1)),
        "kill {kill}: {} records up to round {last}",
        records.len()
    );
    assert!(store.missing().unwrap().is_empty(), "kill {kill}");
    for n in kept(last) {
        assert_eq!(store.content(&content_id(&payload(n))).unwrap().unwrap(), payload(n));
        assert_eq!(store.norms(&content_id(&payload(n))), Some(norms(1)));
    }
    let floor = store.signed_floor(FragmentId(0));
    assert!(floor == last || floor == last + 1, "kill {kill}: signed {floor}, written {last}");
    if last > 2 {
        let base = [last, last - 1].map(arriving).iter().any(|bytes| {
            store.base(&content_id(bytes)).unwrap().is_some_and(|found| found == *bytes)
        });
        assert!(base, "kill {kill}");
        let path = store.checkpoint().unwrap();
        let text = fs::read_to_string(path.join("one")).unwrap();
        assert_eq!(text, fs::read_to_string(path.join("two")).unwrap(), "kill {kill}");
        let whole = [last, last - 1].map(|n| n.to_string().repeat(1000));
        assert!(whole.contains(&text), "kill {kill}");
    }
    assert!(store.incidents().is_empty(), "kill {kill}");
    last
}

#[test]
fn a_folder_of_another_process_is_refused() {
    let folder = scratch();
    let mut child = spawn(folder.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().starts_with(STARTED) {}
    let error = Store::open(folder.path()).unwrap_err();
    let holder = child.id();
    assert!(
        matches!(error, StoreError::Locked { holder: Some(found), .. } if found == holder),
        "{error}"
    );
    assert!(matches!(Store::create(folder.path(), &genesis()), Err(StoreError::Locked { .. })));
    child.kill().unwrap();
    child.wait().unwrap();
    // Nothing has to be cleaned up: the lock went with the process.
    create(&folder);
}

fn spawn(folder: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "crash::child_of_the_crash_test", "--nocapture"])
        .env(CHILD, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Says where the child works.
const CHILD: &str = "ATOLL_TEST_STORE_CHILD";
const STARTED: &str = "started";
const DURABLE: &str = "durable";
/// Rounds that are kept.
const KEPT: u32 = 4;
