//! What was run, on what, and how to do it again.

use std::time::{SystemTime, UNIX_EPOCH};

use atoll_protocol::genesis::Genesis;

use super::{Page, escape};
use crate::up::options::{GENERATED, Options};
use crate::up::units;

pub(super) fn html(page: &Page<'_>) -> String {
    let (options, genesis) = (page.options, page.genesis);
    let program = page.recording.statuses().next().map_or("", |it| it.program.as_str());
    let speeds: Vec<String> = options.speeds.iter().map(f64::to_string).collect();
    let schedule = format!(
        "{} tokens, {:.0} % of them merged at the end",
        units::count(genesis.schedule.total_tokens),
        page.outcome.schedule_done * 100.0
    );
    let rows = [
        ("date", date()),
        ("machine", machine()),
        ("program", format!("atoll {program}")),
        ("model", format!("{}, {} parameters", options.model, parameters(genesis))),
        ("text", text(options)),
        ("fragments", genesis.fragment_map().fragments().len().to_string()),
        ("steps between captures", genesis.rounds.steps.to_string()),
        ("inner optimiser", inner(genesis)),
        ("learning rate falls over", schedule),
        ("speeds", speeds.join(", ")),
        ("links", page.outcome.links.clone().unwrap_or_else(|| LOOPBACK.into())),
        ("run", genesis.run_id().to_hex()),
        ("seed", options.seed.to_string()),
    ];
    let cells = |(name, value): &(&str, String)| {
        format!("<tr><th>{name}</th><td>{}</td></tr>", escape(value))
    };
    let rows: String = rows.iter().map(cells).collect();
    format!(
        "<section><h2>Again</h2><pre>{}</pre><p>Real processes on one machine: times and the order of \
         contributions differ from run to run, the agreement does not.</p><table \
         class=\"settings\">{rows}</table>{}{}</section>\n",
        escape(&options.command()),
        plan(page),
        // The tensors follow from the model and are long.
        folded("Genesis", genesis.to_toml().split("\n[[tensor]]").next().unwrap_or_default()),
    )
}

/// What islands train with, and how fast at most.
fn inner(genesis: &Genesis) -> String {
    let name = genesis.inner.optimiser.name();
    format!("{name}, learning rate up to {}", genesis.schedule.peak)
}

/// How many parameters there are.
pub(super) fn parameters(genesis: &Genesis) -> String {
    units::count(genesis.fragment_map().elements() as u64)
}

/// What is learned, in words.
pub(super) fn text(options: &Options) -> String {
    match options.data.as_str() {
        GENERATED => "generated text".into(),
        path => path.to_owned(),
    }
}

/// Today, at Greenwich: `2026-11-17 03:08 UTC`.
pub(super) fn date() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_of(since.as_secs())
}

fn date_of(seconds: u64) -> String {
    // Days since the first of March of the year 0, in which leap days come last.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, late) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + late;
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// The processor and the system.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let name = name.map_or_else(String::new, |(_, name)| format!("{name}, "));
    format!("{name}{cores} cores, {} {}", std::env::consts::OS, std::env::consts::ARCH)
}

fn plan(page: &Page<'_>) -> String {
    let title = format!("What was done to the swarm: {}", page.plan.name);
    if page.plan.is_calm() { String::new() } else { folded(&title, &page.plan.text) }
}

fn folded(title: &str, text: &str) -> String {
    let (title, text) = (escape(title), escape(text));
    format!("<details><summary>{title}</summary><pre>{text}</pre></details>")
}

const LOOPBACK: &str = "loopback, as fast as the machine";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_a_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_794_884_880, "2026-11-17 03:08 UTC"),
        ] {
            assert_eq!(date_of(seconds), date);
        }
    }
}
