//! How well ways to train together learn, at equal tokens and in virtual time: the model of real
//! nodes is really trained, by the real engine where the way is Atoll's.

mod kept;
mod method;
mod model;
mod options;
mod pairwise;
mod recorder;
mod scale;
mod table;
mod variant;
mod weather;

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use rayon::prelude::*;

pub use kept::Learnt;
pub use options::Options;
pub use scale::Scale;
pub use variant::{Section, Variant};

use kept::Kept;

/// One variant with one seed.
struct Job<'v> {
    variant: &'v Variant,
    seed: u64,
}

/// Does what was asked for; true if every bound that is printed holds.
pub fn run(options: &Options, out: &mut (dyn Write + Send)) -> Result<bool> {
    let scale = options.scale();
    let sections = options.sections();
    let variants = variant::of(&sections, &scale);
    let kept = Kept::open(&options.dir)?;
    let seeds: Vec<u64> = (1..=scale.seeds).collect();
    let jobs: Vec<Job<'_>> = seeds
        .iter()
        .flat_map(|seed| variants.iter().map(|variant| Job { variant, seed: *seed }))
        .collect();
    let missing: Vec<&Job<'_>> =
        jobs.iter().filter(|job| kept.find(&scale, job.variant, job.seed).is_none()).collect();
    writeln!(out, "{}", scale.words())?;
    writeln!(
        out,
        "{} runs, of which {} are kept in {} from before",
        jobs.len(),
        jobs.len() - missing.len(),
        options.dir.display()
    )?;
    let (done, out) = (AtomicUsize::new(0), Mutex::new(out));
    let learn = |job: &&Job<'_>| -> Result<()> {
        let learnt = method::learn(&scale, job.variant, job.seed)
            .with_context(|| format!("{}, seed {}", job.variant.name, job.seed))?;
        kept.keep(&scale, job.variant, job.seed, &learnt)?;
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let mut out = out.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        say(&mut **out, done, missing.len(), job, &learnt)?;
        Ok(())
    };
    threads(options.jobs)?.install(|| missing.par_iter().try_for_each(learn))?;
    let out = out.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let rows = table::rows(&kept, &scale, &variants, &seeds);
    let holds = table::print(out, &rows, &sections)?;
    if options.json {
        writeln!(out, "{}", serde_json::to_string(&rows)?)?;
    }
    Ok(holds)
}

fn say(
    out: &mut dyn Write,
    done: usize,
    all: usize,
    job: &Job<'_>,
    learnt: &Learnt,
) -> io::Result<()> {
    let (name, seed, loss) = (&job.variant.name, job.seed, learnt.loss);
    writeln!(out, "[{done}/{all}] {name}, seed {seed}: {loss:.4} in {:.0} s", learnt.seconds)?;
    out.flush()
}

fn threads(jobs: usize) -> Result<rayon::ThreadPool> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(jobs).build()?)
}
