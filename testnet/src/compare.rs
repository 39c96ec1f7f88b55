//! How well ways to train together learn, at equal tokens and in virtual time: the model of real
//! nodes is really trained, by the real engine where the way is Atoll's.

mod bounds;
pub(crate) mod chart;
mod kept;
mod method;
pub(crate) mod model;
mod options;
mod own;
mod page;
mod pairwise;
mod recorder;
mod scale;
mod section;
mod table;
mod variant;
mod weather;

use std::io::Write;
use std::sync::mpsc;

use anyhow::{Context as _, Result, bail};
use rayon::prelude::*;

pub use kept::{Learnt, NoFolder};
pub use options::Options;
pub use scale::Scale;
pub use section::Section;
pub use variant::Variant;

use kept::Kept;
use table::Row;

/// One variant with one seed.
struct Job<'v> {
    variant: &'v Variant,
    seed: u64,
}

/// Does what was asked for; true if every bound that is printed holds.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<bool> {
    let (scale, variants) = (options.scale(), options.variants());
    let kept = Kept::open(&options.dir)?;
    let seeds: Vec<u64> = (1..=scale.seeds).collect();
    let jobs: Vec<Job<'_>> = seeds
        .iter()
        .flat_map(|seed| variants.iter().map(|variant| Job { variant, seed: *seed }))
        .collect();
    writeln!(out, "{}", scale.words())?;
    let failed = learn(options, &scale, &kept, &jobs, out)?;
    let rows = table::rows(&kept, &scale, &variants, &seeds);
    let holds = tell(&kept, &scale, &rows, out)?;
    if options.json {
        writeln!(out, "{}", serde_json::to_string(&rows)?)?;
    }
    if failed > 0 {
        bail!("{failed} runs failed\nhint: what is done is kept; the same command tries the rest");
    }
    Ok(holds)
}

/// Runs what is not kept yet. A run that fails stops no other; gives how many did.
fn learn(
    options: &Options,
    scale: &Scale,
    kept: &Kept,
    jobs: &[Job<'_>],
    out: &mut dyn Write,
) -> Result<usize> {
    let missing: Vec<&Job<'_>> =
        jobs.iter().filter(|job| kept.find(scale, job.variant, job.seed).is_none()).collect();
    let (all, before) = (missing.len(), jobs.len() - missing.len());
    let folder = options.dir.display();
    writeln!(out, "{} runs, of which {before} are kept in {folder} from before", jobs.len())?;
    let (tell, told) = mpsc::channel();
    // Whoever runs it has the only sender, so that it is known when the last one is done.
    let learn = move |job: &&Job<'_>| {
        let learnt = method::learn(scale, job.variant, job.seed)
            .and_then(|it| kept.keep(scale, job.variant, job.seed, &it).map(|()| it))
            .with_context(|| format!("{}, seed {}", job.variant.name, job.seed));
        // Whoever listens may have given up.
        let _ = tell.send(learnt.map(|learnt| said(job, &learnt)));
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs).build()?;
    std::thread::scope(|scope| {
        scope.spawn(move || pool.install(|| missing.par_iter().for_each(learn)));
        let mut failed = 0;
        for (done, said) in told.iter().enumerate() {
            failed += usize::from(said.is_err());
            let said = said.unwrap_or_else(|error| format!("FAILED: {error:#}"));
            writeln!(out, "[{}/{all}] {said}", done + 1)?;
            out.flush()?;
        }
        Ok(failed)
    })
}

/// Prints and writes what the rows say; true if every bound holds.
fn tell(kept: &Kept, scale: &Scale, rows: &[Row], out: &mut dyn Write) -> Result<bool> {
    let mut said = Vec::new();
    let holds = bounds::print(&mut said, rows)?;
    table::print(out, rows)?;
    writeln!(out)?;
    out.write_all(&said)?;
    let page = page::render(&scale.words(), rows, &String::from_utf8_lossy(&said));
    let path = kept.page();
    std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(out, "tables and curves: {}", path.display())?;
    Ok(holds)
}

fn said(job: &Job<'_>, learnt: &Learnt) -> String {
    let loss = learnt.loss.map_or("diverged".into(), |loss| format!("{loss:.4}"));
    format!("{}, seed {}: {loss} in {:.0} s", job.variant.name, job.seed, learnt.seconds)
}
