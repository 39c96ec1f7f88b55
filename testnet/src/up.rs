//! A calm simulated swarm to look at, one line for each virtual second.

use std::io::{self, Write};

use atoll_protocol::id::FragmentId;

use crate::check::{Checker, Event, World};
use crate::scenario;
use crate::sim::{self, Outcome};

/// Runs `islands` islands for `seconds` of virtual time and prints how it goes.
pub fn run(out: &mut dyn Write, islands: usize, seconds: u64, seed: u64) -> io::Result<Outcome> {
    writeln!(
        out,
        "{islands} simulated islands in one process, in virtual time: no sockets, no real disks"
    )?;
    let mut setup = scenario::calm(seed, islands);
    setup.end_at.0 = seconds * 1000;
    setup.heal_at.0 = setup.end_at.0 / 2;
    let mut checkers = scenario::checkers(&setup);
    checkers.push(Box::new(Live { shown: 0 }));
    let fragments = u64::from(setup.genesis.fragments);
    let outcome = sim::run(setup, checkers, None);
    print_end(out, &outcome, fragments)?;
    Ok(outcome)
}

fn print_end(out: &mut dyn Write, outcome: &Outcome, fragments: u64) -> io::Result<()> {
    if let Some(violation) = &outcome.violation {
        writeln!(out, "FAILED {}: {}", violation.checker, violation.message)?;
        return Ok(());
    }
    writeln!(out)?;
    for ending in outcome.digests.iter().filter(|ending| ending.node == 0) {
        let same = outcome
            .digests
            .iter()
            .filter(|other| other.fragment == ending.fragment && other.digest == ending.digest);
        let all = outcome.digests.iter().filter(|other| other.fragment == ending.fragment);
        writeln!(
            out,
            "{} version {} digest {} on {} of {} islands",
            ending.fragment,
            ending.version,
            ending.digest,
            same.count(),
            all.count()
        )?;
    }
    let fates = outcome.fates;
    writeln!(out, "loss {:.4} -> {:.4}", outcome.loss_first, outcome.loss_last)?;
    writeln!(
        out,
        "tokens, mean over fragments: {} trained = {} merged + {} pending + {} fresh + {} \
         re-issued + {} orphaned",
        fates.trained / fragments,
        fates.merged / fragments,
        fates.pending / fragments,
        fates.fresh / fragments,
        fates.reissued / fragments,
        fates.orphaned / fragments
    )
}

/// Prints a line whenever a virtual second is over. It watches like a checker and finds nothing.
#[derive(Debug)]
struct Live {
    shown: u64,
}

impl Checker for Live {
    fn name(&self) -> &'static str {
        "live"
    }

    fn observe(&mut self, world: &dyn World, _event: &Event<'_>) -> Result<(), String> {
        let second = world.now().0 / 1000;
        if second <= self.shown {
            return Ok(());
        }
        self.shown = second;
        // Whoever closed the terminal does not want the line.
        let _ = writeln!(io::stderr(), "{}", line(world, second));
        Ok(())
    }

    fn checks(&self) -> u64 {
        self.shown
    }
}

fn line(world: &dyn World, second: u64) -> String {
    let losses: Vec<f64> = (0..world.nodes()).filter_map(|node| world.loss(node)).collect();
    #[expect(clippy::cast_precision_loss, reason = "a handful of islands")]
    let mean = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
    let mut versions = Vec::new();
    for fragment in (0..world.genesis().fragments).map(FragmentId) {
        let heads: Vec<_> =
            (0..world.nodes()).filter_map(|node| world.status(node, fragment)).collect();
        let newest = heads.iter().map(|status| status.head).max().unwrap_or(0);
        let best = heads
            .iter()
            .map(|status| heads.iter().filter(|other| other.digest == status.digest).count())
            .max()
            .unwrap_or(0);
        versions.push(format!("{fragment} v{newest} ({best}/{} agree)", heads.len()));
    }
    format!("{second:>4} s  loss {mean:.4}  {}", versions.join("  "))
}
