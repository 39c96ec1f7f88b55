//! The tables of a report.

use std::fmt::Write;

use super::{COLOURS, Page, escape, swatch};
use crate::up::happening;
use crate::up::recording::{Presence, RoundName};
use crate::up::status::Fates;
use crate::up::units;

pub(super) fn all(page: &Page<'_>) -> String {
    [islands(page), fragments(page), fates(page), receipts(page)].concat()
}

fn islands(page: &Page<'_>) -> String {
    let recording = page.recording;
    let rows = recording.islands.iter().enumerate().map(|(index, seen)| {
        let status = seen.status.clone().unwrap_or_default();
        let (within, closed) = recording.participation(index);
        let held_out = seen.held_out.last().map(|(_, loss)| *loss);
        let versions: Vec<String> =
            status.fragments.iter().map(|it| it.version.to_string()).collect();
        let node = status.node.get(..8).unwrap_or_default();
        vec![
            format!("{} <code>{}</code>", name(index), escape(node)),
            format!("{}", seen.speed),
            units::loss(seen.loss()),
            units::loss(held_out),
            seen.steps().to_string(),
            units::count(seen.tokens()),
            format!("{:.1} %", seen.training_share() * 100.0),
            units::percent(within, closed),
            units::bytes(seen.bytes_up()),
            units::bytes(seen.bytes_down()),
            versions.join(" "),
            escape(&end(&seen.presence)),
        ]
    });
    let titles = [
        "island", "speed", "loss", "held-out", "steps", "tokens", "training", "rounds", "sent",
        "received", "versions", "end",
    ];
    let words = "Rounds: the share of closed rounds that hold a contribution of the island. \
                 Training: the share of the time it could train that it did.";
    table("Islands", words, &titles, rows)
}

/// How an island ended.
fn end(presence: &Presence) -> String {
    match presence {
        Presence::Here => "left at the end".into(),
        Presence::Left => "left before".into(),
        Presence::Ended(words) => words.clone(),
        Presence::Awaited => "never came".into(),
        Presence::Frozen | Presence::Away => "did not come back".into(),
    }
}

fn fragments(page: &Page<'_>) -> String {
    let rows = page.outcome.agreement.iter().enumerate().map(|(number, it)| {
        vec![
            format!("f{number}"),
            it.version.to_string(),
            format!("{} of {}", it.count, it.of),
            format!("<code>{}</code>", escape(&it.digest)),
        ]
    });
    let titles = ["fragment", "version", "islands", "digest"];
    table("Fragments", "What the islands had when training had ended.", &titles, rows)
}

fn fates(page: &Page<'_>) -> String {
    let fragments = page.recording.fragments().max(1) as u64;
    let row = |name: String, fates: &Fates| {
        let mut cells = vec![name, units::count(fates.trained / fragments)];
        cells.extend(fates.named().map(|(_, tokens)| units::percent(tokens, fates.trained)));
        cells.push(if fates.add_up() { "yes".into() } else { "no".into() });
        cells
    };
    let islands = page.recording.islands.iter().enumerate().map(|(index, seen)| {
        row(name(index), &seen.status.as_ref().map(|it| it.fates).unwrap_or_default())
    });
    let all = row("all".into(), &page.recording.fates());
    let titles =
        ["island", "trained", "merged", "pending", "fresh", "re-issued", "orphaned", "adds up"];
    let words = "Every trained token is in the outer state (merged), captured and on its way \
                 (pending), or not yet captured (fresh); re-issued ones go out again, orphaned \
                 ones are lost. Averaged over the fragments.";
    let mut html = table("Token fates", words, &titles, islands.chain([all]));
    let sum = page.recording.fates();
    let mut bar = String::from("<div class=\"bar\">");
    let mut legend = String::from("<div class=\"legend\">");
    for ((name, tokens), colour) in sum.named().into_iter().zip(FATES) {
        let share = tokens as f64 * 100.0 / sum.trained.max(1) as f64;
        let _ = write!(bar, "<i style=\"width:{share:.2}%;background:{colour}\"></i>");
        let _ = write!(legend, "<span><i class=\"dot\" style=\"color:{colour}\"></i>{name}</span>");
    }
    let bar = format!("{bar}</div>{legend}</div></section>");
    html = html.replacen("</section>", &bar, 1);
    html
}

fn receipts(page: &Page<'_>) -> String {
    let rows = page.recording.islands.iter().enumerate().map(|(index, seen)| {
        let known = seen.receipts.len() as u64;
        let last =
            seen.receipts.values().max_by_key(|it| RoundName::read(&it.round).map(|it| it.number));
        let last = last.map(|it| format!("{}: {} of {}", it.round, it.merged_by, it.of));
        vec![
            name(index),
            seen.contributions.to_string(),
            known.to_string(),
            format!("{} ({})", seen.merged_by_all(), units::percent(seen.merged_by_all(), known)),
            escape(&last.unwrap_or_else(|| "-".into())),
        ]
    });
    let titles = ["island", "contributions", "with receipt", "merged by every peer", "the newest"];
    let words = "A receipt tells an island how many peers have merged its contribution; a round that is \
                 stable was merged by all.";
    table("Receipts", words, &titles, rows)
}

fn name(index: usize) -> String {
    let kind = if index < COLOURS.len() { "dot" } else { "ring" };
    let colour = COLOURS[index % COLOURS.len()];
    format!("{}{}", swatch(kind, colour), happening::island(index))
}

fn table(
    title: &str,
    words: &str,
    titles: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let cells = |tag: &str, cells: &[String]| -> String {
        cells.iter().map(|it| format!("<{tag}>{it}</{tag}>")).collect()
    };
    let titles: Vec<String> = titles.iter().map(|it| (*it).to_owned()).collect();
    let rows: String = rows.map(|row| format!("<tr>{}</tr>", cells("td", &row))).collect();
    format!(
        "<section><h2>{title}</h2><p>{words}</p><div class=\"across\"><table><tr>{}</tr>{rows}\
         </table></div></section>\n",
        cells("th", &titles)
    )
}

const FATES: [&str; 5] = ["#2b8a3e", "#f08c00", "#1c7ed6", "#ae3ec9", "#e03131"];
