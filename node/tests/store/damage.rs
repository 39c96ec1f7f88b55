//! Flipped bits, torn files, missing files: found, set aside, said, never used.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use atoll_node::store::{Store, StoreError};
use atoll_protocol::crypto::content_id;
use atoll_protocol::engine::Record;
use atoll_protocol::id::{ContentId, FragmentId};
use atoll_protocol::outer::Payloads;
use atoll_protocol::rng::Rng;

use crate::support::{closed, contribution, create, genesis, key, norms, own, scratch};

fn content_path(folder: &Path, id: &ContentId) -> PathBuf {
    let name = id.to_hex();
    folder.join("contents").join(&name[..2]).join(name)
}

fn flip(path: &Path, byte: u64, bit: u8) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut one = [0];
    file.read_exact_at(&mut one, byte).unwrap();
    file.write_all_at(&[one[0] ^ (1 << bit)], byte).unwrap();
}

#[test]
fn a_damaged_content_is_set_aside_and_put_again() {
    let damages: [fn(&Path); 4] = [
        |path| flip(path, 3, 5),
        |path| fs::write(path, b"pay").unwrap(),
        |path| fs::write(path, b"").unwrap(),
        |path| fs::write(path, b"payload and more").unwrap(),
    ];
    for damage in damages {
        let folder = scratch();
        let store = create(&folder);
        let id = store.put(b"payload").unwrap();
        store.measure(&id, FragmentId(0), &norms(1));
        store.persist(own(), &[contribution(&key(2), 0, 1, b"payload")]).unwrap();
        assert!(store.missing().unwrap().is_empty());
        damage(&content_path(folder.path(), &id));
        let error = store.content(&id).unwrap_err();
        let StoreError::Broken { content, kept } = &error else { panic!("{error}") };
        assert_eq!(
            (content, kept.parent().unwrap()),
            (&id, folder.path().join("broken").as_path())
        );
        assert!(kept.exists());
        assert_eq!(store.incidents().len(), 1);
        assert_eq!(store.content(&id).unwrap(), None);
        assert!(Payloads::payload(&store, &id, FragmentId(0)).is_none());
        assert_eq!(store.missing().unwrap().len(), 1);
        assert_eq!(store.usage().contents, 0);
        store.put(b"payload").unwrap();
        assert!(store.missing().unwrap().is_empty());
        assert!(Payloads::payload(&store, &id, FragmentId(0)).is_some());
    }
}

#[test]
fn damage_while_nobody_looked_is_missing() {
    let folder = scratch();
    let store = create(&folder);
    let mut ids = Vec::new();
    for n in 0..20u8 {
        ids.push(store.put(&[n; 100]).unwrap());
        store.persist(own(), &[contribution(&key(2), 0, u32::from(n), &[n; 100])]).unwrap();
    }
    drop(store);
    flip(&content_path(folder.path(), &ids[3]), 99, 0);
    fs::write(content_path(folder.path(), &ids[7]), [7; 99]).unwrap();
    fs::remove_file(content_path(folder.path(), &ids[9])).unwrap();
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.missing().unwrap(), [ids[3], ids[7], ids[9]].into_iter().collect());
    assert_eq!(store.incidents().len(), 2);
    assert_eq!(store.usage().contents, 1700);
    assert_eq!(store.usage().broken, 199);
    // An arriving copy takes the damaged one's place.
    let mut incoming = store.incoming(&ids[3]).unwrap();
    incoming.begin(100, b"").unwrap();
    incoming.write(0, &[3; 100]).unwrap();
    incoming.finish().unwrap();
    assert_eq!(store.missing().unwrap(), [ids[7], ids[9]].into_iter().collect());
}

#[test]
fn a_contribution_that_lies_about_the_length_is_missing_but_nothing_is_set_aside() {
    let folder = scratch();
    let store = create(&folder);
    let id = store.put(b"payload").unwrap();
    let Record::Contribution(mut signed) = contribution(&key(2), 0, 1, b"payload") else {
        unreachable!()
    };
    signed.body.payload_bytes = 9;
    store.persist(own(), &[Record::Contribution(signed)]).unwrap();
    assert!(store.missing().unwrap().contains(&id));
    assert_eq!(store.content(&id).unwrap().unwrap(), b"payload");
}

#[test]
fn a_damaged_base_is_set_aside() {
    let folder = scratch();
    let store = create(&folder);
    let digest = content_id(b"a base");
    store.put_base(digest, b"a base", FragmentId(2)).unwrap();
    let path = fs::read_dir(folder.path().join("bases")).unwrap().next().unwrap().unwrap().path();
    flip(&path, 0, 0);
    assert!(matches!(store.base(&digest), Err(StoreError::Broken { .. })));
    assert_eq!(store.base(&digest).unwrap(), None);
    assert_eq!((store.usage().bases, store.usage().broken), (0, 6));
    store.put_base(digest, b"a base", FragmentId(2)).unwrap();
    assert_eq!(store.base(&digest).unwrap().unwrap(), b"a base");
}

/// A folder with a few records, closed in good order or not.
fn written(folder: &Path, clean: bool) -> Vec<Record> {
    let store = Store::create(folder, &genesis()).unwrap();
    store.begin().unwrap();
    for n in 0..30u8 {
        let id = store.put(&[n; 50]).unwrap();
        store.measure(&id, FragmentId(0), &norms(n));
        let author = key(1 + n % 3);
        let records =
            [contribution(&author, u16::from(n % 2), u32::from(n), &[n; 50]), closed(0, 1)];
        store.persist(own(), &records).unwrap();
    }
    store.prune(own(), FragmentId(0), 5, 3, &[]).unwrap();
    store.persist(own(), &[closed(1, 9)]).unwrap();
    let records = store.records().unwrap();
    if clean {
        drop(store);
    } else {
        // What a process that is killed now leaves: the files as they are.
        let (database, left) = (folder.join("records.redb"), folder.join("left"));
        fs::copy(&database, &left).unwrap();
        drop(store);
        fs::rename(&left, &database).unwrap();
    }
    records
}

/// Opens a folder whose database was damaged: the records are what they were, or it is said that
/// they are not.
fn damaged(folder: &Path, records: &[Record], what: &str) -> bool {
    let opened = Store::open(folder).and_then(|store| store.records());
    match opened {
        Ok(found) => {
            assert!(found == records, "{what}: other records");
            false
        }
        Err(StoreError::Corrupt { .. }) => true,
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn a_flipped_bit_in_the_database_is_found_or_harmless() {
    for clean in [true, false] {
        let folder = scratch();
        let records = written(folder.path(), clean);
        let path = folder.path().join("records.redb");
        let (whole, mark) = (fs::read(&path).unwrap(), folder.path().join("records.mark"));
        let count = fs::read(&mark).unwrap();
        let mut rng = Rng::new(7);
        let mut found = 0;
        // Every byte of the header, and some of every page.
        let pages = whole.len() as u64 / 4096;
        let header = (0..320).map(|byte| (byte, None));
        let rest = (1..pages).flat_map(|page| [(page * 4096, Some(4096)); 6]);
        let places: Vec<(u64, Option<u64>)> = header
            .chain(rest.filter(|(start, _)| {
                let start = usize::try_from(*start).unwrap();
                whole[start..start + 4096].iter().any(|byte| *byte != 0)
            }))
            .collect();
        for (start, span) in places {
            let byte = start + span.map_or(0, |span| rng.below(span));
            let bit = u8::try_from(rng.below(8)).unwrap();
            fs::write(&path, &whole).unwrap();
            fs::write(&mark, &count).unwrap();
            flip(&path, byte, bit);
            let what = format!("clean {clean}, byte {byte}, bit {bit}");
            found += u32::from(damaged(folder.path(), &records, &what));
        }
        assert!(found > 20, "{found} found");
    }
}

#[test]
fn a_torn_database_is_found() {
    let folder = scratch();
    let records = written(folder.path(), false);
    let path = folder.path().join("records.redb");
    let whole = fs::read(&path).unwrap();
    for length in [0, 1, 100, 4096, 8192, 12_288, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let what = format!("{length} of {} bytes", whole.len());
        assert!(damaged(folder.path(), &records, &what), "{what}");
    }
    fs::remove_file(&path).unwrap();
    assert!(damaged(folder.path(), &records, "none"));
}

#[test]
fn a_database_that_goes_back_in_time_is_found() {
    let folder = scratch();
    let store = create(&folder);
    store.persist(own(), &[closed(0, 1)]).unwrap();
    drop(store);
    let path = folder.path().join("records.redb");
    let old = fs::read(&path).unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.persist(own(), &[closed(0, 2), closed(0, 3)]).unwrap();
    drop(store);
    fs::write(&path, &old).unwrap();
    let error = Store::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("last 2"), "{error}");
}

#[test]
fn a_repair_keeps_everything_but_the_records() {
    let folder = scratch();
    written(folder.path(), true);
    assert_eq!(Store::repair(folder.path()).unwrap(), None);
    let path = folder.path().join("records.redb");
    let length = fs::metadata(&path).unwrap().len();
    for byte in (4096..length).step_by(512) {
        flip(&path, byte, 1);
    }
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(error.hint().unwrap().contains("`atoll run`"), "{error}");
    assert!(matches!(Store::create(folder.path(), &genesis()), Err(StoreError::Corrupt { .. })));
    let kept = Store::repair(folder.path()).unwrap().unwrap();
    assert_eq!(kept, folder.path().join("records.broken-1"));
    assert!(kept.exists());

    let store = Store::open(folder.path()).unwrap();
    assert!(store.records().unwrap().is_empty());
    assert!(store.begin().unwrap() > 1);
    // The own contributions were 0, 3, 6, .. 27, every other in fragment 0.
    assert_eq!((store.signed_floor(FragmentId(0)), store.signed_floor(FragmentId(1))), (24, 27));
    assert_eq!(store.content(&content_id(&[4; 50])).unwrap().unwrap(), [4; 50]);
    store.persist(own(), &[closed(0, 1)]).unwrap();
    drop(store);
    assert_eq!(Store::open(folder.path()).unwrap().records().unwrap(), [closed(0, 1)]);
}

#[test]
fn a_lost_list_of_signed_rounds_is_made_from_the_records() {
    for damage in [0, 1] {
        let folder = scratch();
        let records = written(folder.path(), true);
        let signed = folder.path().join("signed");
        if damage == 0 {
            flip(&signed, 30, 0);
        } else {
            fs::remove_file(&signed).unwrap();
        }
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.records().unwrap(), records);
        assert_eq!(store.incidents().len(), 1);
        // Whatever anybody contributed to may have been signed by us.
        assert_eq!(
            (store.signed_floor(FragmentId(0)), store.signed_floor(FragmentId(1))),
            (28, 29)
        );
        assert!(store.begin().unwrap() > 1);
    }
}

#[test]
fn without_records_and_list_nothing_is_made_up() {
    let folder = scratch();
    written(folder.path(), true);
    flip(&folder.path().join("signed"), 30, 0);
    fs::write(folder.path().join("records.redb"), b"nothing").unwrap();
    let error = Store::repair(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(error.hint().unwrap().contains("new key"), "{error}");
    assert!(folder.path().join("records.redb").exists());
}

#[test]
fn a_damaged_genesis_is_said_and_can_be_given_again() {
    let folder = scratch();
    let records = written(folder.path(), true);
    flip(&folder.path().join("genesis.bin"), 40, 2);
    let error = Store::open(folder.path()).unwrap_err();
    // The flipped bit may also give another valid genesis, whose records these are not.
    assert!(matches!(error, StoreError::Genesis { .. } | StoreError::OtherRun { .. }), "{error}");
    fs::write(folder.path().join("genesis.bin"), b"none").unwrap();
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Genesis { .. }), "{error}");
    assert!(error.hint().unwrap().contains("atoll join"));
    let other = atoll_protocol::genesis::Genesis::new("other", genesis().model);
    assert!(matches!(Store::create(folder.path(), &other), Err(StoreError::OtherRun { .. })));
    assert_eq!(create(&folder).records().unwrap(), records);
    assert_eq!(Store::open(folder.path()).unwrap().genesis(), &genesis());
}
