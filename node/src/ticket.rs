//! A ticket: the text that people paste to each other to join a run.
//!
//! It names the run and some addresses to begin at. It is not secret unless it carries an
//! invitation, and even that serves only the node it was made for.

use std::str::FromStr;

use atoll_protocol::crypto::Signed;
use atoll_protocol::id::{NodeId, RunId};
use atoll_protocol::roster::Invite;
use atoll_protocol::wire;
use atoll_protocol::wire::version::WIRE_VERSION;
use data_encoding::{Encoding, Specification};
use serde::{Deserialize, Serialize};

/// How to find a run and, where its roster asks for it, the right to contribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Which run.
    pub run: RunId,
    /// What its people call it.
    pub name: String,
    /// Addresses of bootstraps, each ending in `/p2p/` and a peer id.
    pub bootstrap: Vec<String>,
    /// Addresses of nodes, each ending in `/p2p/` and a peer id.
    pub peers: Vec<String>,
    /// The node that wrote it. Whoever comes with the ticket goes on from where this one says that
    /// the run stands.
    pub sponsor: Option<NodeId>,
    /// A steward's word that one node may contribute.
    pub invite: Option<Signed<Invite>>,
}

/// Why a text is no ticket, or a ticket cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Something else was pasted.
    #[error(
        "`{0}` is not a ticket\n\
         hint: a ticket begins with `{PREFIX}` and is one long word; `atoll new`, \
         `atoll run` and `atoll invite` print one"
    )]
    NotATicket(String),
    /// A character that no ticket has.
    #[error(
        "the ticket is mistyped: {character:?}, character {position}, cannot be in a ticket\n\
         hint: copy the whole ticket again; it has only small letters and the digits 2 to 7"
    )]
    Character {
        /// The character.
        character: char,
        /// Which one of the text it is, from 1.
        position: usize,
    },
    /// Characters differ, or some are missing.
    #[error(
        "the ticket is mistyped or cut short: its checksum differs\n\
         hint: copy the whole ticket again, from `{PREFIX}` to its last character"
    )]
    Checksum,
    /// A program that came later made it.
    #[error(
        "the ticket is of version {version}, this program knows version {known}\n\
         hint: get the newest atoll, or a ticket made by a node of this version"
    )]
    Version {
        /// The version of the ticket or of the wire.
        version: u16,
        /// What this program knows.
        known: u16,
    },
    /// It holds values that none may have.
    #[error("the ticket is refused: {0}\nhint: ask whoever made it for another one")]
    Refused(String),
    /// There is too much in it.
    #[error(
        "the ticket would have {characters} characters, {TICKET_CHARACTERS_MAX} are allowed\n\
         hint: name fewer addresses"
    )]
    TooLong {
        /// How many.
        characters: usize,
    },
}

impl Ticket {
    /// Whether a text is meant to be a ticket, of whatever version: runs may be called alike, but
    /// not at such length.
    pub fn is_meant(text: &str) -> bool {
        let rest = text.strip_prefix(WORD).filter(|_| text.len() >= CHARACTERS_MIN);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// The text to paste.
    pub fn encode(&self) -> Result<String, TicketError> {
        self.check()?;
        let mut bytes = WIRE_VERSION.to_le_bytes().to_vec();
        bytes.extend_from_slice(&wire::encode(self));
        bytes.extend_from_slice(&checksum(PREFIX, &bytes));
        let text = format!("{PREFIX}{}", base32().encode(&bytes));
        if text.len() > TICKET_CHARACTERS_MAX {
            return Err(TicketError::TooLong { characters: text.len() });
        }
        Ok(text)
    }

    /// Values that would do harm when they are shown or dialled are refused.
    fn check(&self) -> Result<(), TicketError> {
        let refuse = |reason: String| Err(TicketError::Refused(reason));
        // The rule of the genesis, so that no name can play tricks with a terminal.
        let visible = |c: char| c.is_ascii_graphic() || c.is_alphanumeric() || c == ' ';
        let length = self.name.chars().count();
        if !(1..=NAME_CHARACTERS_MAX).contains(&length) || !self.name.chars().all(visible) {
            let name = self.name.escape_debug();
            return refuse(format!(
                "the name `{name}` has not 1 to {NAME_CHARACTERS_MAX} visible characters"
            ));
        }
        for (what, addresses) in [("bootstrap", &self.bootstrap), ("peer", &self.peers)] {
            if addresses.len() > ADDRESSES_MAX {
                let count = addresses.len();
                return refuse(format!("{count} {what} addresses, {ADDRESSES_MAX} are allowed"));
            }
            for address in addresses {
                let graphic = address.bytes().all(|byte| byte.is_ascii_graphic());
                if !graphic || !address.starts_with('/') || address.len() > ADDRESS_BYTES_MAX {
                    let address = address.escape_debug();
                    return refuse(format!("the {what} address `{address}` is no multiaddress"));
                }
            }
        }
        match &self.invite {
            Some(invite) if invite.clone().verify(self.run).is_none() => {
                refuse("its invitation is not signed for this run".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        // Mail and chat break long words into lines; no ticket has a space in it.
        let text: String =
            text.chars().filter(|c| !c.is_whitespace()).take(TICKET_CHARACTERS_MAX + 1).collect();
        let (prefix, body) = split(&text)?;
        if text.len() > TICKET_CHARACTERS_MAX {
            return Err(TicketError::TooLong { characters: text.len() });
        }
        if let Some(position) = body.find(|c| !ALPHABET.contains(c)) {
            let character = body[position..].chars().next().unwrap_or_default();
            return Err(TicketError::Character {
                character,
                position: PREFIX.len() + position + 1,
            });
        }
        // Only a wrong length or wrong last bits are left to complain about.
        let bytes = base32().decode(body.as_bytes()).map_err(|_| TicketError::Checksum)?;
        let (content, sum) = bytes.split_last_chunk::<4>().ok_or(TicketError::Checksum)?;
        if checksum(prefix, content) != *sum {
            return Err(TicketError::Checksum);
        }
        let (version, content) = content.split_first_chunk::<2>().ok_or(TicketError::Checksum)?;
        let version = u16::from_le_bytes(*version);
        if version != WIRE_VERSION {
            return Err(TicketError::Version { version, known: WIRE_VERSION });
        }
        let ticket = if prefix == PREFIX_UNSPONSORED {
            wire::decode::<Unsponsored>(content, TICKET_CHARACTERS_MAX).map(Self::from)
        } else {
            wire::decode(content, TICKET_CHARACTERS_MAX)
        };
        let ticket = ticket.map_err(|error| TicketError::Refused(error.to_string()))?;
        ticket.check()?;
        Ok(ticket)
    }
}

/// What a ticket held before it named who wrote it.
#[derive(Serialize, Deserialize)]
struct Unsponsored {
    run: RunId,
    name: String,
    bootstrap: Vec<String>,
    peers: Vec<String>,
    invite: Option<Signed<Invite>>,
}

impl From<Unsponsored> for Ticket {
    fn from(old: Unsponsored) -> Self {
        let Unsponsored { run, name, bootstrap, peers, invite } = old;
        Self { run, name, bootstrap, peers, sponsor: None, invite }
    }
}

/// The prefix, of a version that is known, and what follows.
fn split(text: &str) -> Result<(&str, &str), TicketError> {
    let refuse = || TicketError::NotATicket(shown(text));
    let rest = text.strip_prefix(WORD).ok_or_else(refuse)?;
    let digit = rest.chars().next().and_then(|c| c.to_digit(10)).ok_or_else(refuse)?;
    match u16::try_from(digit) {
        Ok(1..=TICKET_VERSION) => Ok(text.split_at(PREFIX.len())),
        Ok(version) if version > 0 => Err(TicketError::Version { version, known: TICKET_VERSION }),
        _ => Err(refuse()),
    }
}

/// The beginning of what was pasted instead.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARACTERS).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown.escape_debug().to_string()
}

fn checksum(prefix: &str, content: &[u8]) -> [u8; 4] {
    let hash = blake3::Hasher::new().update(prefix.as_bytes()).update(content).finalize();
    let mut sum = [0; 4];
    sum.copy_from_slice(&hash.as_bytes()[..4]);
    sum
}

fn base32() -> Encoding {
    let mut specification = Specification::new();
    specification.symbols.push_str(ALPHABET);
    specification.encoding().expect("32 different symbols are an encoding")
}

/// Characters of a ticket: what any chat lets people paste.
pub const TICKET_CHARACTERS_MAX: usize = 8 * 1024;

/// Shorter than any ticket.
const CHARACTERS_MIN: usize = 40;
const WORD: &str = "atoll";
const TICKET_VERSION: u16 = 2;
/// The word and the version of the text's form.
const PREFIX: &str = "atoll2";
const PREFIX_UNSPONSORED: &str = "atoll1";
/// RFC 4648 in small letters, without padding.
const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz234567";
const NAME_CHARACTERS_MAX: usize = 64;
/// More would make the text long and the dialling no surer.
const ADDRESSES_MAX: usize = 16;
const ADDRESS_BYTES_MAX: usize = 256;
const SHOWN_CHARACTERS: usize = 24;

#[cfg(test)]
mod tests {
    use atoll_protocol::testkit::key;
    use proptest::prelude::*;

    use super::*;

    fn ticket() -> Ticket {
        let (steward, run) = (key(1), RunId([7; 32]));
        let body = Invite { steward: steward.node(), node: key(2).node(), last_round: 500 };
        Ticket {
            run,
            name: "reef".into(),
            bootstrap: vec!["/dns/boot.example/udp/4001/quic-v1/p2p/12D3KooWBoot".into()],
            peers: vec!["/ip4/10.0.0.7/tcp/4001/p2p/12D3KooWPeer".into()],
            sponsor: Some(steward.node()),
            invite: Some(steward.sign(run, body)),
        }
    }

    fn refused(text: &str) -> TicketError {
        text.parse::<Ticket>().unwrap_err()
    }

    #[test]
    fn what_is_no_ticket_is_told_apart_from_what_is_mistyped() {
        let text = ticket().encode().unwrap();
        for other in ["", "atoll", "atollx", "atoll0aa", "hello", "ATOLL1aa", "\u{1b}[2J"] {
            assert!(matches!(refused(other), TicketError::NotATicket(_)), "{other:?}");
        }
        assert!(!refused("\u{1b}[2J").to_string().contains('\u{1b}'));
        let long = format!("https://{}", "x".repeat(99));
        assert!(refused(&long).to_string().starts_with("`https://xxxxxxxxxxxxxxxx...` is not"));
        let newer = TicketError::Version { version: 3, known: 2 };
        assert_eq!(refused(&text.replacen('2', "3", 1)), newer);
        assert_eq!(refused("atoll2"), TicketError::Checksum);
        assert_eq!(refused(&text[..text.len() - 8]), TicketError::Checksum);
        assert_eq!(
            refused(&text.replacen("atoll2a", "atoll2A", 1)),
            TicketError::Character { character: 'A', position: 7 }
        );
        for error in [refused("x"), newer, TicketError::Checksum, refused("atoll2é")] {
            assert!(error.to_string().contains("\nhint: "), "{error}");
        }
    }

    #[test]
    fn a_ticket_of_a_newer_wire_is_not_called_mistyped() {
        let mut bytes = (WIRE_VERSION + 1).to_le_bytes().to_vec();
        bytes.extend_from_slice(b"whatever it holds");
        bytes.extend_from_slice(&checksum(PREFIX, &bytes));
        let error = refused(&format!("{PREFIX}{}", base32().encode(&bytes)));
        let (version, known) = (WIRE_VERSION + 1, WIRE_VERSION);
        assert_eq!(error, TicketError::Version { version, known });
    }

    #[test]
    fn a_ticket_from_before_sponsors_is_read_without_one() {
        let Ticket { run, name, bootstrap, peers, invite, .. } = ticket();
        let old = Unsponsored { run, name, bootstrap, peers, invite };
        let mut bytes = WIRE_VERSION.to_le_bytes().to_vec();
        bytes.extend_from_slice(&wire::encode(&old));
        bytes.extend_from_slice(&checksum(PREFIX_UNSPONSORED, &bytes));
        let text = format!("{PREFIX_UNSPONSORED}{}", base32().encode(&bytes));
        assert_eq!(text.parse::<Ticket>().unwrap(), Ticket { sponsor: None, ..ticket() });
        // It cannot pass for one of the other version.
        assert_eq!(refused(&text.replacen('1', "2", 1)), TicketError::Checksum);
        assert_eq!(PREFIX, format!("{WORD}{TICKET_VERSION}"));
    }

    #[test]
    fn lines_and_spaces_of_a_chat_do_no_harm() {
        let text = ticket().encode().unwrap();
        let broken: String = text
            .chars()
            .enumerate()
            .flat_map(|(at, c)| (at % 60 == 59).then_some('\n').into_iter().chain([c]))
            .collect();
        assert_eq!(format!("  {broken}\r\n").parse::<Ticket>().unwrap(), ticket());
    }

    #[test]
    fn bounds_hold_both_ways() {
        let harm = |change: fn(&mut Ticket)| {
            let mut ticket = ticket();
            change(&mut ticket);
            let mut bytes = WIRE_VERSION.to_le_bytes().to_vec();
            bytes.extend_from_slice(&wire::encode(&ticket));
            bytes.extend_from_slice(&checksum(PREFIX, &bytes));
            let read = refused(&format!("{PREFIX}{}", base32().encode(&bytes)));
            (ticket.encode().unwrap_err().to_string(), read.to_string())
        };
        type Change = fn(&mut Ticket);
        let cases: [(Change, &str); 6] = [
            (|it| it.name.clear(), "the name ``"),
            (|it| it.name = "\u{1b}[31mred".into(), "the name `\\u{1b}[31mred`"),
            (|it| it.peers[0] = "10.0.0.7:4001".into(), "no multiaddress"),
            (|it| it.peers[0].push('\n'), "no multiaddress"),
            (|it| it.bootstrap = vec!["/ip4/1.2.3.4".into(); 17], "17 bootstrap addresses"),
            (|it| it.run = RunId([8; 32]), "not signed for this run"),
        ];
        for (change, said) in cases {
            let (written, read) = harm(change);
            assert!(written.contains(said) && read.contains(said), "{written}, {read}");
        }
        let mut long = ticket();
        long.peers = vec![format!("/dns/{}", "x".repeat(250)); 16];
        long.bootstrap = long.peers.clone();
        assert!(matches!(long.encode(), Err(TicketError::TooLong { characters: 8193.. })));
        let text = format!("{PREFIX}{}", "a".repeat(1 << 20));
        assert!(matches!(refused(&text), TicketError::TooLong { .. }));
    }

    #[test]
    fn every_other_symbol_at_every_place_is_refused() {
        let text = ticket().encode().unwrap();
        let symbols: Vec<char> = ('0'..='9').chain('a'..='z').chain('A'..='Z').collect();
        for (at, before) in text.char_indices() {
            for symbol in symbols.iter().filter(|symbol| **symbol != before) {
                let changed = format!("{}{symbol}{}", &text[..at], &text[at + 1..]);
                assert!(changed.parse::<Ticket>().is_err(), "{symbol} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_ticket_is_read_as_it_was_written(
            run: [u8; 32], name in "[a-z0-9é][a-z é]{0,30}[a-z]",
            bootstrap in prop::collection::vec("/[!-~]{0,60}", 0..4),
            peers in prop::collection::vec("/[!-~]{0,60}", 0..4),
            node: [u8; 32], last_round: u32, invited: bool,
        ) {
            let (steward, run) = (key(1), RunId(run));
            let body = Invite { steward: steward.node(), node: atoll_protocol::id::NodeId(node),
                last_round };
            let invite = invited.then(|| steward.sign(run, body));
            let sponsor = invited.then(|| steward.node());
            let ticket = Ticket { run, name, bootstrap, peers, sponsor, invite };
            let text = ticket.encode().unwrap();
            prop_assert!(text.len() <= TICKET_CHARACTERS_MAX);
            prop_assert_eq!(text.parse::<Ticket>().unwrap(), ticket);
        }

        #[test]
        fn any_changed_character_is_refused(at: prop::sample::Index, to: char) {
            let text: Vec<char> = ticket().encode().unwrap().chars().collect();
            let mut changed = text.clone();
            let at = at.index(text.len());
            changed[at] = to;
            prop_assume!(changed != text);
            let changed: String = changed.into_iter().collect();
            prop_assert!(changed.parse::<Ticket>().is_err());
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<Ticket>();
            let _ = format!("{PREFIX}{text}").parse::<Ticket>();
        }
    }
}
