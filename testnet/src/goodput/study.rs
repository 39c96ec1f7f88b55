//! Every row of the table, simulated.

use rayon::prelude::*;
use serde::Serialize;

use super::case::{Case, Policy};
use super::published::{CHIPS, MTBI_DAYS, PUBLISHED};
use super::swarm::{Measured, measure};
use super::times::{Pace, Times};
use crate::plan::{Inputs, Sizing, Way};

/// What to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) extent: Extent,
    pub(super) mtbi_days: u64,
    /// The run that a restarted island catches up with; its number of islands is not used.
    pub(super) inputs: Inputs,
}

/// How long and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Extent {
    /// The first seed.
    pub seed: u64,
    /// Seeds.
    pub seeds: u64,
    /// Days of each.
    pub days: u64,
}

/// The whole table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// The rows of the published table.
    pub published: Vec<Row>,
    /// Islands as Atoll has them.
    pub atoll: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// Islands.
    pub islands: u64,
    /// One for each number of chips; none where the link does not carry the rounds.
    pub cells: Vec<Option<Cell>>,
}

/// One figure. Shares in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Chips.
    pub chips: u64,
    /// Useful time of all chips, the mean over seeds.
    pub goodput: f64,
    /// Largest less smallest over seeds.
    pub spread: f64,
    /// Time in which some island trains.
    pub someone_trains: f64,
    /// What was published.
    pub published: Option<f64>,
}

impl Study {
    /// Simulates everything, over cores.
    pub(super) fn run(asked: &Asked) -> Self {
        let pace = Pace::new(Times::default());
        let comparable = asked.mtbi_days == MTBI_DAYS;
        let published = PUBLISHED
            .par_iter()
            .map(|row| {
                let percent = comparable.then_some(row.percent);
                asked.row(&pace, row.name.into(), row.islands, Some(row.policy), percent)
            })
            .collect();
        let atoll = kinds()
            .into_par_iter()
            .map(|(kind, islands)| {
                let policy = kind.policy(asked, islands);
                let name = format!("{}, {islands} islands", kind.name());
                asked.row(&pace, name, islands, policy, None)
            })
            .collect();
        Self { published, atoll }
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.published.iter().chain(&self.atoll)
    }

    /// The most points by which a figure differs from the published one.
    pub fn largest_difference(&self) -> Option<f64> {
        let cells = self.published.iter().flat_map(|row| &row.cells).flatten();
        cells.filter_map(Cell::difference).map(f64::abs).reduce(f64::max)
    }
}

impl Cell {
    /// Points above the published figure.
    pub fn difference(&self) -> Option<f64> {
        Some(self.goodput - self.published?)
    }
}

/// What kind of islands a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// They change their size when a slice fails.
    Elastic,
    /// They restart, and catch up.
    Plain(Way),
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Elastic => "elastic",
            Self::Plain(Way::Everyone) => "plain",
            Self::Plain(Way::Committees) => "plain, committees",
        }
    }

    /// None if the link does not carry the rounds of so many islands.
    fn policy(self, asked: &Asked, islands: u64) -> Option<Policy> {
        let Self::Plain(way) = self else { return Some(Policy::Elastic) };
        let sizing = Sizing::with(&Inputs { islands, ..asked.inputs }, way);
        let catch_up = |stopped| sizing.catch_up_seconds(asked.inputs.link.least(), stopped);
        Some(Policy::Restart { catch_up: catch_up(1.0)?, catch_up_max: catch_up(f64::MAX)? })
    }
}

impl Asked {
    fn row(
        &self,
        pace: &Pace,
        name: String,
        islands: u64,
        policy: Option<Policy>,
        percent: Option<[f64; 5]>,
    ) -> Row {
        let cell = |(column, chips): (usize, u64)| {
            let mtbi_seconds = self.mtbi_days as f64 * DAY_SECONDS;
            let case = Case { chips, islands, policy: policy?, mtbi_seconds };
            Some(self.cell(&case, pace, percent.map(|percent| percent[column])))
        };
        let columns: Vec<(usize, u64)> = CHIPS.into_iter().enumerate().collect();
        Row { name, islands, cells: columns.into_par_iter().map(cell).collect() }
    }

    fn cell(&self, case: &Case, pace: &Pace, published: Option<f64>) -> Cell {
        let Extent { seed, seeds, days } = self.extent;
        let seconds = days as f64 * DAY_SECONDS;
        let measured: Vec<Measured> = (seed..seed + seeds)
            .into_par_iter()
            .map(|seed| measure(case, pace, seconds, seed))
            .collect();
        let mean = |of: fn(&Measured) -> f64| {
            100.0 * measured.iter().map(of).sum::<f64>() / measured.len() as f64
        };
        let goodputs = measured.iter().map(|measured| 100.0 * measured.goodput);
        let most = goodputs.clone().fold(f64::MIN, f64::max);
        Cell {
            chips: case.chips,
            goodput: mean(|measured| measured.goodput),
            spread: most - goodputs.fold(f64::MAX, f64::min),
            someone_trains: mean(|measured| measured.someone_trains),
            published,
        }
    }
}

fn kinds() -> Vec<(Kind, u64)> {
    let ways = [Way::Everyone, Way::Committees];
    let plain = ways.into_iter().flat_map(|way| PLAIN.map(|islands| (Kind::Plain(way), islands)));
    ELASTIC.map(|islands| (Kind::Elastic, islands)).into_iter().chain(plain).collect()
}

const DAY_SECONDS: f64 = 86_400.0;
/// Islands of our elastic rows; the published ones have up to 16.
const ELASTIC: [u64; 4] = [32, 64, 128, 256];
/// Islands of our plain rows.
pub(super) const PLAIN: [u64; 6] = [8, 16, 32, 64, 128, 256];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodput::published::{POINTS, Published};

    fn asked(seeds: u64, days: u64) -> Asked {
        let link = crate::plan::link("400gbit").unwrap();
        Asked {
            extent: Extent { seed: 1, seeds, days },
            mtbi_days: MTBI_DAYS,
            inputs: Inputs { link, ..Inputs::default() },
        }
    }

    #[test]
    fn the_published_table_is_met_within_four_points() {
        let (asked, pace) = (asked(3, 7), Pace::new(Times::default()));
        for Published { name, islands, policy, percent } in PUBLISHED {
            let ours = asked.row(&pace, name.into(), islands, Some(policy), Some(percent));
            for cell in ours.cells.iter().flatten() {
                let difference = cell.difference().unwrap();
                assert!(difference.abs() <= POINTS, "{name}: {cell:?} {difference}");
            }
        }
    }

    #[test]
    fn more_islands_lose_less() {
        let study = Study::run(&asked(1, 1));
        for pair in study.atoll.windows(2).filter(|pair| pair[0].islands < pair[1].islands) {
            let thinner = pair[0].cells.iter().zip(&pair[1].cells);
            for (fewer, more) in thinner.filter_map(|(fewer, more)| fewer.zip(*more)) {
                // Catching up costs more with more islands, so only elastic ones must gain.
                let gains = more.goodput > fewer.goodput - 0.5;
                assert!(gains || !pair[0].name.starts_with("elastic"), "{fewer:?} {more:?}");
            }
        }
    }

    #[test]
    fn a_link_that_does_not_carry_the_rounds_has_no_figure() {
        let mut asked = asked(1, 1);
        asked.inputs.link = crate::plan::link("1gbit").unwrap();
        assert_eq!(Kind::Plain(Way::Everyone).policy(&asked, 8), None);
        assert_eq!(Kind::Elastic.policy(&asked, 8), Some(Policy::Elastic));
    }

    #[test]
    fn all_of_it_is_deterministic() {
        assert_eq!(Study::run(&asked(2, 1)), Study::run(&asked(2, 1)));
    }
}
