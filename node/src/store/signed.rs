//! What this node signed and how often it was started, beside the database.
//!
//! A node must never sign twice for one round, not even after its database is lost. So each own
//! contribution is a line of this small file before it is a record. A line carries a checksum;
//! lines are only ever added, and what a crash cut off at the end was never acknowledged.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use atoll_protocol::contribution::Header;
use atoll_protocol::id::{FragmentId, RunId, Version};

use super::error::{SIGNED, StoreError};
use super::file;

/// The file of signed rounds.
#[derive(Debug)]
pub(super) struct Signed {
    path: PathBuf,
    run: RunId,
    file: File,
    /// Bytes of whole lines.
    length: u64,
    slots: Slots,
}

/// What the lines say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slots {
    incarnation: u64,
    floors: BTreeMap<FragmentId, Version>,
}

/// What a look at the file found.
enum Found {
    /// Whole lines up to this byte.
    Whole(Slots, u64),
    /// A line that was acknowledged is no longer what it was.
    Damaged(Slots),
    Missing,
}

impl Signed {
    /// Opens the file, or makes one.
    ///
    /// If it is damaged or gone, `floors` has to say which rounds may have been signed, from what
    /// the records still hold; the damaged file is kept aside, and the second value says where.
    pub(super) fn open(
        path: &Path,
        run: RunId,
        floors: impl FnOnce() -> Result<BTreeMap<FragmentId, Version>, StoreError>,
    ) -> Result<(Self, Option<PathBuf>), StoreError> {
        let (slots, kept) = match look(path, run)? {
            Found::Whole(slots, length) if length <= LENGTH_MAX => {
                return Ok((Self::at(path, run, slots, length)?, None));
            }
            Found::Whole(slots, _) => (slots, None),
            Found::Damaged(mut slots) => {
                slots.raise(floors()?);
                let folder = path.parent().unwrap_or(path);
                (slots, Some(file::move_aside(path, folder)?))
            }
            Found::Missing => {
                let mut slots = Slots::default();
                slots.raise(floors()?);
                (slots, None)
            }
        };
        let text = slots.to_text(run);
        file::replace(path, text.as_bytes())?;
        Ok((Self::at(path, run, slots, text.len() as u64)?, kept))
    }

    /// The highest round of `fragment` that may have been signed for.
    pub(super) fn floor(&self, fragment: FragmentId) -> Version {
        self.slots.floors.get(&fragment).copied().unwrap_or(0)
    }

    /// How often the node was started.
    pub(super) fn incarnation(&self) -> u64 {
        self.slots.incarnation
    }

    /// Counts a start. Durable on return.
    pub(super) fn begin(&mut self, incarnation: u64) -> Result<(), StoreError> {
        self.append(&line(self.run, &format!("incarnation {incarnation}")))?;
        self.slots.incarnation = incarnation;
        Ok(())
    }

    /// Notes own contributions. Durable on return; what it returns takes them back, should their
    /// records not come to be written.
    pub(super) fn sign(&mut self, headers: &[Header]) -> Result<Undo, StoreError> {
        let undo = Undo { length: self.length, floors: self.slots.floors.clone() };
        if headers.is_empty() {
            return Ok(undo);
        }
        let text: String = headers
            .iter()
            .map(|header| {
                let (fragment, round) = (header.fragment.0, header.round);
                line(self.run, &format!("signed {fragment} {round} {}", header.id().to_hex()))
            })
            .collect();
        self.append(&text)?;
        for header in headers {
            let floor = self.slots.floors.entry(header.fragment).or_default();
            *floor = (*floor).max(header.round);
        }
        Ok(undo)
    }

    /// Takes back what [`Signed::sign`] noted last.
    pub(super) fn undo(&mut self, undo: Undo) {
        if self.length != undo.length && self.file.set_len(undo.length).is_ok() {
            self.length = undo.length;
            self.slots.floors = undo.floors;
        }
    }

    /// Bytes on the disk.
    pub(super) fn bytes(&self) -> u64 {
        self.length
    }

    fn at(path: &Path, run: RunId, slots: Slots, length: u64) -> Result<Self, StoreError> {
        let open = || {
            let file = OpenOptions::new().append(true).open(path)?;
            // What follows the whole lines was cut off by a crash.
            file.set_len(length)?;
            Ok(file)
        };
        let file = open().map_err(StoreError::file(path))?;
        Ok(Self { path: path.to_owned(), run, file, length, slots })
    }

    fn append(&mut self, text: &str) -> Result<(), StoreError> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        if let Err(error) = written {
            // Half a line would pass for a damaged one once another follows it.
            let _ = self.file.set_len(self.length);
            return Err(StoreError::file(&self.path)(error));
        }
        self.length += text.len() as u64;
        Ok(())
    }
}

/// How to take back the last own contributions.
#[derive(Debug)]
pub(super) struct Undo {
    length: u64,
    floors: BTreeMap<FragmentId, Version>,
}

impl Slots {
    fn raise(&mut self, floors: BTreeMap<FragmentId, Version>) {
        for (fragment, round) in floors {
            let floor = self.floors.entry(fragment).or_default();
            *floor = (*floor).max(round);
        }
    }

    fn to_text(&self, run: RunId) -> String {
        let mut text = line(run, &format!("incarnation {}", self.incarnation));
        for (fragment, round) in &self.floors {
            text += &line(run, &format!("signed {} {round} -", fragment.0));
        }
        text
    }

    /// Takes in what a line says; false if it says nothing that this program knows.
    fn take(&mut self, words: &str) -> bool {
        let words: Vec<&str> = words.split(' ').collect();
        match words[..] {
            ["incarnation", number] => {
                let Ok(number) = number.parse() else { return false };
                self.incarnation = self.incarnation.max(number);
            }
            ["signed", fragment, round, _] => {
                let (Ok(fragment), Ok(round)) = (fragment.parse(), round.parse()) else {
                    return false;
                };
                self.raise(BTreeMap::from([(FragmentId(fragment), round)]));
            }
            _ => return false,
        }
        true
    }
}

/// Whether the file can be read to its end, for a repair that has nothing else to go by.
pub(super) fn require_whole(path: &Path, run: RunId) -> Result<(), StoreError> {
    match look(path, run)? {
        Found::Whole(..) => Ok(()),
        Found::Damaged(_) => Err(StoreError::corrupt(path, SIGNED, "a line fails its checksum")),
        Found::Missing => Err(StoreError::corrupt(path, SIGNED, "the file is gone")),
    }
}

fn look(path: &Path, run: RunId) -> Result<Found, StoreError> {
    let Some(bytes) = file::read(path)? else { return Ok(Found::Missing) };
    let mut slots = Slots::default();
    let mut whole = 0;
    let mut damaged = false;
    for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
        let words = piece.strip_suffix(b"\n").and_then(|text| checked(run, text));
        if words.is_some_and(|words| slots.take(words)) {
            whole += piece.len();
        } else if piece.ends_with(b"\n") {
            damaged = true;
        } else if let Some((_, text)) = piece.split_last()
            && checked(run, text).is_some_and(|words| slots.take(words))
        {
            // All of the line is there but its end: nothing that a crash could do.
            damaged = true;
        }
    }
    Ok(if damaged { Found::Damaged(slots) } else { Found::Whole(slots, whole as u64) })
}

/// The words of a line without its end, if its checksum is right.
fn checked(run: RunId, text: &[u8]) -> Option<&str> {
    let (words, check) = std::str::from_utf8(text).ok()?.rsplit_once(' ')?;
    (checksum(run, words) == check).then_some(words)
}

fn line(run: RunId, words: &str) -> String {
    format!("{words} {}\n", checksum(run, words))
}

fn checksum(run: RunId, words: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&run.0).update(words.as_bytes());
    data_encoding::HEXLOWER.encode(&hasher.finalize().as_bytes()[..8])
}

/// Beyond this the file is written anew with one line for each fragment.
const LENGTH_MAX: u64 = 1 << 18;

#[cfg(test)]
mod tests {
    use std::fs;

    use atoll_protocol::id::{ContentId, NodeId};

    use super::*;

    const RUN: RunId = RunId([3; 32]);

    fn header(fragment: u16, round: Version) -> Header {
        Header {
            author: NodeId([1; 32]),
            fragment: FragmentId(fragment),
            round,
            base: 0,
            tokens: 1,
            steps: 1,
            payload: ContentId([2; 32]),
            payload_bytes: 1,
        }
    }

    fn open(path: &Path) -> (Signed, Option<PathBuf>) {
        Signed::open(path, RUN, || Ok(BTreeMap::from([(FragmentId(0), 50)]))).unwrap()
    }

    fn written(path: &Path) {
        let (mut signed, _) = Signed::open(path, RUN, || Ok(BTreeMap::new())).unwrap();
        signed.begin(4).unwrap();
        signed.sign(&[header(0, 7), header(1, 9)]).unwrap();
        signed.sign(&[header(0, 8)]).unwrap();
    }

    #[test]
    fn floors_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signed");
        written(&path);
        let (mut signed, kept) = open(&path);
        assert_eq!((signed.floor(FragmentId(0)), signed.floor(FragmentId(1))), (8, 9));
        assert_eq!((signed.floor(FragmentId(2)), signed.incarnation(), kept), (0, 4, None));
        let undo = signed.sign(&[header(2, 1)]).unwrap();
        signed.undo(undo);
        assert_eq!(signed.floor(FragmentId(2)), 0);
        assert_eq!(open(&path).0.slots, signed.slots);
    }

    #[test]
    fn an_end_that_was_cut_off_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signed");
        written(&path);
        let whole = fs::read(&path).unwrap();
        let last = whole[..whole.len() - 1].iter().rposition(|it| *it == b'\n').unwrap() + 1;
        for cut in last..whole.len() - 1 {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut signed, kept) = open(&path);
            assert_eq!((signed.floor(FragmentId(0)), &kept), (7, &None), "{cut}");
            signed.sign(&[header(0, 9)]).unwrap();
            assert_eq!(open(&path).0.floor(FragmentId(0)), 9, "{cut}");
        }
        let zeros = [&whole[..last], &[0; 40]].concat();
        fs::write(&path, zeros).unwrap();
        assert_eq!(open(&path).0.floor(FragmentId(0)), 7);
    }

    #[test]
    fn a_flipped_bit_anywhere_raises_the_floor_to_what_the_records_allow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signed");
        written(&path);
        let whole = fs::read(&path).unwrap();
        for bit in (0..whole.len() * 8).step_by(23) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            assert!(require_whole(&path, RUN).is_err(), "{bit}");
            let (signed, kept) = open(&path);
            assert_eq!(signed.floor(FragmentId(0)), 50, "{bit}");
            assert_eq!(fs::read(kept.unwrap()).unwrap(), bytes);
            assert!(require_whole(&path, RUN).is_ok());
        }
    }

    #[test]
    fn another_run_or_none_is_no_list_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signed");
        assert!(require_whole(&path, RUN).is_err());
        assert_eq!(open(&path).0.floor(FragmentId(0)), 50);
        assert!(require_whole(&path, RunId([4; 32])).is_err());
    }

    #[test]
    fn a_long_file_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signed");
        let text: String =
            (1..20_000).map(|round| line(RUN, &format!("signed 0 {round} -"))).collect();
        fs::write(&path, text + &line(RUN, "incarnation 3")).unwrap();
        let (signed, kept) = open(&path);
        assert_eq!((signed.floor(FragmentId(0)), signed.incarnation(), kept), (19_999, 3, None));
        assert!(fs::metadata(&path).unwrap().len() < 200);
    }
}
