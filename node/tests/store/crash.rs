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

/// What a checkpoint says after round `n`.
fn checkpoint(n: u32) -> String {
    format!("{n},").repeat(1000)
}

/// The rounds that are there at least after round `n`.
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
        store.measure(&id, FragmentId(0), &norms(1));
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
        let text = checkpoint(n);
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
    let (mut seen, mut incarnation) = (Seen::default(), 0);
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
                seen.durable = number.trim().parse().unwrap();
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
                seen.durable = number.trim().parse().unwrap();
            }
        }
        check(folder.path(), &mut seen, kill);
    }
    assert!(seen.durable > 20 && seen.base > 0 && seen.checkpoint > 0, "{seen:?}");
}

/// How far a folder has come; it never goes back.
#[derive(Debug, Default)]
struct Seen {
    durable: u32,
    base: u32,
    checkpoint: u32,
}

/// Looks at what a killed process left, which had acknowledged `seen`.
fn check(folder: &Path, seen: &mut Seen, kill: u32) {
    let store = match Store::open(folder) {
        // Killed before it had made the folder.
        Err(StoreError::NoRun { .. }) if seen.durable == 0 => return,
        other => other.unwrap_or_else(|error| panic!("kill {kill}: {error}")),
    };
    let records = store.records().unwrap();
    let rounds = records.iter().filter_map(Record::contribution_round).map(|round| round.number);
    let (first, last) = (rounds.clone().min().unwrap_or(1), rounds.max().unwrap_or(0));
    let durable = seen.durable;
    assert!(last == durable || last == durable + 1, "kill {kill}: {last} after {durable}");
    assert!(first <= *kept(last).start(), "kill {kill}: {first} is the first up to {last}");
    let whole: Vec<Record> = (first..=last).flat_map(batch).collect();
    assert!(records == whole, "kill {kill}: {} records for {first} to {last}", records.len());
    assert!(store.missing().unwrap().is_empty(), "kill {kill}");
    for n in first..=last {
        assert_eq!(store.content(&content_id(&payload(n))).unwrap().unwrap(), payload(n));
        assert_eq!(store.norms(&content_id(&payload(n)), FragmentId(0)), Some(norms(1)));
    }
    let floor = store.signed_floor(FragmentId(0));
    assert!(floor == last || floor == last + 1, "kill {kill}: signed {floor}, written {last}");
    let is_base = |n: &u32| {
        let bytes = arriving(*n);
        store.base(&content_id(&bytes)).unwrap().is_some_and(|found| found == bytes)
    };
    let base = (1..=last).rev().find(is_base).unwrap_or(0);
    let checkpoint = store.checkpoint().map_or(0, |path| {
        let text = fs::read_to_string(path.join("one")).unwrap();
        assert_eq!(text, fs::read_to_string(path.join("two")).unwrap(), "kill {kill}");
        (1..=last).find(|n| checkpoint(*n) == text).unwrap_or_else(|| panic!("kill {kill}"))
    });
    assert!(base >= seen.base && checkpoint >= seen.checkpoint, "kill {kill}: {seen:?}");
    assert!(store.incidents().is_empty(), "kill {kill}");
    *seen = Seen { durable: last, base, checkpoint };
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
