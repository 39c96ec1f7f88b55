//! The island as the rest of the node sees it: deterministic, resumable, and true to its account.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

use std::path::Path;
use std::sync::Arc;

use atoll_node::island::cpu::Llama;
use atoll_node::island::data::{Dataset, Source, Tokenizer};
use atoll_node::island::device::{Batch, Device, DeviceModel};
use atoll_node::island::exchange::Exchange;
use atoll_node::island::layout::Layout;
use atoll_node::island::learner::{Choices, Learner};
use atoll_node::island::precision::Precision;
use atoll_node::island::shape::Shape;
use atoll_node::island::{Island, IslandError};
use atoll_protocol::genesis::{Genesis, InnerOptimiser, Model, TensorKind};
use atoll_protocol::id::{FragmentId, NodeId};
use atoll_protocol::pool::Inline;

const RATE: f32 = 1e-3;

fn tiny(tied: bool) -> Genesis {
    tiny_with(InnerOptimiser::AdamW, tied)
}

fn tiny_with(optimiser: InnerOptimiser, tied: bool) -> Genesis {
    let model = Model::Llama {
        vocab: 256,
        width: 32,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        hidden: 64,
        context: 32,
        tied,
        rope_theta: 10_000.0,
        norm_epsilon: 1e-5,
    };
    let mut genesis = Genesis::new("tiny", model);
    genesis.data.batch = 3;
    genesis.inner.optimiser = optimiser;
    genesis
}

fn generated() -> Arc<Dataset> {
    let source = Source::Generated { seed: 0 };
    let cache = Path::new("never-written");
    Arc::new(Dataset::open(&source, Tokenizer::byte(), 256, cache, &mut |_| {}).unwrap())
}

fn learner(genesis: &Genesis, threads: usize, accumulate: usize) -> Learner {
    learner_in(Precision::F32, genesis, threads, accumulate)
}

fn learner_in(
    precision: Precision,
    genesis: &Genesis,
    threads: usize,
    accumulate: usize,
) -> Learner {
    let choices = Choices { device: Device::cpu(), threads, accumulate, precision };
    let parameters = Layout::new(genesis).initial(genesis);
    Learner::new(genesis, &NodeId([1; 32]), &generated(), &choices, parameters).unwrap()
}

fn losses(learner: &mut Learner, steps: usize) -> Vec<u32> {
    (0..steps).map(|_| learner.step(RATE).unwrap().loss.to_bits()).collect()
}

#[test]
fn one_seed_and_one_thread_count_give_the_same_bits() {
    let (adamw, muon) = (InnerOptimiser::AdamW, InnerOptimiser::muon());
    for (optimiser, threads) in [(adamw, 1), (adamw, 2), (muon, 2)] {
        let genesis = tiny_with(optimiser, true);
        for precision in [Precision::F32, Precision::quickest()] {
            let [mut one, mut other] =
                [(); 2].map(|()| learner_in(precision, &genesis, threads, 2));
            assert_eq!(losses(&mut one, 12), losses(&mut other, 12), "{precision}");
            assert!(one.parameters().unwrap() == other.parameters().unwrap());
        }
    }
}

#[test]
fn a_glance_is_at_the_same_part_each_time() {
    let mut island = learner(&tiny(true), 1, 1);
    let [first, again] = [(); 2].map(|()| island.glance().unwrap());
    let whole = island.evaluate().unwrap();
    assert_eq!(first, again);
    assert!(first != whole && (first - whole).abs() < 0.05 * whole, "{first}, {whole}");
}

#[test]
fn an_island_trains_with_the_optimiser_of_its_genesis() {
    let muon = |momentum| InnerOptimiser::Muon { momentum };
    let mut decaying = tiny(true);
    decaying.inner.weight_decay = 1.0;
    let runs = [tiny(true), tiny_with(muon(0.95), true), tiny_with(muon(0.5), true), decaying];
    let text = runs[0].run_id();
    let parameters = |genesis: &Genesis, steps: usize| {
        let mut island = learner(genesis, 1, 1);
        // The same text for all, so that nothing but the optimiser differs.
        island.read_as(&text, &NodeId([1; 32]), &generated()).unwrap();
        losses(&mut island, steps);
        island.parameters().unwrap()
    };
    let ends = runs.each_ref().map(|genesis| parameters(genesis, 3));
    for (index, one) in ends.iter().enumerate() {
        assert!(ends[..index].iter().all(|other| other != one), "run {index}");
        assert!(*one == parameters(&runs[index], 3), "run {index}");
    }
    // Embeddings and vectors are AdamW's in both.
    let layout = Layout::new(&runs[0]);
    let [adamw, muon] = [&runs[0], &runs[1]].map(|genesis| parameters(genesis, 1));
    for place in layout.tensors() {
        let same = adamw[place.range.clone()] == muon[place.range.clone()];
        assert_eq!(same, place.kind != TensorKind::Matrix, "{:?}", place.kind);
    }
}

#[test]
fn stopping_and_resuming_equals_not_stopping() {
    let (adamw, muon) = (InnerOptimiser::AdamW, InnerOptimiser::muon());
    let (exact, quick) = (Precision::F32, Precision::quickest());
    for (optimiser, precision) in [(adamw, exact), (muon, exact), (adamw, quick), (muon, quick)] {
        let genesis = tiny_with(optimiser, false);
        let mut whole = learner_in(precision, &genesis, 2, 1);
        losses(&mut whole, 7);
        let folder = tempfile::tempdir().unwrap();
        whole.save(folder.path()).unwrap();
        let expected = losses(&mut whole, 9);
        let mut resumed = learner_in(precision, &genesis, 2, 1);
        resumed.restore(folder.path()).unwrap();
        assert_eq!((resumed.steps(), resumed.tokens()), (7, 7 * 3 * 32));
        assert_eq!(losses(&mut resumed, 9), expected);
        assert!(resumed.parameters().unwrap() == whole.parameters().unwrap());
        let [mut one, mut other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        whole.save(one.path()).unwrap();
        resumed.save(other.path()).unwrap();
        for file in ["first-moments.safetensors", "second-moments.safetensors", "island.json"] {
            let read = |folder: &mut tempfile::TempDir| std::fs::read(folder.path().join(file));
            assert!(read(&mut one).unwrap() == read(&mut other).unwrap(), "{file}");
        }
    }
}

#[test]
fn a_step_in_pieces_is_the_same_step() {
    let genesis = tiny(true);
    let [mut whole, mut pieces] = [(); 2].map(|()| learner(&genesis, 2, 4));
    for step in 0..6 {
        let expected = whole.step(RATE).unwrap();
        // Between batches at least; two threads may also stop within one.
        let mut pauses = 0;
        let done = loop {
            assert_eq!(pieces.steps(), step);
            match pieces.advance(RATE, &|| true).unwrap() {
                Some(done) => break done,
                None => pauses += 1,
            }
        };
        assert_eq!(done, expected);
        assert!(pauses >= 3, "{pauses} pauses");
    }
    assert!(whole.parameters().unwrap() == pieces.parameters().unwrap());
}

#[test]
fn a_step_under_way_begins_anew_after_a_restart() {
    let genesis = tiny(true);
    let mut island = learner(&genesis, 1, 4);
    losses(&mut island, 2);
    assert_eq!(island.advance(RATE, &|| true).unwrap(), None);
    let folder = tempfile::tempdir().unwrap();
    island.save(folder.path()).unwrap();
    let expected = losses(&mut island, 3);
    // Whatever the island was at is given up when it goes back.
    assert_eq!(island.advance(RATE, &|| true).unwrap(), None);
    for mut restored in [island, learner(&genesis, 1, 4)] {
        restored.restore(folder.path()).unwrap();
        assert_eq!(restored.steps(), 2);
        assert_eq!(losses(&mut restored, 3), expected);
    }
}

#[test]
fn what_is_adopted_within_a_step_is_what_the_rest_of_it_learns_from() {
    let genesis = tiny(true);
    let [mut plain, mut met] = [(); 2].map(|()| learner(&genesis, 1, 2));
    let before = met.parameters().unwrap();
    assert_eq!(met.advance(RATE, &|| true).unwrap(), None);
    assert!(met.parameters().unwrap() == before, "nothing moves before the end of the step");
    met.change(FragmentId(0), &mut |local| local.iter_mut().for_each(|it| *it *= 1.5)).unwrap();
    let (one, other) = (plain.step(RATE).unwrap(), met.step(RATE).unwrap());
    assert_eq!(one.tokens, other.tokens);
    assert_ne!(one.loss, other.loss);
}

#[test]
fn a_checkpoint_that_is_torn_foreign_or_altered_changes_nothing() {
    let genesis = tiny(true);
    let mut island = learner(&genesis, 1, 1);
    losses(&mut island, 2);
    let folder = tempfile::tempdir().unwrap();
    island.save(folder.path()).unwrap();
    let mut other_run = genesis.clone();
    other_run.init_seed = 1;
    let mut foreign = learner(&other_run, 1, 1);
    let before = foreign.parameters().unwrap();
    let refused = foreign.restore(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("another run"), "{refused}");
    assert!(foreign.parameters().unwrap() == before);
    let model = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&model).unwrap();
    let mut altered = bytes.clone();
    *altered.last_mut().unwrap() ^= 1;
    for bad in [&bytes[..bytes.len() / 2], &altered, &[]] {
        std::fs::write(&model, bad).unwrap();
        let before = island.parameters().unwrap();
        let refused = island.restore(folder.path()).unwrap_err();
        assert!(matches!(refused, IslandError::Checkpoint(_)), "{refused}");
        assert!(island.parameters().unwrap() == before);
    }
    std::fs::remove_file(&model).unwrap();
    assert!(matches!(island.restore(folder.path()), Err(IslandError::File { .. })));
}

#[test]
fn a_step_into_nonsense_leaves_everything_as_it_was() {
    let genesis = tiny(true);
    let mut island = learner(&genesis, 2, 1);
    losses(&mut island, 3);
    island.change(FragmentId(0), &mut |local| local[0] = f32::NAN).unwrap();
    let before: Vec<u32> = island.parameters().unwrap().iter().map(|it| it.to_bits()).collect();
    let failed = island.step(RATE).unwrap_err();
    assert!(matches!(failed, IslandError::Diverged { step: 3, .. }), "{failed}");
    let after: Vec<u32> = island.parameters().unwrap().iter().map(|it| it.to_bits()).collect();
    assert!(before == after);
    assert_eq!(island.steps(), 3);
}

#[test]
fn the_held_out_loss_falls() {
    let genesis = tiny(true);
    let mut island = learner(&genesis, 2, 1);
    let first = island.evaluate().unwrap();
    for _ in 0..60 {
        island.step(5e-3).unwrap();
    }
    let last = island.evaluate().unwrap();
    assert!(last < first - 1.0, "{first} -> {last}");
}

#[test]
fn capture_and_adopt_keep_the_account() {
    let genesis = tiny(true);
    let mut island = learner(&genesis, 1, 1);
    let fragments = genesis.fragments;
    let mut exchange = Exchange::new(&mut island, fragments, genesis.codec).unwrap();
    losses(&mut island, 4);
    for fragment in (0..fragments).map(FragmentId) {
        let mut before = Vec::new();
        island.read(fragment, &mut |local| before = local.to_vec()).unwrap();
        let payload = exchange.capture(&mut island, fragment, &Inline).unwrap();
        let account = exchange.account(fragment).unwrap();
        let pending = account.pending().to_vec();
        // The swarm moves on by something else; our own progress is still pending.
        let outer: Vec<f32> = account.outer().iter().map(|value| value + 0.25).collect();
        let kept: [&[u8]; 1] = [&payload];
        exchange.adopt(&mut island, fragment, &outer, &kept, &[], &Inline).unwrap();
        let mut after = Vec::new();
        island.read(fragment, &mut |local| after = local.to_vec()).unwrap();
        assert!(before.iter().zip(&after).all(|(old, new)| (new - old - 0.25).abs() < 1e-6));
        // Then it merges our progress, and nothing else: the island stands where it stood.
        let merged: Vec<f32> = outer.iter().zip(&pending).map(|(a, b)| a + b).collect();
        exchange.adopt(&mut island, fragment, &merged, &[], &[], &Inline).unwrap();
        island
            .read(fragment, &mut |local| {
                assert!(local.iter().zip(&after).all(|(new, old)| (new - old).abs() < 1e-6));
            })
            .unwrap();
    }
    assert!(island.read(FragmentId(fragments), &mut |_| {}).is_err());
}

#[test]
fn our_kernels_and_candle_agree() {
    for tied in [true, false] {
        let genesis = tiny(tied);
        let (shape, layout) = (Shape::of(&genesis.model).unwrap(), Layout::new(&genesis));
        // Larger weights than initial ones, so that attention is not flat.
        let parameters: Vec<f32> = layout
            .initial(&genesis)
            .iter()
            .map(|value| if *value == 1.0 { 1.1 } else { 6.0 * value })
            .collect();
        let tokens: Vec<u32> = (0..4 * 33).map(|index| (index * index * 7 + index) % 256).collect();
        let mut llama = Llama::new(shape, &layout, 32, 2).unwrap();
        let loss = llama.gradient(&parameters, &tokens);
        let gradient = llama.gradients().mean();
        let device = DeviceModel::new(shape, layout, &Device::cpu(), &parameters).unwrap();
        let batch = Batch::new(&tokens, 32).unwrap();
        let (expected_loss, expected) = device.loss_and_gradient(batch).unwrap();
        assert!((loss - expected_loss).abs() < 1e-4, "{loss} {expected_loss}");
        let norm = |values: &[f32]| values.iter().map(|it| it * it).sum::<f32>().sqrt();
        let difference: Vec<f32> = gradient.iter().zip(&expected).map(|(a, b)| a - b).collect();
        let relative = norm(&difference) / norm(&expected);
        assert!(relative < 1e-4, "tied {tied}: {relative}");
    }
}
