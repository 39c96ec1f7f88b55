//! Making, opening, refusing and everyday use.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::path::Path;

use atoll_node::store::{SaveError, Store, StoreError};
use atoll_protocol::codec;
use atoll_protocol::crypto::content_id;
use atoll_protocol::genesis::{Genesis, Model};
use atoll_protocol::id::FragmentId;
use atoll_protocol::outer::Payloads;
use atoll_protocol::pool::Inline;

use crate::support::{closed, contribution, create, genesis, key, norms, own, scratch};

#[test]
fn a_run_is_made_once_and_opened_after() {
    let folder = scratch();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::NoRun { .. })));
    assert!(matches!(Store::open(Path::new("/nowhere")), Err(StoreError::NoRun { .. })));
    let store = create(&folder);
    assert_eq!(store.begin().unwrap(), 1);
    store.persist(own(), &[closed(0, 1)]).unwrap();
    drop(store);
    let store = create(&folder);
    assert_eq!(store.begin().unwrap(), 2);
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.begin().unwrap(), 3);
    assert_eq!(store.records().unwrap(), [closed(0, 1)]);
    assert_eq!(store.genesis(), &genesis());
    assert_eq!(store.folder(), folder.path());
    let text = fs::read_to_string(folder.path().join("genesis.toml")).unwrap();
    assert_eq!(Genesis::from_toml(&text).unwrap(), genesis());
    assert!(store.incidents().is_empty());
}

#[test]
fn who_made_a_run_is_remembered() {
    let folder = scratch();
    let store = create(&folder);
    assert!(!store.is_founder());
    store.found().unwrap();
    drop(store);
    assert!(Store::open(folder.path()).unwrap().is_founder());
}

#[test]
fn a_folder_of_another_run_or_format_is_refused_and_stays() {
    let folder = scratch();
    let store = create(&folder);
    store.persist(own(), &[closed(0, 1)]).unwrap();
    drop(store);
    let other = Genesis::new("other", Model::preset("nano").unwrap());
    let error = Store::create(folder.path(), &other).unwrap_err();
    assert!(matches!(error, StoreError::OtherRun { .. }), "{error}");
    assert!(error.hint().unwrap().contains("--home"));

    fs::write(folder.path().join("VERSION"), "2\n").unwrap();
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(&error, StoreError::Version { found, .. } if found == "2"), "{error}");
    assert!(Store::create(folder.path(), &genesis()).is_err());

    fs::write(folder.path().join("VERSION"), "1\n").unwrap();
    assert_eq!(Store::open(folder.path()).unwrap().records().unwrap(), [closed(0, 1)]);
}

#[test]
fn records_of_another_run_are_refused() {
    let (one, two) = (scratch(), scratch());
    drop(create(&one));
    let other = Genesis::new("other", Model::preset("nano").unwrap());
    drop(Store::create(two.path(), &other).unwrap());
    fs::copy(two.path().join("records.redb"), one.path().join("records.redb")).unwrap();
    let error = Store::open(one.path()).unwrap_err();
    assert!(matches!(error, StoreError::OtherRun { .. }), "{error}");
    assert!(matches!(Store::repair(one.path()), Err(StoreError::OtherRun { .. })));
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = scratch();
    let store = create(&folder);
    let clone = store.clone();
    for error in [
        Store::open(folder.path()).unwrap_err(),
        Store::create(folder.path(), &genesis()).unwrap_err(),
        Store::repair(folder.path()).unwrap_err(),
    ] {
        let me = std::process::id();
        assert!(
            matches!(error, StoreError::Locked { holder: Some(holder), .. } if holder == me),
            "{error}"
        );
    }
    drop(store);
    assert!(Store::open(folder.path()).is_err());
    drop(clone);
    Store::open(folder.path()).unwrap();
}

#[test]
fn an_unfinished_beginning_is_finished() {
    for missing in ["VERSION", "records.redb", "signed", "genesis.bin", "genesis.toml"] {
        let folder = scratch();
        drop(create(&folder));
        // As if the process had ended before it wrote these: the stamp always comes last.
        fs::remove_file(folder.path().join("VERSION")).unwrap();
        let _ = fs::remove_file(folder.path().join(missing));
        assert!(matches!(Store::open(folder.path()), Err(StoreError::NoRun { .. })));
        let store = create(&folder);
        store.persist(own(), &[closed(0, 1)]).unwrap();
        drop(store);
        assert_eq!(Store::open(folder.path()).unwrap().records().unwrap(), [closed(0, 1)]);
    }
}

#[test]
fn prune_keeps_own_contributions_longer_and_other_fragments() {
    let folder = scratch();
    let store = create(&folder);
    for bytes in [b"a", b"b", b"c", b"d", b"e"] {
        store.put(bytes).unwrap();
    }
    let records = [
        contribution(&key(1), 0, 1, b"a"),
        contribution(&key(1), 0, 3, b"b"),
        contribution(&key(2), 0, 3, b"c"),
        closed(0, 4),
        closed(0, 5),
        contribution(&key(2), 1, 3, b"d"),
        contribution(&key(2), 0, 5, b"e"),
    ];
    store.persist(own(), &records).unwrap();
    let gone = [content_id(b"a"), content_id(b"c"), content_id(b"never stored")];
    store.prune(own(), FragmentId(0), 4, 2, &gone).unwrap();
    let kept = [&records[1], &records[4], &records[5], &records[6]].map(Clone::clone);
    assert_eq!(store.records().unwrap(), kept);
    assert_eq!(store.content(&content_id(b"a")).unwrap(), None);
    assert_eq!(store.content(&content_id(b"b")).unwrap().unwrap(), b"b");
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.records().unwrap(), kept);
    // More are numbered on from where it stopped.
    store.persist(own(), &[closed(0, 9)]).unwrap();
    assert_eq!(store.records().unwrap()[4], closed(0, 9));
}

#[test]
fn a_contribution_without_its_payload_is_refused_whole() {
    let folder = scratch();
    let store = create(&folder);
    let records = [closed(0, 1), contribution(&key(1), 0, 1, b"nobody put this")];
    let error = store.persist(own(), &records).unwrap_err();
    assert!(matches!(error, StoreError::NoPayload { .. }), "{error}");
    assert!(store.records().unwrap().is_empty());
    assert_eq!(store.signed_floor(FragmentId(0)), 0);
}

#[test]
fn own_contributions_are_remembered_without_the_records() {
    let folder = scratch();
    let store = create(&folder);
    store.put(b"p").unwrap();
    store.persist(own(), &[contribution(&key(1), 3, 41, b"p")]).unwrap();
    store.persist(own(), &[contribution(&key(2), 3, 55, b"p")]).unwrap();
    assert_eq!(store.signed_floor(FragmentId(3)), 41);
    store.prune(own(), FragmentId(3), 60, 60, &[]).unwrap();
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    assert!(store.records().unwrap().is_empty());
    assert_eq!((store.signed_floor(FragmentId(3)), store.signed_floor(FragmentId(0))), (41, 0));
}

#[test]
fn the_fold_finds_payloads_that_were_checked() {
    let folder = scratch();
    let store = create(&folder);
    let id = store.put(b"payload").unwrap();
    assert!(Payloads::payload(&store, &id, FragmentId(0)).is_none());
    store.measure(&id, FragmentId(0), &norms(3));
    store.measure(&content_id(b"gone"), FragmentId(0), &norms(4));
    assert!(Payloads::payload(&store, &content_id(b"gone"), FragmentId(0)).is_none());
    store.persist(own(), &[contribution(&key(2), 0, 1, b"payload")]).unwrap();
    drop(store);
    let store = &Store::open(folder.path()).unwrap();
    let (bytes, found) = Payloads::payload(&store, &id, FragmentId(0)).unwrap();
    assert_eq!((bytes.as_ref(), found.as_ref()), (&b"payload"[..], &norms(3)));
}

#[test]
fn contents_and_bases_are_served_in_places() {
    let folder = scratch();
    let store = create(&folder);
    let id = store.put(b"0123456789").unwrap();
    let base = content_id(b"a base");
    store.put_base(base, b"a base", FragmentId(0)).unwrap();
    let file = store.open_content(&id).unwrap();
    let mut middle = [0; 4];
    file.read_at(3, &mut middle).unwrap();
    assert_eq!((&middle, file.bytes()), (b"3456", 10));
    assert!(file.read_at(8, &mut middle).is_err());
    // Whoever fetches it gets all of it even if it is pruned.
    store.prune(own(), FragmentId(0), 0, 0, &[id]).unwrap();
    file.read_at(6, &mut middle).unwrap();
    assert_eq!(&middle, b"6789");
    assert!(store.open_content(&id).is_none() && !store.has(&id));
    assert_eq!(store.open_content(&base).unwrap().bytes(), 6);
}

#[test]
fn the_newest_two_bases_of_each_fragment_are_kept() {
    let folder = scratch();
    let store = create(&folder);
    let put = |n: u8, fragment| {
        store.put_base(content_id(&[n]), &[n], FragmentId(fragment)).unwrap();
    };
    put(0, 0);
    put(1, 0);
    put(9, 1);
    put(0, 0);
    put(2, 0);
    let there = |store: &Store| {
        [0u8, 1, 2, 9].map(|n| store.base(&content_id(&[n])).unwrap().is_some_and(|it| it == [n]))
    };
    assert_eq!(there(&store), [true, false, true, true]);
    assert_eq!(store.usage().bases, 3);
    drop(store);
    assert_eq!(there(&Store::open(folder.path()).unwrap()), [true, false, true, true]);
}

#[test]
fn a_checkpoint_is_replaced_or_stays() {
    let folder = scratch();
    let store = create(&folder);
    assert_eq!(store.checkpoint(), None);
    let save = |text: &'static str| {
        store.save_checkpoint(|path| {
            fs::create_dir(path.join("deep")).unwrap();
            fs::write(path.join("deep/file"), text).unwrap();
            if text == "bad" { Err("no") } else { Ok(()) }
        })
    };
    let found = || fs::read_to_string(store.checkpoint().unwrap().join("deep/file")).unwrap();
    save("one").unwrap();
    assert_eq!((found().as_str(), store.usage().checkpoint), ("one", 3));
    save("second").unwrap();
    assert_eq!((found().as_str(), store.usage().checkpoint), ("second", 6));
    assert!(matches!(save("bad"), Err(SaveError::Write("no"))));
    assert_eq!(found(), "second");
    // As a crash between the two renames leaves it.
    let [current, before] = ["checkpoint", "checkpoint.before"].map(|it| folder.path().join(it));
    fs::rename(&current, &before).unwrap();
    assert_eq!(found(), "second");
    save("third").unwrap();
    assert_eq!(found(), "third");
    assert!(!before.exists());
    let nothing = store.save_checkpoint(|_| Ok::<(), Infallible>(()));
    nothing.unwrap();
}

#[test]
fn what_nothing_names_can_be_swept() {
    let folder = scratch();
    let store = create(&folder);
    let [named, kept, loose] = [&b"a"[..], b"b", b"c"].map(|bytes| store.put(bytes).unwrap());
    store.persist(own(), &[contribution(&key(2), 0, 1, b"a")]).unwrap();
    let arriving = content_id(b"d");
    store.incoming(&arriving).unwrap().begin(5, b"outline").unwrap();
    assert_eq!(store.usage().incoming, 5);
    assert_eq!(store.sweep(&BTreeSet::from([kept])).unwrap(), 1);
    assert!(store.has(&named) && store.has(&kept) && !store.has(&loose));
    // Whoever was joining goes on with half a snapshot.
    assert_eq!((store.usage().contents, store.usage().incoming), (2, 5));
    assert_eq!(store.contents(), BTreeSet::from([named, kept, arriving]));
    store.discard(&[kept, arriving]).unwrap();
    assert_eq!((store.usage().contents, store.usage().incoming), (1, 0));
    assert_eq!(fs::read_dir(folder.path().join("incoming")).unwrap().count(), 0);
}

#[test]
fn a_payload_of_two_fragments_has_the_norms_of_each() {
    let folder = scratch();
    let store = create(&folder);
    let id = store.put(b"payload").unwrap();
    store.measure(&id, FragmentId(0), &norms(3));
    store.measure(&id, FragmentId(1), &norms(4));
    store.persist(own(), &[contribution(&key(2), 0, 1, b"payload")]).unwrap();
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    for (fragment, n) in [(0, 3), (1, 4)] {
        let found = Payloads::payload(&store, &id, FragmentId(fragment)).unwrap().1;
        assert_eq!(found.as_ref(), &norms(n));
    }
}

#[test]
fn norms_that_were_lost_are_measured_again() {
    let folder = scratch();
    let store = create(&folder);
    let map = genesis().fragment_map();
    let shape = map.fragment(FragmentId(2)).unwrap();
    let values: Vec<f32> = (0..shape.elements).map(|n| (n % 7) as f32 * 1e-3).collect();
    let payload = codec::encode(genesis().codec, &values, &Inline).unwrap();
    let id = store.put(&payload).unwrap();
    let (bytes, found) = Payloads::payload(&store, &id, FragmentId(2)).unwrap();
    assert_eq!((bytes.as_ref(), found.pieces.len()), (&payload[..], shape.pieces.len()));
    assert_eq!(store.norms(&id, FragmentId(2)).as_ref(), Some(found.as_ref()));
    assert!(Payloads::payload(&store, &content_id(b"none"), FragmentId(2)).is_none());
}

#[test]
fn threads_do_not_get_in_each_others_way() {
    let folder = scratch();
    let store = create(&folder);
    let payload = |fragment: u16, round: u32| format!("{fragment}/{}", round / 2).into_bytes();
    std::thread::scope(|scope| {
        for fragment in 0..4u16 {
            let store = store.clone();
            scope.spawn(move || {
                for round in 1..30u32 {
                    let bytes = payload(fragment, round);
                    let id = store.put(&bytes).unwrap();
                    store.measure(&id, FragmentId(0), &norms(7));
                    let record = contribution(&key(1), fragment, round, &bytes);
                    store.persist(own(), &[record, closed(fragment, round)]).unwrap();
                    assert!(Payloads::payload(&store, &id, FragmentId(0)).is_some());
                    let through = round.saturating_sub(6);
                    let gone = [content_id(&payload(fragment, through))];
                    let part = FragmentId(fragment);
                    store.prune(own(), part, through, through, &gone).unwrap();
                }
            });
        }
    });
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    let records = store.records().unwrap();
    for fragment in 0..4 {
        let whole = (24..30).flat_map(|round| {
            let bytes = payload(fragment, round);
            [contribution(&key(1), fragment, round, &bytes), closed(fragment, round)]
        });
        let ours = records
            .iter()
            .filter(|it| it.contribution_round().unwrap().fragment == FragmentId(fragment));
        assert!(ours.eq(&whole.collect::<Vec<_>>()), "{fragment}");
        assert_eq!(store.signed_floor(FragmentId(fragment)), 29);
    }
    assert!(store.missing().unwrap().is_empty());
    assert!(store.incidents().is_empty());
}

#[test]
fn peers_come_back() {
    let folder = scratch();
    let store = create(&folder);
    assert!(store.peers().is_empty());
    let peers = ["/ip4/10.0.0.1/udp/4001/quic-v1".to_owned(), "other".to_owned()];
    store.save_peers(&peers).unwrap();
    assert_eq!(store.peers(), peers);
    fs::write(folder.path().join("peers.json"), "[\"half").unwrap();
    assert!(store.peers().is_empty());
    assert_eq!(store.incidents().len(), 1);
}
