//! Races to a target loss over thin links: Atoll's nodes against synchronous rivals, all of them
//! real processes that train the same model on the same text.
//!
//! A step has a fixed emulated time, so that the cores of one machine do not decide: everybody
//! does the real step and then sleeps. Atoll's races are run in full. A rival that sends all its
//! gradients over a thin link would take hours: how many steps it needs is counted once on links
//! as fast as the machine, where the arithmetic is the same, and how long a step takes it, on the
//! thin link.

mod atoll;
mod genesis;
mod half;
mod inner;
mod judge;
mod nodes;
mod options;
mod ring;
mod rival;
pub(crate) mod rivals;
mod table;
mod track;

use std::io::Write;

use atoll_protocol::genesis::Genesis;

pub use options::Options;
pub use rival::{Member, run as rival};

use options::{Racer, Trouble};
use rival::Kind;
use table::Row;
use track::Track;

use crate::up::UpError;

/// Races as the options say; true if what was promised holds. Nothing is left running.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<bool, UpError> {
    let genesis = options.check()?;
    let track = Track::open(options)?;
    let file = track.folder.join(GENESIS);
    std::fs::write(&file, genesis.to_toml()).map_err(UpError::file(&file))?;
    let mut race = Race { options, genesis, track, out, rows: Vec::new(), swarms: 0 };
    race.all()?;
    let rows = std::mem::take(&mut race.rows);
    let holds = table::print(race.out, options, &rows)?;
    if options.keep {
        writeln!(race.out, "logs: {}", race.track.folder.display())?;
    }
    if options.json {
        let json = serde_json::to_string(&rows).map_err(std::io::Error::other)?;
        writeln!(race.out, "{json}")?;
    }
    Ok(holds)
}

struct Race<'r> {
    options: &'r Options,
    genesis: Genesis,
    track: Track,
    out: &'r mut dyn Write,
    rows: Vec<Row>,
    /// Swarms that were started.
    swarms: usize,
}

impl Race<'_> {
    fn all(&mut self) -> Result<(), UpError> {
        let options = self.options;
        let races = options.races();
        for racer in &options.who {
            match kind(*racer) {
                None => races.iter().try_for_each(|(rate, trouble)| self.atoll(*rate, *trouble))?,
                Some(kind) => self.rival(*racer, kind, &races)?,
            }
        }
        Ok(())
    }

    fn atoll(&mut self, rate: f64, trouble: Trouble) -> Result<(), UpError> {
        let mbit = rate / 1e6;
        self.say(format!("Atoll at {mbit} Mbit/s {}", trouble.words()))?;
        self.track.limit(Some(rate))?;
        let calm = self.rows.iter().find(|row| row.mbit == mbit && row.trouble.is_empty());
        let kill_after = calm.and_then(|row| row.seconds).map_or(KILL_AFTER_S, |it| it / 3.0);
        self.swarms += 1;
        let out = &mut *self.out;
        let mut say = |line: String| tell(out, &line);
        let points = atoll::race(
            &self.track,
            self.options,
            &self.genesis,
            trouble,
            kill_after,
            self.swarms,
            &mut say,
        )?;
        self.rows.push(Row::run(mbit, trouble, points, self.options.target()));
        Ok(())
    }

    fn rival(&mut self, racer: Racer, kind: Kind, races: &[(f64, Trouble)]) -> Result<(), UpError> {
        let name = table::name(racer);
        self.say(format!("{name}: steps to the target, on links as fast as the machine"))?;
        let out = &mut *self.out;
        let mut say = |line: String| tell(out, &line);
        let steps = rivals::steps_to_target(&self.track, self.options, kind, &mut say)?;
        for (rate, trouble) in races {
            // A ring that has lost a member does not wait for it.
            if *trouble == Trouble::Restarted {
                continue;
            }
            let mbit = rate / 1e6;
            self.say(format!("{name}: a step at {mbit} Mbit/s {}", trouble.words()))?;
            let measured = rivals::measure(&self.track, self.options, kind, *rate, *trouble)?;
            self.rows.push(Row::measured(racer, mbit, *trouble, steps, measured));
        }
        Ok(())
    }

    fn say(&mut self, line: String) -> Result<(), UpError> {
        tell(self.out, &line)
    }
}

fn tell(out: &mut dyn Write, line: &str) -> Result<(), UpError> {
    writeln!(out, "{}", line.trim_end())?;
    Ok(out.flush()?)
}

fn kind(racer: Racer) -> Option<Kind> {
    match racer {
        Racer::Atoll => None,
        Racer::Parallel => Some(Kind::Parallel),
        Racer::Diloco => Some(Kind::Diloco),
    }
}

/// The run's genesis in the folder of a race.
const GENESIS: &str = "genesis.toml";
/// When an island is killed where no calm race says how long one takes.
const KILL_AFTER_S: f64 = 20.0;
