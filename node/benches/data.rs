//! What data costs: `cargo bench -p atoll-node --bench data [-- <text> <tokenizer.json>]`.
//!
//! Without arguments: the generated corpus and a file of it, byte tokens. Every figure is the
//! median of rounds.

#![expect(clippy::print_stdout, reason = "a benchmark prints a table")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use atoll_node::island::data::generated::Generated;
use atoll_node::island::data::source::Files;
use atoll_node::island::data::{DataError, Dataset, Feed, Source, Tokenizer};
use atoll_protocol::id::{NodeId, RunId};

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}\nhint: {}", error.hint());
    }
}

fn run() -> Result<(), DataError> {
    // Cargo passes `--bench` itself.
    let mut paths = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut corpus = Vec::new();
    let generated = median(|_| {
        let maker = Generated::new(0);
        corpus.clear();
        (0..DOCUMENTS).for_each(|number| maker.write(number, &mut corpus));
    });
    println!("generating: {:.1} MB/s", corpus.len() as f64 / generated / 1e6);

    let text = paths.next().map_or_else(
        || {
            let path = folder.path().join("text.txt");
            std::fs::write(&path, &corpus).expect("the temporary folder can be written to");
            path
        },
        Into::into,
    );
    let tokenizer_path = paths.next();
    let tokenizer = || match &tokenizer_path {
        Some(path) => Tokenizer::from_file(Path::new(path)),
        None => Ok(Tokenizer::byte()),
    };
    let files = Source::Files(Files { path: text.clone(), field: None });
    let mut opened = None;
    let size = std::fs::metadata(&text).map_or(0, |metadata| metadata.len());
    let known = tokenizer()?;
    println!("tokenizer: vocabulary {}, separator {:?}", known.vocab(), known.separator());
    let built = median(|round| {
        let cache = folder.path().join(round.to_string());
        let tokenizer = tokenizer().expect("it was read before");
        opened = Some(Dataset::open(&files, tokenizer, u32::MAX, &cache, &mut |_| {}));
    });
    println!("tokenizing into the cache: {:.1} MB/s", size as f64 / built / 1e6);
    let file = Arc::new(opened.expect("opened just now")?);
    println!("tokens: {}", file.tokens().unwrap_or(0));
    let seed = Source::Generated { seed: 0 };
    let endless = Dataset::open(&seed, tokenizer()?, u32::MAX, folder.path(), &mut |_| {})?;
    draw("a file", &file)?;
    draw("the generated corpus", &Arc::new(endless))
}

fn draw(name: &str, dataset: &Arc<Dataset>) -> Result<(), DataError> {
    let mut feed = Feed::new(dataset, &RunId([1; 32]), &NodeId([2; 32]), SEQUENCE, BATCH)?;
    let mut tokens = Vec::new();
    let taken = median(|_| {
        for _ in 0..STEPS {
            feed.next(&mut tokens).expect("the data is there");
        }
    });
    let step = taken / STEPS as f64;
    println!(
        "batch of {BATCH} x {SEQUENCE} from {name}: {:.1} us, {:.4} % of a step at 20000 tokens/s",
        step * 1e6,
        step * 100.0 * 20000.0 / (BATCH * SEQUENCE) as f64
    );
    Ok(())
}

fn median(mut work: impl FnMut(usize)) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|round| {
            let start = Instant::now();
            work(round);
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

const ROUNDS: usize = 5;

const DOCUMENTS: u64 = 10_000;

const SEQUENCE: usize = 128;

const BATCH: usize = 8;

const STEPS: usize = 500;
