//! No room: a typed error, and everything is as it was.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use atoll_node::store::{Store, StoreError};
use atoll_protocol::crypto::content_id;
use atoll_protocol::id::FragmentId;
use atoll_protocol::limits::CONTENT_CHUNK_BYTES;

use crate::support::{closed, contribution, create, genesis, key, own, scratch};

#[test]
fn a_budget_refuses_what_others_send_and_nothing_else() {
    let folder = scratch();
    let store = create(&folder);
    let first = store.put(&[1; 1000]).unwrap();
    let used = store.usage();
    assert_eq!((used.contents, used.total()), (1000, 1000 + used.records));
    store.set_budget(Some(used.total() + 500));
    let id = content_id(&[3; 501]);
    let mut incoming = store.incoming(&id).unwrap();
    let error = incoming.begin(501, b"").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(error.to_string().contains("501 bytes do not fit"), "{error}");
    drop(incoming);
    assert_eq!(store.usage(), used);
    assert_eq!(fs::read_dir(folder.path().join("incoming")).unwrap().count(), 0);

    // What is here already needs no room, and what must not be lost is not refused.
    store.put(&[1; 1000]).unwrap();
    store.persist(own(), &[contribution(&key(1), 0, 1, &[1; 1000])]).unwrap();
    store.put_base(content_id(&[4; 900]), &[4; 900], FragmentId(0)).unwrap();
    store.put(&[2; 2000]).unwrap();
    store.prune(own(), FragmentId(0), 1, 1, &[first]).unwrap();
    assert!(store.incoming(&id).unwrap().begin(1, b"").is_err());
    store.set_budget(None);
    store.incoming(&id).unwrap().begin(501, b"").unwrap();
}

#[test]
fn room_is_reserved_while_a_content_arrives() {
    let folder = scratch();
    let store = create(&folder);
    let all = vec![7; CONTENT_CHUNK_BYTES + 1];
    let length = all.len() as u64;
    store.set_budget(Some(store.usage().total() + length));
    let id = content_id(&all);
    let mut incoming = store.incoming(&id).unwrap();
    incoming.begin(length, b"").unwrap();
    let refused = |store: &Store| {
        let begun = store.incoming(&content_id(b"x")).unwrap().begin(1, b"");
        assert_eq!(begun.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    };
    refused(&store);
    for (chunk, part) in (0..).zip(all.chunks(CONTENT_CHUNK_BYTES)) {
        incoming.write(chunk, part).unwrap();
    }
    incoming.finish().unwrap();
    assert_eq!((store.usage().contents, store.usage().incoming), (length, 0));
    refused(&store);
    store.prune(own(), FragmentId(0), 0, 0, &[id]).unwrap();
    store.incoming(&content_id(b"x")).unwrap().begin(1, b"").unwrap();
}

/// The child: fills a small disk in each way there is, and goes on once there is room again.
#[test]
fn child_of_the_full_disk_test() {
    let Some(folder) = env::var_os(CHILD) else { return };
    let folder = Path::new(&folder);
    let store = Store::create(&folder.join("run"), &genesis()).unwrap();
    let payload = store.put(&[1; 100]).unwrap();
    store.persist(own(), &[contribution(&key(1), 0, 1, &[1; 100])]).unwrap();
    store.save_checkpoint(|path| fs::write(path.join("file"), "good")).unwrap();
    let ballast = folder.join("ballast");
    fill(&ballast);

    let usage = store.usage();
    let full = |error: StoreError| {
        assert!(matches!(error, StoreError::Full { max: None, .. }), "{error}");
        assert!(error.hint().unwrap().contains("free some space"));
    };
    full(store.put(&vec![2; 1 << 20]).unwrap_err());
    full(store.put_base(content_id(b""), &vec![2; 1 << 20], FragmentId(0)).unwrap_err());
    let big = vec![3; CONTENT_CHUNK_BYTES];
    let mut incoming = store.incoming(&content_id(&big)).unwrap();
    let begun = incoming.begin(big.len() as u64, b"");
    let refused = begun.and_then(|()| incoming.write(0, &big)).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    incoming.abandon().unwrap();
    let saved = store.save_checkpoint(|path| fs::write(path.join("file"), vec![4; 1 << 20]));
    saved.unwrap_err();
    assert_eq!(fs::read(store.checkpoint().unwrap().join("file")).unwrap(), b"good");
    // Small records fit into pages that the database has; sooner or later they do not.
    let mut written = 1;
    let error = loop {
        let records: Vec<_> = (0..500).map(|n| closed(0, n)).collect();
        match store.persist(own(), &records) {
            Ok(()) => written += records.len(),
            Err(error) => break error,
        }
    };
    full(error);
    assert_eq!(store.usage().contents, usage.contents);
    assert_eq!(store.usage().incoming, 0);

    // Nothing that was there is lost, neither now nor after a restart with the disk full.
    let whole = |store: &Store| {
        assert_eq!(store.records().unwrap().len(), written);
        assert_eq!(store.content(&payload).unwrap().unwrap(), [1; 100]);
        assert_eq!(store.signed_floor(FragmentId(0)), 1);
        assert!(store.missing().unwrap().is_empty());
    };
    whole(&store);
    drop(store);
    let store = Store::open(&folder.join("run")).unwrap();
    whole(&store);
    fs::remove_file(&ballast).unwrap();
    // With room again it goes on where it was, without being opened again.
    store.persist(own(), &[closed(0, 7)]).unwrap();
    store.put(&vec![2; 1 << 18]).unwrap();
    assert_eq!(store.records().unwrap().len(), written + 1);
    drop(store);
    assert_eq!(Store::open(&folder.join("run")).unwrap().records().unwrap().len(), written + 1);
    eprintln!("{PASSED}");
}

/// Takes all the room there is.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(path).unwrap();
    let mut size = 1 << 16;
    while size > 0 {
        match file.write(&vec![0; size]) {
            Ok(count) if count > 0 => {}
            _ => size /= 2,
        }
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let folder = scratch();
    // A small disk of its own, in a namespace of its own, needs no rights and leaves no trace.
    let mount = format!(
        "mount -t tmpfs -o size=6m none '{0}' && exec \"$0\" --exact {NAME} --nocapture",
        folder.path().display()
    );
    let run = |command: &str, test: &Path| {
        Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", command])
            .arg(test)
            .env(CHILD, folder.path())
            .output()
    };
    let probe = format!("mount -t tmpfs -o size=6m none '{}'", folder.path().display());
    let me = env::current_exe().unwrap();
    if !run(&probe, &me).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: needs unshare and user namespaces");
        return;
    }
    let output = run(&mount, &me).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(PASSED), "{said}");
}

const CHILD: &str = "ATOLL_TEST_STORE_FULL";
const NAME: &str = "full::child_of_the_full_disk_test";
const PASSED: &str = "full disk passed";
