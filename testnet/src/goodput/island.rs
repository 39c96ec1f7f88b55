//! One island, from failure to failure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use atoll_protocol::rng::Rng;

use super::case::{Case, Policy};
use super::recovery::exponential;
use super::times::Pace;

/// What an island did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Log {
    /// Seconds of training, each weighed with the share of the chips that took part.
    pub(super) useful: f64,
    /// When it stood, in microseconds, in order and without overlap.
    pub(super) stops: Vec<(u64, u64)>,
}

/// Runs one island of `case` for `seconds`.
///
/// Many chips that each fail seldom and at random fail together like one clock that ticks as
/// often as all of them. A chip that fails while its island stands is taken care of by the same
/// stop.
pub(super) fn run(case: &Case, pace: &Pace, seconds: f64, rng: &mut Rng) -> Log {
    let chips = case.chips as f64 / case.islands as f64;
    match case.policy {
        Policy::Restart { catch_up, catch_up_max } => {
            let stands = |rng: &mut Rng| {
                let stopped = pace.restart.draw(rng);
                stopped + (catch_up * stopped).min(catch_up_max)
            };
            restarting(case.mtbi_seconds / chips, seconds, stands, rng)
        }
        Policy::Elastic => {
            let slices = (chips / pace.times.slice_chips).round().max(1.0);
            let mut elastic = Elastic {
                pace,
                slice_mtbi: case.mtbi_seconds * slices / chips,
                slices: micros(slices) / micros(1.0),
                away: BinaryHeap::new(),
                ready: 0,
                upscale_at: 0,
                now: 0,
                log: Log::default(),
            };
            elastic.run(micros(seconds), rng);
            elastic.log
        }
    }
}

fn restarting(mtbf: f64, seconds: f64, stands: impl Fn(&mut Rng) -> f64, rng: &mut Rng) -> Log {
    let mut log = Log::default();
    let mut now = 0.0;
    while now < seconds {
        let failed = now + exponential(mtbf, rng);
        log.useful += failed.min(seconds) - now;
        if failed >= seconds {
            break;
        }
        now = failed + stands(rng);
        log.stops.push((micros(failed), micros(now.min(seconds))));
    }
    log
}

/// An island that changes its size. Times in microseconds.
struct Elastic<'a> {
    pace: &'a Pace,
    /// Mean time between failures of one slice, in seconds.
    slice_mtbi: f64,
    slices: u64,
    /// When each slice that is away returns.
    away: BinaryHeap<Reverse<u64>>,
    /// Slices that are back and not taken in.
    ready: u64,
    /// It takes none in before this.
    upscale_at: u64,
    now: u64,
    log: Log,
}

impl Elastic<'_> {
    fn run(&mut self, end: u64, rng: &mut Rng) {
        while self.now < end {
            self.collect();
            let inside = self.inside();
            let failure = match inside {
                0 => u64::MAX,
                inside => self
                    .now
                    .saturating_add(micros(exponential(self.slice_mtbi / inside as f64, rng))),
            };
            let upscale = match self.ready {
                0 => u64::MAX,
                _ if inside == 0 => self.now,
                _ => self.upscale_at.max(self.now),
            };
            let returns = self.away.peek().map_or(u64::MAX, |Reverse(at)| *at);
            let next = failure.min(upscale).min(returns).min(end);
            self.train_until(next);
            if next == end {
                break;
            } else if next == upscale {
                self.upscale_at =
                    self.now.saturating_add(micros(self.pace.times.upscale_every_seconds));
                self.stand(self.pace.times.upscale_seconds, end, rng);
                self.collect();
                self.ready = 0;
            } else if next == failure {
                self.lose_slice(rng);
                self.stand(self.pace.times.downscale_seconds, end, rng);
            }
        }
    }

    /// Slices that take part.
    fn inside(&self) -> u64 {
        self.slices.saturating_sub(self.away.len() as u64 + self.ready)
    }

    fn train_until(&mut self, next: u64) {
        let share = self.inside() as f64 / self.slices as f64;
        self.log.useful += share * (next - self.now) as f64 / 1e6;
        if share == 0.0 {
            self.log.stops.push((self.now, next));
        }
        self.now = next;
    }

    /// Stands; slices that fail meanwhile are left out by the same stop.
    fn stand(&mut self, seconds: f64, end: u64, rng: &mut Rng) {
        let until = self.now.saturating_add(micros(seconds)).min(end);
        self.log.stops.push((self.now, until));
        while self.inside() > 0 {
            let wait = exponential(self.slice_mtbi / self.inside() as f64, rng);
            self.now = self.now.saturating_add(micros(wait));
            if self.now >= until {
                break;
            }
            self.lose_slice(rng);
        }
        self.now = until;
    }

    fn lose_slice(&mut self, rng: &mut Rng) {
        let back = self.now.saturating_add(micros(self.pace.slice_returns.draw(rng)));
        self.away.push(Reverse(back));
    }

    /// Takes note of the slices that are back.
    fn collect(&mut self) {
        while self.away.peek().is_some_and(|Reverse(at)| *at <= self.now) {
            self.away.pop();
            self.ready += 1;
        }
    }
}

/// Microseconds: whole numbers have an order.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive, and those above the range end every run"
)]
pub(super) fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

#[cfg(test)]
mod tests {
    use super::super::times::Times;
    use super::*;

    const WEEK: f64 = 7.0 * 86_400.0;

    fn goodput(case: &Case, times: &Times) -> f64 {
        run(case, &Pace::new(*times), WEEK, &mut Rng::new(9)).useful / WEEK
    }

    fn case(chips: u64, policy: Policy) -> Case {
        Case { chips, islands: 1, policy, mtbi_seconds: 365.0 * 86_400.0 }
    }

    #[test]
    fn without_failures_all_time_is_useful() {
        for policy in [Policy::ALONE, Policy::Elastic] {
            let calm = Case { mtbi_seconds: f64::INFINITY, ..case(2_400_000, policy) };
            let log = run(&calm, &Pace::new(Times::default()), WEEK, &mut Rng::new(1));
            assert!((log.useful / WEEK - 1.0).abs() < 1e-9 && log.stops.is_empty(), "{policy:?}");
        }
    }

    #[test]
    fn a_restarting_job_follows_its_closed_form() {
        let times = Times::default();
        for (chips, catch_up) in [(150_000, 0.0), (600_000, 0.0), (600_000, 1.0)] {
            let policy = Policy::Restart { catch_up, catch_up_max: f64::INFINITY };
            let mtbf = 365.0 * 86_400.0 / chips as f64;
            let expected = mtbf / (mtbf + times.restart_seconds * (1.0 + catch_up));
            let seen = goodput(&case(chips, policy), &times);
            assert!((seen - expected).abs() < 0.01, "{chips}: {seen} against {expected}");
        }
    }

    #[test]
    fn a_snapshot_bounds_the_time_to_catch_up() {
        let policy = Policy::Restart { catch_up: 1e9, catch_up_max: 24.0 };
        let mtbf = 365.0 * 86_400.0 / 600_000.0;
        let seen = goodput(&case(600_000, policy), &Times::default());
        assert!((seen - mtbf / (mtbf + 100.0)).abs() < 0.01, "{seen}");
    }

    #[test]
    fn an_elastic_job_follows_its_closed_form() {
        // Stops to go on without a slice come as often as failures while it trains; stops to take
        // slices in as often as one is back, but not within the interval.
        let times = Times::default();
        for chips in [75_000, 300_000, 1_200_000, 2_400_000] {
            let rate = chips as f64 / (365.0 * 86_400.0);
            let every = times.upscale_every_seconds;
            let upscales = 1.0 / (every + (-rate * every).exp() / rate);
            let expected =
                (1.0 - upscales * times.upscale_seconds) / (1.0 + rate * times.downscale_seconds);
            let seen = goodput(&case(chips, Policy::Elastic), &times);
            assert!((seen - expected).abs() < 0.015, "{chips}: {seen} against {expected}");
        }
    }

    #[test]
    fn an_island_of_one_slice_is_gone_until_it_returns() {
        let times = Times { upscale_every_seconds: 1e9, ..Times::default() };
        let small = Case { mtbi_seconds: 64.0 * 3600.0, ..case(64, Policy::Elastic) };
        let expected = 3600.0 / (3600.0 + times.return_seconds + times.upscale_seconds);
        let seen = goodput(&small, &times);
        assert!((seen - expected).abs() < 0.02, "{seen} against {expected}");
    }
}
