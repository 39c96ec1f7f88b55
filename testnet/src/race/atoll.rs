//! Atoll's race, run in full.

use std::thread;
use std::time::{Duration, Instant};

use atoll_protocol::genesis::Genesis;

use super::judge::{Judge, Point};
use super::nodes::Nodes;
use super::options::{Options, Trouble};
use super::track::Track;
use crate::up::UpError;

/// Races to the target; the last point is where it was reached, if it was.
pub(super) fn race(
    track: &Track,
    options: &Options,
    genesis: &Genesis,
    trouble: Trouble,
    kill_after: f64,
    number: usize,
    say: &mut dyn FnMut(String) -> Result<(), UpError>,
) -> Result<Vec<Point>, UpError> {
    let mut judge = Judge::new(genesis)?;
    let before = track.bytes()?;
    let mut nodes = Nodes::start(track, options, trouble, number)?;
    // From when the first island steps; that the others still have to join is part of the race.
    let began = Instant::now();
    let (mut points, mut deeds) = (Vec::<Point>::new(), Deeds::new(trouble, kill_after));
    let budget = options.minutes * 60.0;
    while began.elapsed().as_secs_f64() < budget {
        nodes.check()?;
        deeds.look(&mut nodes, began.elapsed().as_secs_f64())?;
        let bytes = track.bytes()?.saturating_sub(before);
        let Some(folder) = nodes.folder() else { continue };
        if let Some(point) = judge.look(&folder, began.elapsed().as_secs_f64(), bytes) {
            say(format!("  {:.0} s, {} rounds: {:.3}", point.seconds, point.rounds, point.loss))?;
            if point.loss <= options.target() {
                drop(nodes);
                let missed = points.last().map_or(0, |it| it.rounds);
                points.push(judge.first(options.target(), missed, point));
                return Ok(points);
            }
            judge.forget(point.rounds);
            points.push(point);
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(points)
}

/// What is done to the last island, and when.
struct Deeds {
    kill_at: Option<f64>,
    restart_at: Option<f64>,
}

impl Deeds {
    fn new(trouble: Trouble, kill_after: f64) -> Self {
        let killed = matches!(trouble, Trouble::Killed | Trouble::Restarted);
        let kill_at = killed.then_some(kill_after);
        let comes_back = trouble == Trouble::Restarted;
        let restart_at = comes_back.then_some(kill_after + AWAY_S);
        Self { kill_at, restart_at }
    }

    fn look(&mut self, nodes: &mut Nodes<'_>, seconds: f64) -> Result<(), UpError> {
        if self.kill_at.is_some_and(|at| seconds >= at) {
            self.kill_at = None;
            nodes.kill_last();
        }
        if self.restart_at.is_some_and(|at| seconds >= at) {
            self.restart_at = None;
            nodes.come_back()?;
        }
        Ok(())
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long one that was killed stays away.
const AWAY_S: f64 = 15.0;
