//! Real pseudo-gradients without a network or a data file: a small byte-level language model,
//! trained here and now on this repository's own text.
//!
//! Sixteen bytes are embedded, pass through two hidden layers and predict the next byte.

use std::fs;
use std::path::Path;

use rayon::prelude::*;

/// Trains the model and returns, for each of `windows` (first step, last step), what the weights
/// lost between the two: the pseudo-gradient of an island that worked that long.
pub(crate) fn train(windows: &[(usize, usize)]) -> Vec<Vec<f32>> {
    let text = text();
    let mut model = Model::new();
    let mut bases = vec![Vec::new(); windows.len()];
    let mut found = vec![Vec::new(); windows.len()];
    let last = windows.iter().map(|window| window.1).max().unwrap_or(0);
    let mut random = Random(7);
    for step in 0..=last {
        for (number, &(first, last)) in windows.iter().enumerate() {
            if step == first {
                bases[number].clone_from(&model.weights);
            }
            if step == last {
                let pairs = bases[number].iter().zip(&model.weights);
                found[number] = pairs.map(|(base, weight)| base - weight).collect();
            }
        }
        let loss = model.step(&text, &mut random);
        if step % 50 == 0 {
            eprintln!("step {step}: {loss:.3} nats per byte");
        }
    }
    found
}

/// Every Markdown and Rust file of the repository, in the order of their names.
fn text() -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut text = Vec::new();
    collect(&root, &mut text);
    assert!(text.len() > 10 * CONTEXT, "the repository has text");
    text
}

fn collect(directory: &Path, text: &mut Vec<u8>) {
    let entries = fs::read_dir(directory).expect("the repository can be read");
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(&path, text);
            }
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            text.extend(fs::read(&path).expect("the repository can be read"));
        }
    }
}

struct Model {
    /// Embedding, then the weights and biases of each layer.
    weights: Vec<f32>,
    gradient: Vec<f32>,
    first_moment: Vec<f32>,
    second_moment: Vec<f32>,
    steps: u32,
}

impl Model {
    fn new() -> Self {
        let mut random = Random(1);
        let mut weights: Vec<f32> = (0..EMBEDDINGS).map(|_| random.normal() * 0.5).collect();
        for (inputs, outputs) in LAYERS {
            let deviation = (2.0 / inputs as f32).sqrt();
            weights.extend((0..inputs * outputs).map(|_| random.normal() * deviation));
            weights.extend(vec![0.0; outputs]);
        }
        let zeros = vec![0.0; weights.len()];
        Self {
            weights,
            gradient: zeros.clone(),
            first_moment: zeros.clone(),
            second_moment: zeros,
            steps: 0,
        }
    }

    /// One step on a random batch; returns its loss.
    fn step(&mut self, text: &[u8], random: &mut Random) -> f32 {
        let starts: Vec<usize> =
            (0..BATCH).map(|_| random.below(text.len() - CONTEXT - 1)).collect();
        let mut input = Vec::with_capacity(BATCH * LAYERS[0].0);
        for &start in &starts {
            for &byte in &text[start..start + CONTEXT] {
                input.extend_from_slice(&self.weights[usize::from(byte) * WIDTH..][..WIDTH]);
            }
        }
        let mut activations = vec![input];
        for (index, &(inputs, outputs)) in LAYERS.iter().enumerate() {
            let (weights, bias) = self.layer(index);
            let mut out = forward(&activations[index], weights, bias, inputs, outputs);
            if index + 1 < LAYERS.len() {
                out.iter_mut().for_each(|value| *value = value.max(0.0));
            }
            activations.push(out);
        }
        let targets: Vec<u8> = starts.iter().map(|&start| text[start + CONTEXT]).collect();
        let mut flow = activations.pop().expect("the last layer has an output");
        let loss = cross_entropy(&mut flow, &targets);
        self.gradient.fill(0.0);
        for index in (0..LAYERS.len()).rev() {
            flow = self.backward(index, &activations[index], &flow);
        }
        for (sample, &start) in flow.chunks_exact(LAYERS[0].0).zip(&starts) {
            for (flow, &byte) in sample.chunks_exact(WIDTH).zip(&text[start..start + CONTEXT]) {
                axpy(&mut self.gradient[usize::from(byte) * WIDTH..][..WIDTH], 1.0, flow);
            }
        }
        self.adamw();
        loss
    }

    fn layer(&self, index: usize) -> (&[f32], &[f32]) {
        let (inputs, outputs) = LAYERS[index];
        self.weights[offset(index)..][..(inputs + 1) * outputs].split_at(inputs * outputs)
    }

    /// Adds to the gradient of a layer and returns what flows on to its input.
    fn backward(&mut self, index: usize, input: &[f32], flow: &[f32]) -> Vec<f32> {
        let (inputs, outputs) = LAYERS[index];
        let gradient = &mut self.gradient[offset(index)..][..(inputs + 1) * outputs];
        let (weights, bias) = gradient.split_at_mut(inputs * outputs);
        flow.chunks_exact(outputs).for_each(|sample| axpy(bias, 1.0, sample));
        weights.par_chunks_exact_mut(outputs).enumerate().for_each(|(row, weights)| {
            for (sample, flow) in input.chunks_exact(inputs).zip(flow.chunks_exact(outputs)) {
                if sample[row] != 0.0 {
                    axpy(weights, sample[row], flow);
                }
            }
        });
        let (weights, _) = self.layer(index);
        let mut back = vec![0.0; input.len()];
        let samples = back.par_chunks_exact_mut(inputs).zip(flow.par_chunks_exact(outputs));
        samples.zip(input.par_chunks_exact(inputs)).for_each(|((back, flow), input)| {
            for ((slot, weights), &input) in back.iter_mut().zip(weights.chunks(outputs)).zip(input)
            {
                // Behind the first layer a zero means that the rectifier let nothing through.
                if index == 0 || input > 0.0 {
                    *slot = dot(weights, flow);
                }
            }
        });
        back
    }

    fn adamw(&mut self) {
        self.steps += 1;
        let rate = RATE * (self.steps as f32 / 20.0).min(1.0);
        let (beta1, beta2) = (0.9f32, 0.99f32);
        let exponent = i32::try_from(self.steps).expect("few steps");
        let (fix1, fix2) = (1.0 - beta1.powi(exponent), 1.0 - beta2.powi(exponent));
        let moments = self.first_moment.iter_mut().zip(&mut self.second_moment);
        for ((weight, gradient), (first, second)) in
            self.weights.iter_mut().zip(&self.gradient).zip(moments)
        {
            *first = beta1 * *first + (1.0 - beta1) * gradient;
            *second = beta2 * *second + (1.0 - beta2) * gradient * gradient;
            let direction = (*first / fix1) / ((*second / fix2).sqrt() + 1e-8);
            *weight -= rate * (direction + 0.01 * *weight);
        }
    }
}

fn offset(layer: usize) -> usize {
    EMBEDDINGS
        + LAYERS[..layer].iter().map(|(inputs, outputs)| (inputs + 1) * outputs).sum::<usize>()
}

fn forward(
    input: &[f32],
    weights: &[f32],
    bias: &[f32],
    inputs: usize,
    outputs: usize,
) -> Vec<f32> {
    let mut out = vec![0.0; input.len() / inputs * outputs];
    let samples = out.par_chunks_exact_mut(outputs).zip(input.par_chunks_exact(inputs));
    samples.for_each(|(out, sample)| {
        out.copy_from_slice(bias);
        for (&value, weights) in sample.iter().zip(weights.chunks_exact(outputs)) {
            if value != 0.0 {
                axpy(out, value, weights);
            }
        }
    });
    out
}

/// Turns logits into their gradient and returns the mean loss.
fn cross_entropy(logits: &mut [f32], targets: &[u8]) -> f32 {
    let mut loss = 0.0;
    for (logits, &target) in logits.chunks_exact_mut(BYTES).zip(targets) {
        let largest = logits.iter().copied().fold(f32::MIN, f32::max);
        logits.iter_mut().for_each(|logit| *logit = (*logit - largest).exp());
        let total: f32 = logits.iter().sum();
        logits.iter_mut().for_each(|logit| *logit /= total);
        loss -= logits[usize::from(target)].max(1e-30).ln();
        logits[usize::from(target)] -= 1.0;
        logits.iter_mut().for_each(|logit| *logit /= BATCH as f32);
    }
    loss / BATCH as f32
}

fn axpy(out: &mut [f32], factor: f32, values: &[f32]) {
    for (slot, value) in out.iter_mut().zip(values) {
        *slot += factor * value;
    }
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 16];
    for (left, right) in left.as_chunks::<16>().0.iter().zip(right.as_chunks::<16>().0) {
        for lane in 0..16 {
            lanes[lane] += left[lane] * right[lane];
        }
    }
    lanes.iter().sum()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }

    /// The sum of twelve uniform numbers is normal enough for initial weights.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| (self.next() >> 40) as f32 / (1 << 24) as f32).sum::<f32>() - 6.0
    }
}

const BYTES: usize = 256;
const CONTEXT: usize = 16;
const WIDTH: usize = 32;
const EMBEDDINGS: usize = BYTES * WIDTH;
/// Inputs and outputs of every layer.
const LAYERS: [(usize, usize); 3] = [(CONTEXT * WIDTH, 768), (768, 768), (768, BYTES)];
const BATCH: usize = 64;
const RATE: f32 = 1e-3;
