//! Many swarms at once, with progress for whoever waits.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::Instant;

use rayon::prelude::*;

use super::{Job, Sim};
use crate::report::{self, Summary};
use crate::runner;

/// Runs every job, as many at once as the options say.
pub(super) fn run(jobs: &[Job], options: &Sim) -> Summary {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs).build();
    let progress = Progress::new(jobs.len());
    let work = || {
        jobs.par_iter().with_max_len(1).for_each(|job| {
            let verdict = if options.twice {
                runner::run_twice(&job.setup)
            } else {
                runner::run(job.setup.clone(), None)
            };
            progress.done(job, &verdict, options.twice);
        });
    };
    match pool {
        Ok(pool) => pool.install(work),
        // No threads to be had: the caller's own still does.
        Err(_) => work(),
    }
    progress.end()
}

/// What is done so far.
struct Progress {
    total: usize,
    began: Instant,
    shown: bool,
    /// Results by the order they came in; sorted again at the end.
    state: Mutex<(usize, Summary)>,
}

impl Progress {
    fn new(total: usize) -> Self {
        let shown = io::stderr().is_terminal();
        Self { total, began: Instant::now(), shown, state: Mutex::default() }
    }

    fn done(&self, job: &Job, verdict: &runner::Verdict, twice: bool) {
        let mut state = self.state.lock().expect("a verdict is added without panicking");
        state.0 += 1;
        state.1.add(job.repeat.clone(), verdict);
        let mut stderr = io::stderr();
        // Progress that cannot be shown must not change the run.
        let _ = if self.total <= FEW {
            let same = if twice { ", the same again and with other threads" } else { "" };
            let what =
                report::failure(verdict).map_or("passed".into(), |what| format!("FAILED {what}"));
            writeln!(stderr, "{}: {what}\n  {}{same}", job.name, report::one_line(verdict))
        } else if self.shown {
            let done = state.0;
            let seconds = self.began.elapsed().as_secs_f64();
            #[expect(clippy::cast_precision_loss, reason = "seeds fit 53 bits")]
            let rate = done as f64 / seconds.max(1e-3);
            #[expect(clippy::cast_precision_loss, reason = "seeds fit 53 bits")]
            let left = (self.total - done) as f64 / rate.max(1e-9);
            let failed = state.1.failed();
            write!(
                stderr,
                "\r{done}/{} swarms, {failed} failed, {rate:.1}/s, {left:.0} s left   ",
                self.total
            )
        } else {
            Ok(())
        };
    }

    fn end(self) -> Summary {
        if self.shown && self.total > FEW {
            let _ = writeln!(io::stderr());
        }
        let (_, mut summary) = self.state.into_inner().expect("nobody panicked with it");
        summary.failures.sort_by(|one, other| one.repeat.cmp(&other.repeat));
        summary
    }
}

/// So many swarms get a line each.
const FEW: usize = 40;
