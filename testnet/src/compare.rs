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

use std::io::Write;
use std::sync::mpsc;

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
pub fn run(options: &Options, out: &mut dyn Write) -> Result<bool> {
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
    let (tell, told) = mpsc::channel();
    let (scale, kept) = (&scale, &kept);
    // Whoever runs it has the only sender, so that it is known when the last one is done.
    let learn = move |job: &&Job<'_>| -> Result<()> {
        let learnt = method::learn(scale, job.variant, job.seed)
            .with_context(|| format!("{}, seed {}", job.variant.name, job.seed))?;
        kept.keep(scale, job.variant, job.seed, &learnt)?;
        // Whoever listens may have given up.
        let _ = tell.send(said(job, &learnt));
        Ok(())
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs).build()?;
    std::thread::scope(|scope| -> Result<()> {
        let all = missing.len();
        let learning = scope.spawn(move || pool.install(|| missing.par_iter().try_for_each(learn)));
        for (done, said) in told.iter().enumerate() {
            writeln!(out, "[{}/{all}] {said}", done + 1)?;
            out.flush()?;
        }
        learning.join().expect("a run returns its errors")
    })?;
    let rows = table::rows(kept, scale, &variants, &seeds);
    let holds = table::print(out, &rows, &sections)?;
    if options.json {
        writeln!(out, "{}", serde_json::to_string(&rows)?)?;
    }
    Ok(holds)
}

fn said(job: &Job<'_>, learnt: &Learnt) -> String {
    let (name, seed, loss) = (&job.variant.name, job.seed, learnt.loss);
    format!("{name}, seed {seed}: {loss:.4} in {:.0} s", learnt.seconds)
}
