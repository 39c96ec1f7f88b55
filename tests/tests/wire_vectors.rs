//! The bytes of everything that travels or is stored, pinned for each wire version.
//!
//! `tests/vectors/*.hex` hold the bytes, `VERSION` the wire version they were made for, and
//! `DIGESTS` one hash over all of them for every version there ever was. Nodes of one version
//! must agree on every byte, so no vector may change while the version stays.
//!
//! Payloads are pinned twice: what they decode to is the contract; the encoder's own bytes are
//! pinned too, so that a new zstd does not change them unnoticed.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/samples.rs"]
mod samples;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use atoll_protocol::codec::Codec;
use atoll_protocol::engine::Record;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::limits::MESSAGE_BYTES_MAX;
use atoll_protocol::message::Message;
use atoll_protocol::wire;
use atoll_protocol::wire::version::WIRE_VERSION;

use samples::{MESSAGES, RECORDS};

#[test]
fn values_have_the_bytes_they_always_had() {
    let (made, kept) = (samples::vectors(), &*KEPT);
    for (name, bytes) in &made {
        let Some(kept) = kept.get(name) else { panic!("{name} has no vector. {WHAT_TO_DO}") };
        if kept != bytes {
            let at = kept.iter().zip(bytes).take_while(|(one, other)| one == other).count();
            let lengths = (kept.len(), bytes.len());
            panic!("{name} differs from byte {at} on, lengths {lengths:?}. {WHAT_TO_DO}");
        }
    }
    let stray: Vec<&String> = kept.keys().filter(|name| !made.contains_key(*name)).collect();
    assert!(stray.is_empty(), "vectors of nothing: {stray:?}. {WHAT_TO_DO}");
}

#[test]
fn vectors_are_those_of_the_wire_version() {
    let kept = &*KEPT;
    let version = fs::read_to_string(folder().join("VERSION")).unwrap();
    assert_eq!(version.lines().next(), Some(WIRE_VERSION.to_string().as_str()), "{WHAT_TO_DO}");
    let digests = fs::read_to_string(folder().join("DIGESTS")).unwrap();
    let known = parse_digests(&digests).unwrap();
    assert_eq!(known.get(&WIRE_VERSION), Some(&digest(kept)), "{WHAT_TO_DO}");
    assert_eq!(known.keys().next_back(), Some(&WIRE_VERSION), "the wire version went back");
}

#[test]
fn vectors_are_read_as_what_they_are() {
    let kept = &*KEPT;
    for message in samples::messages() {
        let name = format!("message-{}", MESSAGES[samples::message_index(&message)]);
        assert_eq!(Message::decode(&kept[&name]), Ok(message), "{name}");
    }
    for record in samples::records() {
        let name = format!("record-{}", RECORDS[samples::record_index(&record)]);
        assert_eq!(wire::decode::<Record>(&kept[&name], MESSAGE_BYTES_MAX), Ok(record), "{name}");
    }
    for name in ["genesis-model", "genesis-tensors"] {
        let genesis = Genesis::from_bytes(&kept[name]).unwrap();
        let run_id = &kept[&format!("{name}-run-id")];
        assert_eq!(&genesis.run_id().0[..], run_id);
        // A genesis is fetched by its run id, which therefore is the plain hash of its bytes.
        assert_eq!(&blake3::hash(&kept[name]).as_bytes()[..], run_id);
    }
    for codec in Codec::ALL {
        let name = format!("payload-{}", codec.name());
        assert_eq!(samples::decoded(codec, &kept[&name]), kept[&format!("{name}-values")]);
    }
}

#[test]
fn there_is_a_vector_for_each_kind() {
    for name in MESSAGES.map(|name| format!("message-{name}")) {
        assert!(samples::vectors().contains_key(&name), "no sample of {name}");
    }
    for name in RECORDS.map(|name| format!("record-{name}")) {
        assert!(samples::vectors().contains_key(&name), "no sample of {name}");
    }
}

#[test]
fn vectors_change_only_with_the_version() {
    let known = parse_digests("1 aa\n2 bb\n").unwrap();
    assert_eq!(may_write(&known, 2, "bb"), Ok(Write::Same));
    assert_eq!(may_write(&known, 3, "cc"), Ok(Write::New));
    assert!(may_write(&known, 2, "cc").unwrap_err().contains("raise WIRE_VERSION"));
    assert!(may_write(&known, 1, "cc").unwrap_err().contains("raise WIRE_VERSION"));
    let gap = parse_digests("2 bb\n").unwrap();
    assert!(may_write(&gap, 1, "aa").unwrap_err().contains("raise WIRE_VERSION"));
    assert_eq!(may_write(&BTreeMap::new(), 1, "aa"), Ok(Write::New));
}

#[test]
fn a_digest_notices_every_change() {
    let one = |name: &str, bytes: &[u8]| digest(&[(name.to_owned(), bytes.to_vec())].into());
    assert_ne!(one("a", b"x"), one("a", b"y"));
    assert_ne!(one("a", b"x"), one("b", b"x"));
    assert_ne!(one("a", b"x"), digest(&BTreeMap::new()));
    assert!(parse_digests("one aa").is_none() && parse_digests("1 aa\n1 bb").is_none());
}

#[test]
fn hexadecimal_comes_back() {
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
    assert_eq!(from_hex("0g"), None);
    assert_eq!(from_hex("012"), None);
}

type Vectors = BTreeMap<String, Vec<u8>>;

/// What the files hold; they are written first if the environment asks for it.
static KEPT: LazyLock<Vectors> = LazyLock::new(|| {
    if std::env::var_os("ATOLL_WRITE_VECTORS").is_some_and(|value| value == "1") {
        write(&samples::vectors());
    }
    read()
});

/// Whether vectors with this digest may be written for `version`.
fn may_write(known: &BTreeMap<u16, String>, version: u16, digest: &str) -> Result<Write, String> {
    match known.get(&version) {
        Some(known) if known == digest => Ok(Write::Same),
        None if known.keys().all(|older| *older < version) => Ok(Write::New),
        _ => Err(format!(
            "not written: version {version} has other vectors already. If the bytes are meant to \
             change, raise WIRE_VERSION above {:?} in protocol/src/wire/version.rs",
            known.keys().next_back()
        )),
    }
}

#[derive(Debug, PartialEq)]
enum Write {
    /// The version has these vectors.
    Same,
    /// The version is new.
    New,
}

fn write(vectors: &Vectors) {
    let path = folder().join("DIGESTS");
    let mut digests = fs::read_to_string(&path).unwrap_or_default();
    let known = parse_digests(&digests).expect("DIGESTS has lines of a version and a hash");
    let digest = digest(vectors);
    if may_write(&known, WIRE_VERSION, &digest).unwrap_or_else(|reason| panic!("{reason}"))
        == Write::New
    {
        digests.push_str(&format!("{WIRE_VERSION} {digest}\n"));
    }
    for name in read().keys().filter(|name| !vectors.contains_key(*name)) {
        fs::remove_file(folder().join(name).with_extension("hex")).unwrap();
    }
    for (name, bytes) in vectors {
        fs::write(folder().join(name).with_extension("hex"), to_hex(bytes)).unwrap();
    }
    fs::write(folder().join("VERSION"), format!("{WIRE_VERSION}\n")).unwrap();
    fs::write(path, digests).unwrap();
}

fn read() -> Vectors {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "hex"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let bytes = from_hex(&fs::read_to_string(&path).unwrap());
            let bytes = bytes.unwrap_or_else(|| panic!("{name}.hex is not hexadecimal"));
            (name, bytes)
        })
        .collect()
}

fn digest(vectors: &Vectors) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in vectors.iter().flat_map(|(name, bytes)| [name.as_bytes(), bytes]) {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hasher.finalize().to_hex().to_string()
}

/// Lines of a version and a hash; none if a line is anything else or a version comes twice.
fn parse_digests(text: &str) -> Option<BTreeMap<u16, String>> {
    let mut digests = BTreeMap::new();
    for line in text.lines() {
        let (version, digest) = line.split_once(' ')?;
        if digests.insert(version.parse().ok()?, digest.to_owned()).is_some() {
            return None;
        }
    }
    Some(digests)
}

fn to_hex(bytes: &[u8]) -> String {
    let line =
        |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    bytes.chunks(HEX_LINE_BYTES).map(|bytes| line(bytes) + "\n").collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|digit| !digit.is_whitespace())
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

const HEX_LINE_BYTES: usize = 32;

const WHAT_TO_DO: &str = "If this was not meant, old and new nodes would not understand each \
    other: take the change back. If it was, raise WIRE_VERSION in protocol/src/wire/version.rs and \
    run `ATOLL_WRITE_VECTORS=1 cargo test -p atoll-tests --test wire_vectors`";
