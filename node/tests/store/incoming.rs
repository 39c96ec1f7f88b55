//! Contents that arrive in chunks.

use std::fs;
use std::io::ErrorKind;

use atoll_node::store::Store;
use atoll_protocol::crypto::content_id;
use atoll_protocol::limits::CONTENT_CHUNK_BYTES;

use crate::support::{contribution, create, key, own, scratch};

const CHUNK: usize = CONTENT_CHUNK_BYTES;

fn bytes(length: usize) -> Vec<u8> {
    (0..251).cycle().take(length).collect()
}

fn chunk(bytes: &[u8], index: u32) -> &[u8] {
    bytes.chunks(CHUNK).nth(index as usize).unwrap()
}

#[test]
fn chunks_in_any_order_make_a_content() {
    for length in [0, 1, CHUNK, CHUNK + 1, 5 * CHUNK + 77] {
        let folder = scratch();
        let store = create(&folder);
        let all = bytes(length);
        let id = content_id(&all);
        let mut incoming = store.incoming(&id).unwrap();
        assert_eq!((incoming.outline(), incoming.length()), (None, None));
        incoming.begin(length as u64, b"outline").unwrap();
        let count = u32::try_from(all.chunks(CHUNK).count()).unwrap();
        for index in (0..count).rev() {
            assert!(!incoming.has(index));
            incoming.write(index, chunk(&all, index)).unwrap();
            assert!(incoming.has(index));
        }
        assert!(!incoming.has(count));
        assert_eq!(store.content(&id).unwrap(), None);
        incoming.finish().unwrap();
        assert_eq!(store.content(&id).unwrap().unwrap(), all);
        let usage = store.usage();
        assert_eq!((usage.contents, usage.incoming), (length as u64, 0));
        assert_eq!(fs::read_dir(folder.path().join("incoming")).unwrap().count(), 0);
        store.persist(own(), &[contribution(&key(2), 0, 1, &all)]).unwrap();
    }
}

#[test]
fn what_arrived_survives_a_restart() {
    let folder = scratch();
    let store = create(&folder);
    let all = bytes(3 * CHUNK + 5);
    let id = content_id(&all);
    let mut incoming = store.incoming(&id).unwrap();
    incoming.begin(all.len() as u64, b"outline").unwrap();
    incoming.write(1, chunk(&all, 1)).unwrap();
    incoming.write(3, chunk(&all, 3)).unwrap();
    drop(incoming);
    drop(store);

    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.usage().incoming, all.len() as u64);
    let mut incoming = store.incoming(&id).unwrap();
    assert_eq!(incoming.outline().unwrap(), b"outline");
    assert_eq!([0, 1, 2, 3].map(|index| incoming.has(index)), [false, true, false, true]);
    // The same beginning goes on.
    incoming.begin(all.len() as u64, b"outline").unwrap();
    assert!(incoming.has(1));
    incoming.write(0, chunk(&all, 0)).unwrap();
    incoming.write(2, chunk(&all, 2)).unwrap();
    incoming.finish().unwrap();
    assert_eq!(store.content(&id).unwrap().unwrap(), all);
}

#[test]
fn a_chunk_that_is_damaged_meanwhile_is_missing() {
    let folder = scratch();
    let store = create(&folder);
    let all = bytes(3 * CHUNK);
    let id = content_id(&all);
    let mut incoming = store.incoming(&id).unwrap();
    incoming.begin(all.len() as u64, b"outline").unwrap();
    for index in 0..3 {
        incoming.write(index, chunk(&all, index)).unwrap();
    }
    drop(incoming);
    drop(store);
    let path = folder.path().join("incoming").join(id.to_hex());
    let mut torn = fs::read(&path).unwrap();
    torn[CHUNK + 9] ^= 4;
    fs::write(&path, &torn).unwrap();

    let store = Store::open(folder.path()).unwrap();
    let mut incoming = store.incoming(&id).unwrap();
    assert_eq!([0, 1, 2].map(|index| incoming.has(index)), [true, false, true]);
    incoming.write(1, chunk(&all, 1)).unwrap();
    incoming.finish().unwrap();
    assert_eq!(store.content(&id).unwrap().unwrap(), all);
}

#[test]
fn damage_to_the_rest_begins_from_nothing() {
    let all = bytes(2 * CHUNK);
    let id = content_id(&all);
    for (ending, keep) in [("", CHUNK), (".outline", 20), (".chunks", 5), ("", 0)] {
        let folder = scratch();
        let store = create(&folder);
        let mut incoming = store.incoming(&id).unwrap();
        incoming.begin(all.len() as u64, b"outline").unwrap();
        incoming.write(0, chunk(&all, 0)).unwrap();
        drop(incoming);
        drop(store);
        let path = folder.path().join("incoming").join(format!("{}{ending}", id.to_hex()));
        let rest = fs::read(&path).unwrap();
        fs::write(&path, &rest[..keep]).unwrap();
        let store = Store::open(folder.path()).unwrap();
        let incoming = store.incoming(&id).unwrap();
        assert_eq!((incoming.outline(), incoming.has(0)), (None, false), "{ending}");
        drop(incoming);
        assert_eq!(store.usage().incoming, 0, "{ending}");
    }
}

#[test]
fn what_does_not_belong_is_refused() {
    let folder = scratch();
    let store = create(&folder);
    let all = bytes(CHUNK + 3);
    let id = content_id(&all);
    let mut incoming = store.incoming(&id).unwrap();
    assert_eq!(incoming.write(0, chunk(&all, 0)).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(incoming.begin(1 << 60, b"").is_err());
    incoming.begin(all.len() as u64, b"").unwrap();
    assert!(incoming.write(0, &all[..9]).is_err());
    assert!(incoming.write(1, chunk(&all, 0)).is_err());
    assert!(incoming.write(2, &[]).is_err());
    incoming.write(0, chunk(&all, 0)).unwrap();
    assert_eq!(store.incoming(&id).unwrap_err().kind(), ErrorKind::ResourceBusy);
    assert_eq!(incoming.finish().unwrap_err().kind(), ErrorKind::InvalidInput);

    // All here, but not what was asked for: nothing of it is kept.
    let mut incoming = store.incoming(&id).unwrap();
    assert!(incoming.has(0));
    incoming.write(1, b"bad").unwrap();
    assert_eq!(incoming.finish().unwrap_err().kind(), ErrorKind::InvalidData);
    assert!(!store.has(&id));
    let incoming = store.incoming(&id).unwrap();
    assert_eq!((incoming.outline(), incoming.has(0)), (None, false));
    incoming.abandon().unwrap();
    assert_eq!(store.usage().total(), store.usage().records);
}

#[test]
fn another_beginning_starts_again() {
    let folder = scratch();
    let store = create(&folder);
    let id = content_id(b"x");
    let mut incoming = store.incoming(&id).unwrap();
    incoming.begin(2 * CHUNK as u64, b"one").unwrap();
    incoming.write(0, &bytes(CHUNK)).unwrap();
    incoming.begin(1, b"two").unwrap();
    assert!(!incoming.has(0));
    assert_eq!(store.usage().incoming, 1);
    incoming.write(0, b"x").unwrap();
    incoming.finish().unwrap();
    assert_eq!(store.content(&id).unwrap().unwrap(), b"x");

    let mut again = store.incoming(&id).unwrap();
    again.begin(1, b"two").unwrap();
    again.write(0, b"x").unwrap();
    again.finish().unwrap();
    assert_eq!((store.usage().contents, store.usage().incoming), (1, 0));
}

#[test]
fn what_nobody_wants_any_more_is_abandoned() {
    let folder = scratch();
    let store = create(&folder);
    let id = content_id(b"x");
    let mut incoming = store.incoming(&id).unwrap();
    incoming.begin(1, b"").unwrap();
    store.discard(&[id]).unwrap();
    incoming.write(0, b"x").unwrap();
    drop(incoming);
    store.discard(&[id]).unwrap();
    assert_eq!(store.usage().incoming, 0);
    assert!(!store.incoming(&id).unwrap().has(0));
}
