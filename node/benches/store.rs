//! What the store's promises cost, against the same bytes written without them, in one run.
//!
//! `cargo bench -p atoll-node --bench store -- [folder]`

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use atoll_node::store::Store;
use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::{Key, content_id};
use atoll_protocol::engine::Record;
use atoll_protocol::genesis::{Genesis, Model};
use atoll_protocol::id::{FragmentId, RoundId, Version};
use atoll_protocol::limits::CONTENT_CHUNK_BYTES;

fn main() {
    let folder = std::env::args().skip(1).find(|it| !it.starts_with('-'));
    let folder = folder.map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(folder).expect("a folder to write to");
    let model = Model::preset("nano").expect("a preset");
    let genesis = Genesis::new("bench", model);
    let store = Store::create(&folder.path().join("run"), &genesis).expect("a new store");
    let plain = folder.path().join("plain");
    fs::create_dir(&plain).expect("a new folder");

    persist(&store, &plain);
    prune(&store, &plain);
    put(&store, &plain);
    incoming(&store, &plain);
    content(&store, &plain);
}

/// Records, against a file of 4 KiB that is written over and flushed.
fn persist(store: &Store, plain: &Path) {
    let own = Key::from_secret([1; 32]);
    let mut file = File::create(plain.join("4k")).expect("a new file");
    let mut flush = |_| {
        file.write_all(&[7; 4096]).expect("room");
        file.sync_all().expect("a disk");
    };
    let closed = |n: u32| {
        let round = RoundId { fragment: FragmentId(0), number: n };
        store.persist(own.node(), &[Record::Closed(round)]).expect("a record");
    };
    compare("persist of one record, fsync of 4 KiB", 60, &mut flush, closed);
    let batch = |n: u32| {
        let round = RoundId { fragment: FragmentId(0), number: n };
        store.persist(own.node(), &vec![Record::Closed(round); 100]).expect("records");
    };
    compare("persist of 100 records, fsync of 4 KiB", 40, &mut flush, batch);
    let theirs = contributions(store, &Key::from_secret([2; 32]), 1);
    let peer = |n: u32| store.persist(own.node(), &[theirs[n as usize].clone()]).expect("a record");
    compare("persist of a peer's contribution, fsync of 4 KiB", 40, &mut flush, peer);
    let ours = contributions(store, &own, 2);
    let mine = |n: u32| store.persist(own.node(), &[ours[n as usize].clone()]).expect("a record");
    compare("persist of an own contribution, fsync of 4 KiB", 40, &mut flush, mine);
}

/// Contributions whose payloads of 64 KiB are stored.
fn contributions(store: &Store, key: &Key, fragment: u16) -> Vec<Record> {
    (0..41)
        .map(|round: Version| {
            let bytes: Vec<u8> = [round.to_le_bytes(), u32::from(fragment).to_le_bytes()].concat();
            let bytes = bytes.repeat(8192);
            let payload = store.put(&bytes).expect("a payload");
            let fragment = FragmentId(fragment);
            let header = Header {
                author: key.node(),
                fragment,
                round,
                base: 0,
                tokens: 1,
                steps: 1,
                payload,
                payload_bytes: 65536,
            };
            Record::Contribution(key.sign(store.genesis().run_id(), header))
        })
        .collect()
}

/// A prune among thousands of records, against the same flush.
fn prune(store: &Store, plain: &Path) {
    let own = Key::from_secret([1; 32]).node();
    let round = |number| RoundId { fragment: FragmentId(3), number };
    let many: Vec<Record> = (0..20_000).map(|n| Record::Closed(round(n))).collect();
    store.persist(own, &many).expect("records");
    let mut file = File::create(plain.join("4k")).expect("a new file");
    let flush = |_| {
        file.write_all(&[7; 4096]).expect("room");
        file.sync_all().expect("a disk");
    };
    let prune = |n: u32| store.prune(own, FragmentId(3), n, n, &[]).expect("a prune");
    compare("prune of a round of 20000, fsync of 4 KiB", 40, flush, prune);
}

fn put(store: &Store, plain: &Path) {
    let mut bytes = noise();
    let write = |n: u32| {
        let mut file = File::create(plain.join(n.to_string())).expect("a new file");
        file.write_all(&noise()).expect("room");
        file.sync_all().expect("a disk");
    };
    let put = |n: u32| {
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        store.put(&bytes).expect("a payload");
    };
    compare("put of 16 MiB, write + fsync", 12, write, put);
}

/// A content that arrives, against a plain write; neither is flushed.
fn incoming(store: &Store, plain: &Path) {
    let mut bytes = noise();
    let mut other = noise();
    let write = |n: u32| {
        other[..4].copy_from_slice(&n.to_le_bytes());
        fs::write(plain.join(format!("soon-{n}")), &other).expect("room");
    };
    let mut ids: Vec<_> = Vec::new();
    let mut all = Vec::new();
    for n in 0..13u32 {
        bytes[..8].copy_from_slice(&(u64::from(n) << 32).to_le_bytes());
        ids.push(content_id(&bytes));
        all.push(bytes.clone());
    }
    let receive = |n: u32| {
        let bytes = &all[n as usize];
        let mut incoming = store.incoming(&ids[n as usize]).expect("nobody else receives it");
        incoming.begin(bytes.len() as u64, &[0; 2100]).expect("room");
        for (chunk, part) in (0..).zip(bytes.chunks(CONTENT_CHUNK_BYTES)) {
            incoming.write(chunk, part).expect("room");
        }
        incoming.finish().expect("the right hash");
    };
    compare("16 MiB arriving, write", 12, write, receive);
}

fn content(store: &Store, plain: &Path) {
    let bytes = noise();
    let id = store.put(&bytes).expect("a payload");
    let path = plain.join("read");
    fs::write(&path, &bytes).expect("room");
    let read = |_| drop(fs::read(&path).expect("it was written"));
    let content = |_| drop(store.content(&id).expect("it is whole").expect("it is here"));
    compare("content of 16 MiB, read", 40, read, content);
    let both = |_| {
        let bytes = fs::read(&path).expect("it was written");
        assert_eq!(content_id(&bytes), id);
    };
    let content = |_| drop(store.content(&id).expect("it is whole").expect("it is here"));
    compare("content of 16 MiB, read + blake3", 40, both, content);
}

/// 16 MiB that no file system can make smaller.
fn noise() -> Vec<u8> {
    let mut bytes = vec![0; 16 << 20];
    blake3::Hasher::new().update(b"noise").finalize_xof().fill(&mut bytes);
    bytes
}

/// Times both in turns and prints the medians and their ratio.
#[expect(clippy::print_stdout, reason = "the figures are for whoever ran it")]
fn compare(what: &str, times: u32, mut plain: impl FnMut(u32), mut ours: impl FnMut(u32)) {
    let mut taken = [Vec::new(), Vec::new()];
    for n in 0..=times {
        let began = Instant::now();
        plain(n);
        let middle = Instant::now();
        ours(n);
        let ended = Instant::now();
        // The first of each warms up.
        if n > 0 {
            taken[0].push((middle - began).as_secs_f64());
            taken[1].push((ended - middle).as_secs_f64());
        }
    }
    let [plain, ours] = taken.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let (ours_ms, plain_ms) = (1e3 * ours, 1e3 * plain);
    println!("{what}: {ours_ms:.2} ms, {plain_ms:.2} ms, ratio {:.2}", ours / plain);
}
