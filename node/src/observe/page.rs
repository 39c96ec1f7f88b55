//! The status as a page for people: `atoll status`.

use std::fmt::Write;
use std::time::Duration;

use atoll_protocol::frontier::Standing;

use super::status::{How, Peer, Reachable, Status, YesNo};
use crate::units::{bytes, count, span};

/// The status as a page of at most 79 columns.
pub fn render(status: &Status) -> String {
    let mut page = String::new();
    heading(&mut page, status);
    gauges(&mut page, status);
    training(&mut page, status);
    fragments(&mut page, status);
    peers(&mut page, &status.peers);
    receipts(&mut page, status);
    for warning in &status.warnings {
        page.push('\n');
        paragraph(&mut page, "warning: ", &warning.message);
        paragraph(&mut page, "hint: ", &warning.hint);
    }
    page
}

fn heading(page: &mut String, status: &Status) {
    let run = status.run.to_hex();
    line(page, &format!("{}, run {}", cut(&status.name, NAME_COLUMNS), &run[..16]));
    let standing = match status.standing {
        Standing::Joining => "joining",
        Standing::CaughtUp => "caught up",
        Standing::Muted => "muted",
    };
    let up = span(Duration::from_secs(status.uptime_s));
    let (node, start, program) = (status.node, status.incarnation, cut(&status.program, 16));
    line(page, &format!("node {node}, {standing}, up {up} (start {start}), atoll {program}"));
    page.push('\n');
}

fn gauges(page: &mut String, status: &Status) {
    let gauges = &status.gauges;
    let window = span(Duration::from_secs(gauges.alive_window_s));
    let peers = plural(gauges.alive.into(), "peer");
    row(page, "alive", &format!("{peers} heard from in the last {window}"));
    row(page, "reachable", reachable(gauges.reachable));
    let merged = &gauges.merged_in_last_round;
    let yes = merged.fragments.iter().filter(|it| **it).count();
    let fragments = plural(merged.fragments.len() as u64, "fragment");
    row(page, "merged", &format!("in the last round of {yes} of {fragments}"));
    let staleness = match gauges.staleness {
        0 => "none: at the newest version seen".to_owned(),
        behind => format!("{} behind the newest seen", plural(behind.into(), "version")),
    };
    row(page, "staleness", &staleness);
    page.push('\n');
}

fn reachable(reachable: Reachable) -> &'static str {
    match (reachable.answer, reachable.how) {
        (YesNo::Yes, Some(How::Direct)) => "yes, directly",
        (YesNo::Yes, Some(How::Relayed)) => "yes, through a relay",
        (YesNo::Yes, Some(How::HolePunched)) => "yes, by hole punching",
        (YesNo::Yes, None) => "yes",
        (YesNo::No, _) => "no; it can only call others (`atoll doctor` tells why)",
        (YesNo::Unknown, _) => "not known yet",
    }
}

fn training(page: &mut String, status: &Status) {
    let (loss, training) = (&status.loss, &status.training);
    let number = |loss: Option<f64>| loss.map_or_else(|| "?".into(), |loss| format!("{loss:.4}"));
    row(
        page,
        "loss",
        &format!(
            "{}, smoothed {}, held out {}",
            number(loss.last),
            number(loss.smoothed),
            number(loss.held_out)
        ),
    );
    row(
        page,
        "training",
        &format!(
            "step {}, {:.0} tokens/s, {:.0} ms a step, {:.1} % of the time",
            training.step,
            training.tokens_per_s,
            training.step_ms,
            training.training_share * 100.0
        ),
    );
    // Each token counts once for each fragment; people think of it as one token.
    let each = status.fragments.len().max(1) as u64;
    let fates = &status.fates;
    let tokens = |tokens: u64| count(tokens / each);
    let settled = [(fates.merged, "merged"), (fates.pending, "pending"), (fates.fresh, "fresh")];
    let settled = settled.map(|(amount, fate)| format!("{} {fate}", tokens(amount)));
    row(page, "tokens", &format!("{} trained: {},", tokens(fates.trained), settled.join(", ")));
    let (reissued, orphaned) = (tokens(fates.reissued), tokens(fates.orphaned));
    row(page, "", &format!("{reissued} to be issued again, {orphaned} lost"));
    let (control, content) = (&status.bytes.control, &status.bytes.content);
    row(
        page,
        "network",
        &format!("contents {} up, {} down,", bytes(content.up), bytes(content.down)),
    );
    row(page, "", &format!("control {} up, {} down", bytes(control.up), bytes(control.down)));
    let budget = status.disk.budget.map(|budget| format!(" of {}", bytes(budget)));
    row(page, "disk", &format!("{}{}", bytes(status.disk.used), budget.unwrap_or_default()));
}

fn fragments(page: &mut String, status: &Status) {
    if status.fragments.is_empty() {
        return;
    }
    page.push('\n');
    line(page, "fragment   version     base   behind   digest");
    for fragment in status.fragments.iter().take(ROWS_MAX) {
        let name = fragment.fragment.to_string();
        let (version, base, behind) = (fragment.version, fragment.base, fragment.staleness);
        let digest = fragment.digest;
        line(page, &format!("{name:<8}{version:>10}{base:>9}{behind:>9}   {digest}"));
    }
    more(page, status.fragments.len());
}

fn peers(page: &mut String, peers: &[Peer]) {
    if peers.is_empty() {
        return;
    }
    page.push('\n');
    line(page, "peer       standing    version       rtt   address");
    for peer in peers.iter().take(ROWS_MAX) {
        let standing = match peer.standing {
            Some(Standing::Joining) => "joining",
            Some(Standing::CaughtUp) => "caught up",
            Some(Standing::Muted) => "muted",
            None => "?",
        };
        let version = peer.version.map_or_else(|| "?".to_owned(), |it| it.to_string());
        let rtt = peer.rtt_ms.map_or_else(|| "?".to_owned(), |it| format!("{it:.0} ms"));
        let address = match (&peer.address, peer.relayed) {
            (_, true) => "through a relay",
            (Some(address), false) => address,
            (None, false) => "?",
        };
        let node = peer.node;
        let row = format!("{node}   {standing:<9}{version:>10}{rtt:>10}   {address}");
        line(page, &row);
    }
    more(page, peers.len());
}

fn receipts(page: &mut String, status: &Status) {
    if status.receipts.is_empty() {
        return;
    }
    page.push('\n');
    line(page, "own contribution   merged by");
    let skipped = status.receipts.len().saturating_sub(RECEIPTS_MAX);
    for receipt in &status.receipts[skipped..] {
        let (round, merged_by, of) = (receipt.round.to_string(), receipt.merged_by, receipt.of);
        let peers = plural(of.into(), "peer");
        line(page, &format!("{round:<19}{merged_by} of {peers}"));
    }
}

/// Says how many rows are not shown.
fn more(page: &mut String, rows: usize) {
    if rows > ROWS_MAX {
        let rows = rows - ROWS_MAX;
        line(page, &format!("and {rows} more; `atoll status --json` shows all"));
    }
}

fn row(page: &mut String, name: &str, text: &str) {
    line(page, &format!("{name:<12}{text}"));
}

fn line(page: &mut String, text: &str) {
    let _ = writeln!(page, "{}", cut(text.trim_end(), COLUMNS));
}

/// Words on as many lines as they need.
fn paragraph(page: &mut String, first: &str, text: &str) {
    let mut current = first.to_owned();
    let mut words = 0;
    for word in text.split_whitespace() {
        let word = cut(word, COLUMNS - first.len());
        if words > 0 && current.chars().count() + 1 + word.chars().count() > COLUMNS {
            line(page, &current);
            current = " ".repeat(first.len());
            words = 0;
        }
        if words > 0 {
            current.push(' ');
        }
        current.push_str(&word);
        words += 1;
    }
    line(page, &current);
}

/// The text, or its beginning and dots. What could move a terminal's cursor is left out.
fn cut(text: &str, columns: usize) -> String {
    let visible: String = text.chars().filter(|c| !c.is_control()).collect();
    if visible.chars().count() <= columns {
        return visible;
    }
    let mut cut: String = visible.chars().take(columns.saturating_sub(3)).collect();
    cut.push_str("...");
    cut
}

fn plural(amount: u64, one: &str) -> String {
    if amount == 1 { format!("1 {one}") } else { format!("{amount} {one}s") }
}

const COLUMNS: usize = 79;
const NAME_COLUMNS: usize = 56;
/// Rows of a table.
const ROWS_MAX: usize = 16;
const RECEIPTS_MAX: usize = 6;

#[cfg(test)]
mod tests {
    use atoll_protocol::id::{FragmentId, RoundId};

    use super::*;
    use crate::observe::status::{Fates, Fragment, Receipt, Training, Warning, example};

    #[test]
    fn a_page_looks_like_this() {
        let wanted = "\
reef, run 3f3f3f3f3f3f3f3f
node 12121212, caught up, up 2 h 14 min (start 3), atoll 0.1.0

alive       8 peers heard from in the last 30 s
reachable   yes, directly
merged      in the last round of 1 of 2 fragments
staleness   1 version behind the newest seen

loss        3.2142, smoothed 3.2301, held out 3.3000
training    step 12345, 1234 tokens/s, 412 ms a step, 98.1 % of the time
tokens      2.50 M trained: 2.00 M merged, 300 k pending, 200 k fresh,
            0 to be issued again, 0 lost
network     contents 12.3 GB up, 9.88 GB down,
            control 1.20 MB up, 3.40 MB down
disk        1.23 GB of 20.0 GB

fragment   version     base   behind   digest
f0              41       38        0   10101010
f1              40       37        1   11111111

peer       standing    version       rtt   address
cdcdcdcd   caught up        41     23 ms   /ip4/203.0.113.7/udp/4001/quic-v1
efefefef   ?                 ?         ?   through a relay

own contribution   merged by
f0/r40             8 of 8 peers
f0/r41             6 of 8 peers

warning: the clock is off by 3 min
hint: let the system set it: timedatectl set-ntp true
";
        let mut status = example::status();
        status.program = "0.1.0".into();
        assert_eq!(render(&status), wanted);
    }

    #[test]
    fn a_node_that_has_just_started_has_a_short_page() {
        let page = render(&Status::default());
        assert!(page.contains("\nreachable   not known yet\n"), "{page}");
        assert!(page.contains("\nloss        ?, smoothed ?, held out ?\n"), "{page}");
        assert_eq!(page.lines().count(), 15, "{page}");
    }

    #[test]
    fn nothing_is_wider_than_a_terminal_or_longer_than_a_page() {
        let mut status = example::status();
        let fragment = Fragment {
            fragment: FragmentId(u16::MAX),
            version: u32::MAX,
            base: u32::MAX,
            staleness: u32::MAX,
            ..status.fragments[0]
        };
        status.fragments = vec![fragment; 1000];
        let mut peer = status.peers[0].clone();
        peer.address = Some("/dns/".to_owned() + &"x".repeat(300));
        (peer.rtt_ms, peer.version) = (Some(99_999.0), Some(u32::MAX));
        status.peers = vec![peer; 500];
        let round = RoundId { fragment: FragmentId(u16::MAX), number: u32::MAX };
        status.receipts = vec![Receipt { round, merged_by: u32::MAX, of: u32::MAX }; 32];
        status.name = "é".repeat(64);
        status.program = "1.2.3-a-very-long-version-that-somebody-made".into();
        (status.uptime_s, status.incarnation) = (u64::MAX, u64::MAX);
        status.gauges.alive_window_s = u64::MAX;
        let most = u64::MAX;
        status.fates = Fates {
            trained: most,
            merged: most,
            pending: most,
            fresh: most,
            reissued: most,
            orphaned: most,
        };
        status.training = Training {
            step: most,
            tokens: most,
            tokens_per_s: 1e12,
            step_ms: 1e9,
            training_share: 1.0,
        };
        let words = format!("{} \u{1b}[31m\nred {}", "x".repeat(200), "word ".repeat(60));
        status.warnings = vec![Warning { message: words.clone(), hint: words }];
        let page = render(&status);
        for line in page.lines() {
            assert!(line.chars().count() < 80, "{line}");
        }
        assert!(!page.contains('\u{1b}'));
        assert!(page.lines().count() < 90);
        assert!(page.contains("and 984 more; `atoll status --json` shows all"), "{page}");
    }
}
