//! Writes what `node/compare` holds against PyTorch: a model, batches, and what we make of them.
//!
//! The files are described in `node/compare/README.md`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use atoll_node::island::cpu::Llama;
use atoll_node::island::cpu::decoder::Decoder;
use atoll_node::island::cpu::optimiser::Optimiser;
use atoll_node::island::device::{Batch, Device, DeviceModel};
use atoll_node::island::hugging_face::{ExportTokenizer, export, import};
use atoll_node::island::layout::Layout;
use atoll_node::island::precision::{Precision, PrecisionChoice};
use atoll_node::island::settings::Settings;
use atoll_node::island::shape::Shape;
use atoll_protocol::genesis::{Genesis, Inner, InnerOptimiser, Model};
use clap::Parser;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;

/// Writes a model, batches, and what we make of them, for the scripts of node/compare.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder to write, which must not exist.
    folder: PathBuf,
    /// Start from a preset's seeded parameters.
    #[arg(long, default_value = "nano")]
    preset: String,
    /// Start from a Hugging Face folder or a GGUF file instead.
    #[arg(long)]
    from: Option<PathBuf>,
    /// Sequences in a batch.
    #[arg(long, default_value_t = 8)]
    rows: usize,
    /// Tokens in a sequence; the model's context unless given.
    #[arg(long)]
    sequence: Option<usize>,
    /// Training steps of the curve.
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Learning rate of the curve, after the warm-up.
    #[arg(long, default_value_t = 1e-3)]
    learning_rate: f32,
    /// Take the bytes of this file as tokens, instead of generated words.
    #[arg(long)]
    text: Option<PathBuf>,
    /// Compute with candle, not with our own kernels.
    #[arg(long)]
    candle: bool,
    /// What our own kernels compute products in: f32, bf16 or auto.
    #[arg(long, default_value = "f32", conflicts_with = "candle")]
    precision: PrecisionChoice,
}

/// One way to compute the model; a new one needs these three functions.
trait Producer {
    fn logits(&mut self, batch: Batch<'_>) -> Result<Vec<f32>, Box<dyn Error>>;
    fn loss_and_gradient(&mut self, batch: Batch<'_>) -> Result<(f32, Vec<f32>), Box<dyn Error>>;
    /// Trains one step and gives the loss before it.
    fn step(&mut self, batch: Batch<'_>, rate: f32) -> Result<f32, Box<dyn Error>>;
}

impl Producer for DeviceModel {
    fn logits(&mut self, batch: Batch<'_>) -> Result<Vec<f32>, Box<dyn Error>> {
        Ok(Self::logits(self, batch)?)
    }

    fn loss_and_gradient(&mut self, batch: Batch<'_>) -> Result<(f32, Vec<f32>), Box<dyn Error>> {
        Ok(Self::loss_and_gradient(self, batch)?)
    }

    fn step(&mut self, batch: Batch<'_>, rate: f32) -> Result<f32, Box<dyn Error>> {
        Ok(Self::step(self, &[batch], &settings(), rate)?.loss)
    }
}

/// Our own kernels.
struct Kernels {
    llama: Llama,
    decoder: Decoder,
    optimiser: Optimiser,
    parameters: Vec<f32>,
    sequence: usize,
}

impl Kernels {
    fn new(
        shape: Shape,
        layout: &Layout,
        sequence: usize,
        precision: Precision,
        parameters: Vec<f32>,
    ) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            llama: Llama::new(shape, layout, sequence, 2)?.in_precision(precision),
            decoder: Decoder::new(shape, layout)?,
            optimiser: Optimiser::new(layout, settings()).in_precision(precision),
            parameters,
            sequence,
        })
    }

    /// Sequences with their targets, one after another.
    fn rows(&self, batch: Batch<'_>) -> Vec<u32> {
        let (inputs, targets) = (batch.inputs(), batch.targets());
        let rows = inputs.chunks(self.sequence).zip(targets.chunks(self.sequence));
        let row =
            |(inputs, targets): (&[u32], &[u32])| [inputs, &targets[targets.len() - 1..]].concat();
        rows.flat_map(row).collect()
    }
}

impl Producer for Kernels {
    fn logits(&mut self, batch: Batch<'_>) -> Result<Vec<f32>, Box<dyn Error>> {
        let mut logits = Vec::new();
        for row in batch.inputs().chunks(self.sequence) {
            self.decoder.reset();
            for &token in row {
                let next = self.decoder.next(&self.parameters, token).ok_or("a full context")?;
                logits.extend_from_slice(next);
            }
        }
        Ok(logits)
    }

    fn loss_and_gradient(&mut self, batch: Batch<'_>) -> Result<(f32, Vec<f32>), Box<dyn Error>> {
        let rows = self.rows(batch);
        let loss = self.llama.gradient(&self.parameters, &rows);
        let gradient = self.llama.gradients().mean();
        self.llama.gradients().clear();
        Ok((loss, gradient))
    }

    fn step(&mut self, batch: Batch<'_>, rate: f32) -> Result<f32, Box<dyn Error>> {
        let rows = self.rows(batch);
        let loss = self.llama.gradient(&self.parameters, &rows);
        self.optimiser.step(&mut self.parameters, self.llama.gradients(), rate)?;
        Ok(loss)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let (genesis, layout, parameters) = start(&arguments)?;
    let shape = Shape::of(&genesis.model).ok_or("a custom model")?;
    let sequence = arguments.sequence.unwrap_or(shape.context);
    let row = arguments.rows * (sequence + 1);
    let tokens = tokens(&arguments, shape.vocab, row * arguments.steps.max(1))?;

    fs::create_dir(&arguments.folder)?;
    let model_folder = arguments.folder.join("model");
    let tokenizer = if shape.vocab == 256 { ExportTokenizer::Byte } else { ExportTokenizer::None };
    export(&model_folder, &genesis.model, &layout, &parameters, tokenizer)?;
    let path = arguments.folder.join("batches.bin");
    write_batches(&path, &tokens, arguments.rows, sequence)?;

    let mut model: Box<dyn Producer> = if arguments.candle {
        Box::new(DeviceModel::new(shape, layout.clone(), &Device::cpu(), &parameters)?)
    } else {
        let precision = arguments.precision.resolve(&Device::cpu())?;
        Box::new(Kernels::new(shape, &layout, sequence, precision, parameters)?)
    };
    let batches =
        tokens.chunks(row).map(|it| Batch::new(it, sequence)).collect::<Result<Vec<_>, _>>()?;
    let path = arguments.folder.join("expected.safetensors");
    write_expected(&path, model.as_mut(), &layout, batches[0], shape.vocab)?;
    let path = arguments.folder.join("curve.json");
    let steps = &batches[..arguments.steps];
    write_curve(&path, model.as_mut(), steps, arguments.learning_rate)
}

fn start(arguments: &Arguments) -> Result<(Genesis, Layout, Vec<f32>), Box<dyn Error>> {
    let Some(from) = &arguments.from else {
        let model = Model::preset(&arguments.preset).ok_or("no such preset")?;
        let genesis = Genesis::new("compare", model);
        let layout = Layout::new(&genesis);
        let parameters = layout.initial(&genesis);
        return Ok((genesis, layout, parameters));
    };
    let imported = import(from)?;
    let genesis = Genesis::new("compare", imported.model);
    let layout = Layout::new(&genesis);
    let parameters = imported.into_parameters(&layout)?;
    Ok((genesis, layout, parameters))
}

/// Bytes of a file, or words drawn by a seeded generator so that there is something to learn.
fn tokens(arguments: &Arguments, vocab: usize, count: usize) -> Result<Vec<u32>, Box<dyn Error>> {
    if let Some(path) = &arguments.text {
        let bytes = fs::read(path)?;
        return Ok(bytes.into_iter().cycle().take(count).map(u32::from).collect());
    }
    let mut state = 1_u64;
    let mut draw = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or_default() % below
    };
    let words: Vec<Vec<u32>> = (0..64)
        .map(|_| (0..2 + draw(6)).map(|_| u32::try_from(draw(vocab))).collect())
        .collect::<Result<_, _>>()?;
    let mut tokens = Vec::with_capacity(count + 8);
    while tokens.len() < count {
        tokens.extend(&words[draw(8) * draw(8)]);
    }
    tokens.truncate(count);
    Ok(tokens)
}

fn write_batches(
    path: &Path,
    tokens: &[u32],
    rows: usize,
    sequence: usize,
) -> Result<(), Box<dyn Error>> {
    let count = tokens.len() / (rows * (sequence + 1));
    let mut bytes = b"ATOLLBAT".to_vec();
    for number in [1, count, rows, sequence] {
        bytes.extend(u32::try_from(number)?.to_le_bytes());
    }
    bytes.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
    Ok(fs::write(path, bytes)?)
}

fn write_expected(
    path: &Path,
    model: &mut dyn Producer,
    layout: &Layout,
    batch: Batch<'_>,
    vocab: usize,
) -> Result<(), Box<dyn Error>> {
    let logits = model.logits(batch)?;
    let (loss, gradient) = model.loss_and_gradient(batch)?;
    let view = |shape: Vec<usize>, values| {
        TensorView::new(Dtype::F32, shape, bytemuck::cast_slice(values))
    };
    let loss = [loss];
    let mut tensors = vec![
        ("logits".to_owned(), view(vec![batch.predictions(), vocab], &logits)?),
        ("loss".to_owned(), view(vec![1], &loss)?),
    ];
    for place in layout.tensors() {
        let values = &gradient[place.range.clone()];
        tensors.push((format!("gradient.{}", place.name), view(place.shape.clone(), values)?));
    }
    Ok(safetensors::serialize_to_file(tensors, None, path)?)
}

fn write_curve(
    path: &Path,
    model: &mut dyn Producer,
    batches: &[Batch<'_>],
    rate: f32,
) -> Result<(), Box<dyn Error>> {
    let rates: Vec<f32> = (1..=batches.len()).map(|step| rate * warm(step)).collect();
    let steps = batches.iter().zip(&rates);
    let losses =
        steps.map(|(&batch, &rate)| model.step(batch, rate)).collect::<Result<Vec<_>, _>>()?;
    let Settings { first_decay, second_decay, epsilon, weight_decay, clip, .. } = settings();
    let curve = json!({
        "learning_rates": rates,
        "beta1": first_decay,
        "beta2": second_decay,
        "epsilon": epsilon,
        "weight_decay": weight_decay,
        "clip": clip,
        "loss": losses,
    });
    Ok(fs::write(path, format!("{curve:#}\n"))?)
}

/// AdamW's, for both sides: PyTorch's does not warm up by itself.
fn settings() -> Settings {
    let inner = Inner { optimiser: InnerOptimiser::AdamW, ..Inner::default() };
    Settings { warm_up: 1, ..Settings::of(&inner) }
}

/// A short linear warm-up to the full rate, as a run has one.
fn warm(step: usize) -> f32 {
    (step as f32 / 20.0).min(1.0)
}
