//! What each codec costs and keeps, on real pseudo-gradients: `cargo bench --bench codec`.
//!
//! Speeds are ratios to copying the same 32-bit floats on one thread in the same run, each the
//! median over rounds in which everything takes its turn. Both threads are awake when a
//! measurement begins. What two threads gain is held against what they gain at sums that need no
//! memory: two virtual cores may be two halves of one, and then nothing doubles.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark measures time, trains a model and prints a table"
)]

#[path = "support/pseudo_gradient.rs"]
mod pseudo_gradient;
#[path = "../tests/support/threads.rs"]
mod threads;

use std::hint::black_box;
use std::time::Instant;

use atoll_protocol::codec::{self, CHUNK, Codec, Payload};
use atoll_protocol::pool::{self, Inline, Pool};
use threads::Threads;

fn main() {
    // An earlier and a later stretch of 50 steps; the later is also the one that is timed.
    let found = pseudo_gradient::train(&[(100, 150), (200, 250)]);
    let values: Vec<f32> = found[1].iter().copied().cycle().take(ELEMENTS).collect();
    let times = measure(&values);
    let copy = median(&times.copy[0]);
    println!(
        "{} parameters, steps 100-150 / 200-250; copy {:.2} GB/s\n\
         two threads (median, best of {ROUNDS} rounds): copy {}, sums in registers {}\n",
        found[1].len(),
        ELEMENTS as f64 * 4e-9 / copy,
        gain(&times.copy[0], &times.copy[1]),
        gain(&times.sums[0], &times.sums[1]),
    );
    println!(
        "| codec | bits/parameter | NMSE | encode x copy | decode + accumulate x copy \
         | encode on 2 threads | decode on 2 threads |\n|---|---|---|---|---|---|---|"
    );
    for (codec, times) in Codec::ALL.into_iter().zip(&times.codecs) {
        let [(bits, error), (bits_later, error_later)] =
            [&found[0], &found[1]].map(|x| kept(codec, x));
        let [encode, decode, encode_two, decode_two] = times;
        println!(
            "| {} | {bits:.3} / {bits_later:.3} | {error:.5} / {error_later:.5} \
             | {:.2} | {:.2} | {} | {} |",
            codec.name(),
            copy / median(encode),
            copy / median(decode),
            gain(encode, encode_two),
            gain(decode, decode_two),
        );
    }
}

/// Bits per parameter, and the error's share of the energy.
fn kept(codec: Codec, values: &[f32]) -> (f64, f64) {
    let bytes = codec::encode(codec, values, &Inline).expect("training gave finite weights");
    let mut decoded = vec![0.0; values.len()];
    let payload = Payload::open(&bytes, codec, values.len()).expect("encoded just now");
    payload.decode(&mut decoded, &Inline).expect("encoded just now");
    let square = |value: f32| f64::from(value) * f64::from(value);
    let error: f64 = values.iter().zip(&decoded).map(|(x, y)| square(x - y)).sum();
    let energy: f64 = values.iter().map(|&x| square(x)).sum();
    (bytes.len() as f64 * 8.0 / values.len() as f64, error / energy)
}

/// What a second thread gains: by the medians, and by the least disturbed round of each.
fn gain(one: &[f64], two: &[f64]) -> String {
    let best = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    format!("{:.2}x, {:.2}x", median(one) / median(two), best(one) / best(two))
}

/// Seconds of every round.
struct Times {
    /// Sums in registers, on one thread and on two.
    sums: [Vec<f64>; 2],
    /// On one thread and on two.
    copy: [Vec<f64>; 2],
    /// Of each codec: encode, decode and accumulate on one thread, the same on two.
    codecs: Vec<[Vec<f64>; 4]>,
}

fn measure(values: &[f32]) -> Times {
    let two = Threads::new(2);
    let pools: [&dyn Pool; 2] = [&Inline, &two];
    let mut acc = vec![0.0; values.len()];
    let mut times = Times {
        sums: Default::default(),
        copy: Default::default(),
        codecs: vec![Default::default(); Codec::ALL.len()],
    };
    for _ in 0..ROUNDS {
        for (number, pool) in pools.into_iter().enumerate() {
            two.wake();
            let start = Instant::now();
            pool.run(ELEMENTS / CHUNK, &|_| sum());
            times.sums[number].push(start.elapsed().as_secs_f64());
            two.wake();
            let start = Instant::now();
            copy(black_box(values), &mut acc, pool);
            times.copy[number].push(start.elapsed().as_secs_f64());
        }
        for (codec, times) in Codec::ALL.into_iter().zip(&mut times.codecs) {
            for (number, pool) in pools.into_iter().enumerate() {
                two.wake();
                let start = Instant::now();
                let bytes = codec::encode(codec, black_box(values), pool).expect("finite");
                times[number * 2].push(start.elapsed().as_secs_f64());
                two.wake();
                let start = Instant::now();
                accumulate(codec, black_box(&bytes), &mut acc, pool);
                times[number * 2 + 1].push(start.elapsed().as_secs_f64());
            }
        }
    }
    times
}

/// About as long as a chunk takes to encode, without touching memory.
fn sum() {
    let mut lanes = [1.0f32; 64];
    for _ in 0..black_box(20_000) {
        lanes.iter_mut().for_each(|lane| *lane = *lane * 0.999 + 0.5);
    }
    black_box(lanes);
}

fn copy(values: &[f32], acc: &mut [f32], pool: &dyn Pool) {
    let parts = acc.chunks_mut(CHUNK).zip(values.chunks(CHUNK)).collect();
    pool::map(pool, parts, |(acc, values)| acc.copy_from_slice(values));
    black_box(acc);
}

fn accumulate(codec: Codec, bytes: &[u8], acc: &mut [f32], pool: &dyn Pool) {
    let payload = Payload::open(bytes, codec, acc.len()).expect("encoded just now");
    pool::map(pool, acc.chunks_mut(CHUNK).enumerate().collect(), |(index, part)| {
        payload.accumulate_chunk(index, 0.5, part).expect("encoded just now");
    });
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Elements that are timed: the pseudo-gradient over and over, as chunks are coded one by one.
const ELEMENTS: usize = 1 << 24;
const ROUNDS: usize = 31;
