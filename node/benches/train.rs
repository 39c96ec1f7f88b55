//! Tokens per second of training steps, for each preset and number of threads.
//!
//! `cargo bench -p atoll-node --bench train -- [--json] [--f32] [--muon] [--seconds S] [--batch B]
//! [--threads N] [preset...]`

use std::time::Instant;

use atoll_node::island::cpu::Llama;
use atoll_node::island::cpu::optimiser::Optimiser;
use atoll_node::island::layout::Layout;
use atoll_node::island::precision::Precision;
use atoll_node::island::settings::Settings;
use atoll_node::island::shape::Shape;
use atoll_protocol::genesis::{Genesis, InnerOptimiser, Model};

#[expect(clippy::print_stdout, reason = "the figures are for whoever ran it")]
fn main() {
    let options = Options::read(std::env::args().skip(1));
    for preset in &options.presets {
        for &threads in &options.threads {
            let figures = measure(preset, threads, &options);
            let Figures { tokens_per_second, median_step, steps, loss, peak } = figures;
            let batch = options.batch;
            if options.json {
                println!(
                    "{{\"preset\":\"{preset}\",\"threads\":{threads},\"batch\":{batch},\
                     \"tokens_per_second\":{tokens_per_second:.1},\
                     \"median_step_seconds\":{median_step:.6},\"steps\":{steps},\
                     \"loss\":{loss:.5},\"peak_rss_bytes\":{peak}}}"
                );
            } else {
                println!(
                    "{preset:>6} {threads} thread(s), batch {batch}: {tokens_per_second:9.0} \
                     tokens/s, median step {:8.2} ms, {steps} steps, loss {loss:.4}, peak {} MiB",
                    median_step * 1e3,
                    peak >> 20
                );
            }
        }
    }
}

struct Figures {
    tokens_per_second: f64,
    median_step: f64,
    steps: usize,
    loss: f32,
    peak: u64,
}

fn measure(preset: &str, threads: usize, options: &Options) -> Figures {
    let model = Model::preset(preset).unwrap_or_else(|| panic!("no preset {preset}"));
    let shape = Shape::of(&model).expect("a preset has a shape");
    let genesis = Genesis::new("bench", model);
    let layout = Layout::new(&genesis);
    let mut parameters = layout.initial(&genesis);
    let sequence = shape.context;
    let llama = Llama::new(shape, &layout, sequence, threads).expect("a preset fits");
    let mut llama = llama.in_precision(options.precision);
    let optimiser = InnerOptimiser::AdamW;
    let optimiser = if options.muon { InnerOptimiser::muon() } else { optimiser };
    let settings = Settings { optimiser, ..Settings::default() };
    let mut optimiser = Optimiser::new(&layout, settings).in_precision(options.precision);
    let vocab = u32::try_from(shape.vocab).expect("vocabularies fit");
    let mut seed = 1_u32;
    let mut batch = || -> Vec<u32> {
        let mut draw = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % vocab.min(97)
        };
        (0..options.batch * (sequence + 1)).map(|_| draw()).collect()
    };
    let (mut times, mut loss) = (Vec::new(), 0.0);
    let begin = Instant::now();
    while times.len() < 4 || begin.elapsed().as_secs_f64() < options.seconds {
        let tokens = batch();
        let start = Instant::now();
        loss = llama.gradient(&parameters, &tokens);
        optimiser.step(&mut parameters, llama.gradients(), 1e-3).expect("the loss is a number");
        times.push(start.elapsed().as_secs_f64());
    }
    // The first steps touch fresh memory.
    let mut times = times.split_off(2);
    times.sort_by(f64::total_cmp);
    let median_step = times[times.len() / 2];
    // Over the whole time, as PyTorch's side counts: a median would hide what a neighbour costs.
    let tokens = (options.batch * sequence * times.len()) as f64;
    let tokens_per_second = tokens / times.iter().sum::<f64>();
    Figures { tokens_per_second, median_step, steps: times.len(), loss, peak: peak() }
}

/// The process's largest resident set so far, where the system tells.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

struct Options {
    json: bool,
    muon: bool,
    precision: Precision,
    seconds: f64,
    batch: usize,
    threads: Vec<usize>,
    presets: Vec<String>,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut options = Self {
            json: false,
            muon: false,
            precision: Precision::quickest(),
            seconds: 5.0,
            batch: 8,
            threads: Vec::new(),
            presets: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let value = arguments.next().unwrap_or_default();
                value.parse::<f64>().unwrap_or_else(|_| panic!("{argument} needs a number"))
            };
            match argument.as_str() {
                "--bench" => {}
                "--json" => options.json = true,
                "--muon" => options.muon = true,
                "--f32" => options.precision = Precision::F32,
                "--seconds" => options.seconds = number(),
                "--batch" => options.batch = whole(number()),
                "--threads" => options.threads.push(whole(number())),
                preset => options.presets.push(preset.to_owned()),
            }
        }
        if options.threads.is_empty() {
            options.threads = vec![1, 2];
        }
        if options.presets.is_empty() {
            options.presets = ["nano", "micro", "mini"].map(str::to_owned).to_vec();
        }
        options
    }
}

#[expect(clippy::cast_possible_truncation, reason = "counts from the command line are small")]
#[expect(clippy::cast_sign_loss, reason = "negative counts become zero")]
fn whole(number: f64) -> usize {
    number as usize
}
