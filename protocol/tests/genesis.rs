//! A genesis as TOML and as bytes: what is read, what is refused, and what fixes the run id.

use atoll_protocol::codec::Codec;
use atoll_protocol::crypto;
use atoll_protocol::genesis::{
    Genesis, GenesisError, Init, Inner, InnerOptimiser, MergeRule, Model, PRESETS, RosterPolicy,
    Rounds, ScheduleShape, TensorKind, TensorSpec,
};
use atoll_protocol::id::{ContentId, NodeId};
use atoll_protocol::limits::{GENESIS_BYTES_MAX, MESSAGE_BYTES_MAX};
use proptest::prelude::*;

/// Every key that a run may set, none with its default.
const FULL: &str = r#"
name = "Full house"
init_seed = 7
init_content = "0101010101010101010101010101010101010101010101010101010101010101"
fragments = 3
codec = "int8"

[model]
vocab = 512
width = 64
layers = 2
heads = 8
kv_heads = 2
hidden = 96
context = 256
tied = false
rope_theta = 500000
norm_epsilon = 1e-6

[roster]
nodes = [
  "0303030303030303030303030303030303030303030303030303030303030303",
  "0202020202020202020202020202020202020202020202020202020202020202",
]
stewards = ["0404040404040404040404040404040404040404040404040404040404040404"]

[data]
tokenizer = "bpe"
tokenizer_content = "0505050505050505050505050505050505050505050505050505050505050505"
corpus = "shakespeare"
sequence = 64
batch = 4

[schedule]
peak = 0.004
warmup_tokens = 1000
total_tokens = 2000000
floor_percent = 5
shape = "linear"

[inner]
optimiser = "muon"
momentum = 0.9
weight_decay = 0.05

[rounds]
steps = 32
steps_min = 5
quorum_min = 2
quorum_percent = 60
grace_ms_min = 100
grace_ms_max = 900
horizon = 128
alive_ms = 8000
forget_ms = 90000
heartbeat_ms = 1500

[outer]
learning_rate = 0.7
momentum = 0.5

[merge]
rule = "rda"
weight_cap = 6
clip = 2.5
norm_max = 50
"#;

const CUSTOM: &str = r#"
name = "custom"
[[tensor]]
name = "w"
shape = [4, 3]
[[tensor]]
name = "b"
shape = [3]
[[tensor]]
name = "e"
shape = [9, 4]
kind = "embedding"
init = 0.1
[[tensor]]
name = "g"
shape = [4]
init = "ones"
"#;

#[test]
fn two_lines_are_enough() {
    for preset in PRESETS {
        let genesis = Genesis::from_toml(&format!("name = \"a\"\nmodel = \"{preset}\"")).unwrap();
        let model = Model::preset(preset).unwrap();
        assert_eq!(genesis, Genesis::new("a", model));
        assert_eq!(genesis.rounds, Rounds::default());
        assert_eq!(Some(genesis.data.sequence), model.context());
    }
}

#[test]
fn every_key_is_read() {
    let genesis = Genesis::from_toml(FULL).unwrap();
    assert_eq!((genesis.name.as_str(), genesis.init_seed, genesis.fragments), ("Full house", 7, 3));
    assert_eq!(genesis.init_content, Some(ContentId([1; 32])));
    assert_eq!(genesis.codec, Codec::Int8);
    assert_eq!(genesis.merge.rule, MergeRule::Rda);
    assert_eq!(genesis.schedule.shape, ScheduleShape::Linear);
    let optimiser = InnerOptimiser::Muon { momentum: 0.9 };
    assert_eq!(genesis.inner, Inner { optimiser, weight_decay: 0.05 });
    assert_eq!(genesis.outer.learning_rate, 0.7);
    assert_eq!(genesis.merge.norm_max, 50.0);
    assert_eq!(genesis.data.tokenizer_content, Some(ContentId([5; 32])));
    assert_eq!(genesis.rounds.heartbeat_ms, 1500);
    // Keys may be listed in any order; a genesis keeps them sorted.
    let nodes = vec![NodeId([2; 32]), NodeId([3; 32])];
    let stewards = vec![NodeId([4; 32])];
    assert_eq!(genesis.roster, RosterPolicy::Closed { nodes, stewards });
    assert_eq!(genesis.tensors.len(), 3 + 2 * 9);
}

#[test]
fn custom_tensors_have_usual_kinds_and_beginnings() {
    let genesis = Genesis::from_toml(CUSTOM).unwrap();
    assert_eq!(genesis.model, Model::Custom);
    let expected = [
        TensorSpec::new("b", &[3], TensorKind::Vector, Init::Zeros),
        TensorSpec::new("e", &[9, 4], TensorKind::Embedding, Init::Normal(0.1)),
        TensorSpec::new("g", &[4], TensorKind::Vector, Init::Ones),
        TensorSpec::new("w", &[4, 3], TensorKind::Matrix, Init::Normal(0.02)),
    ];
    assert_eq!(genesis.tensors, expected);
}

#[test]
fn a_preset_can_be_varied() {
    let text = "name = \"a\"\n[model]\npreset = \"nano\"\nvocab = 300\nheads = 2";
    let genesis = Genesis::from_toml(text).unwrap();
    let Model::Llama { vocab, width, heads, kv_heads, .. } = genesis.model else { panic!() };
    assert_eq!((vocab, width, heads, kv_heads), (300, 128, 2, 2));
}

#[test]
fn text_and_bytes_come_back_as_they_were() {
    let open = "name = \"a\"\nmodel = \"nano\"";
    let invite = format!("{open}\n[roster]\nstewards = [\"{}\"]", "ab".repeat(32));
    for text in [open, &invite, FULL, CUSTOM] {
        let genesis = Genesis::from_toml(text).unwrap();
        let bytes = genesis.to_bytes();
        assert_eq!(Genesis::from_bytes(&bytes), Ok(genesis.clone()));
        assert_eq!(Genesis::from_toml(&genesis.to_toml()), Ok(genesis.clone()));
        // Who knows the run can fetch its genesis as content.
        assert_eq!(genesis.run_id().0, crypto::content_id(&bytes).0);
    }
    let shown = Genesis::from_toml(open).unwrap().to_toml();
    assert!(shown.contains("momentum = 0.3\n"), "{shown}");
}

#[test]
fn an_optimiser_brings_its_own_defaults() {
    let genesis = |inner: &str| {
        Genesis::from_toml(&format!("name = \"a\"\nmodel = \"nano\"\n[inner]\n{inner}"))
    };
    let adamw = genesis("optimiser = \"adamw\"").unwrap();
    assert_eq!(adamw, genesis("").unwrap());
    assert_eq!((adamw.inner, adamw.schedule.peak), (Inner::default(), 1e-3));
    let muon = genesis("optimiser = \"muon\"").unwrap();
    assert_eq!((muon.inner.optimiser, muon.schedule.peak), (InnerOptimiser::muon(), 5e-3));
    let slow = genesis("optimiser = \"muon\"\n[schedule]\npeak = 0.002").unwrap();
    assert_eq!(slow.schedule.peak, 2e-3);
}

#[test]
fn the_run_id_is_fixed_for_ever() {
    assert_eq!(
        Genesis::from_toml(FULL).unwrap().run_id().to_hex(),
        "04d215708368dd3fc75fc1de8da19b921e67d667ae633ec790cf974503e5ae6d"
    );
    assert_eq!(
        Genesis::from_toml(CUSTOM).unwrap().run_id().to_hex(),
        "4f08f7a87f414703ed94447cc1eccfbe2f95759af7b258ccc21d2bada3814db9"
    );
}

#[test]
fn every_value_changes_the_run_id() {
    let mut ids = vec![Genesis::from_toml(FULL).unwrap().run_id()];
    let changes = [
        ("\"Full house\"", "\"Full horse\""),
        ("init_seed = 7", "init_seed = 8"),
        ("init_content = \"01", "init_content = \"00"),
        ("fragments = 3", "fragments = 4"),
        ("\"int8\"", "\"int4\""),
        ("vocab = 512", "vocab = 513"),
        ("context = 256", "context = 257"),
        ("tied = false", "tied = true"),
        ("rope_theta = 500000", "rope_theta = 500001"),
        ("norm_epsilon = 1e-6", "norm_epsilon = 1e-5"),
        ("\"0303", "\"0304"),
        ("\"0404", "\"0405"),
        ("\"bpe\"", "\"bpf\""),
        ("\"0505", "\"0506"),
        ("corpus = \"shakespeare\"", "corpus = \"shakespear\""),
        ("sequence = 64", "sequence = 63"),
        ("batch = 4", "batch = 5"),
        ("peak = 0.004", "peak = 0.005"),
        ("warmup_tokens = 1000", "warmup_tokens = 1001"),
        ("total_tokens = 2000000", "total_tokens = 2000001"),
        ("floor_percent = 5", "floor_percent = 6"),
        ("shape = \"linear\"", "shape = \"cosine\""),
        ("optimiser = \"muon\"\nmomentum = 0.9", "optimiser = \"adamw\""),
        ("momentum = 0.9", "momentum = 0.90001"),
        ("weight_decay = 0.05", "weight_decay = 0.06"),
        ("steps = 32", "steps = 33"),
        ("steps_min = 5", "steps_min = 6"),
        ("quorum_min = 2", "quorum_min = 3"),
        ("quorum_percent = 60", "quorum_percent = 61"),
        ("grace_ms_min = 100", "grace_ms_min = 101"),
        ("grace_ms_max = 900", "grace_ms_max = 901"),
        ("horizon = 128", "horizon = 129"),
        ("alive_ms = 8000", "alive_ms = 8001"),
        ("forget_ms = 90000", "forget_ms = 90001"),
        ("heartbeat_ms = 1500", "heartbeat_ms = 1501"),
        ("learning_rate = 0.7", "learning_rate = 0.70001"),
        ("momentum = 0.5", "momentum = 0.50001"),
        ("\"rda\"", "\"mean\""),
        ("weight_cap = 6", "weight_cap = 7"),
        ("clip = 2.5", "clip = 2.6"),
        ("norm_max = 50", "norm_max = 51"),
    ];
    for (from, to) in changes {
        assert!(FULL.contains(from), "{from}");
        ids.push(Genesis::from_toml(&FULL.replacen(from, to, 1)).expect(to).run_id());
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn bytes_of_another_kind_are_refused() {
    let bytes = Genesis::new("a", Model::preset("nano").unwrap()).to_bytes();
    assert_eq!(Genesis::from_bytes(&bytes[1..]), Err(GenesisError::Tag));
    let mut other = bytes.clone();
    other[16] = 99;
    assert_eq!(Genesis::from_bytes(&other), Err(GenesisError::Version(99)));
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(Genesis::from_bytes(&longer), Err(GenesisError::Wire(_))));
    let huge = vec![0; GENESIS_BYTES_MAX + 1];
    assert!(matches!(Genesis::from_bytes(&huge), Err(GenesisError::Wire(_))));
}

#[test]
fn tensors_must_be_those_of_the_model() {
    let mut genesis = Genesis::new("a", Model::preset("nano").unwrap());
    genesis.tensors[0].shape = vec![2, 2];
    let error = Genesis::from_bytes(&genesis.to_bytes()).unwrap_err().to_string();
    assert_eq!(error, "tensors = 38: allowed only the tensors that follow from the model");
}

#[test]
fn a_negative_zero_has_no_second_encoding() {
    let mut genesis = Genesis::new("a", Model::preset("nano").unwrap());
    genesis.outer.momentum = -0.0;
    assert!(Genesis::from_bytes(&genesis.to_bytes()).is_err());
}

#[test]
fn a_long_genesis_is_read_and_a_longer_one_refused() {
    let tensors = |count: usize| {
        let name = |n| format!("{:a>120}{n:06}", "");
        let tensor = |n| TensorSpec::new(name(n), &[1], TensorKind::Vector, Init::Zeros);
        Genesis::custom("long", (0..count).map(tensor).collect())
    };
    let long = tensors(6000);
    let bytes = long.to_bytes();
    assert!(bytes.len() > 3 * MESSAGE_BYTES_MAX);
    assert_eq!(Genesis::from_bytes(&bytes), Ok(long));
    let error = tensors(8000).validate().unwrap_err().to_string();
    assert!(error.ends_with("allowed at most 1048576"), "{error}");
}

fn small() -> impl Strategy<Value = Genesis> {
    let tensor = (1u32..9, 1u32..9, 0usize..4).prop_map(|(rows, columns, init)| {
        let init = [Init::Zeros, Init::Ones, Init::Normal(0.3), Init::Normal(1e-7)][init];
        TensorSpec::new("", &[rows, columns], TensorKind::Matrix, init)
    });
    let numbers = (any::<u32>(), 1u32..50, 0.001f32..10.0, 0.0f32..0.99, 1.0f32..9.0);
    (prop::collection::vec(tensor, 1..12), numbers).prop_map(|(mut tensors, numbers)| {
        for (index, tensor) in tensors.iter_mut().enumerate() {
            tensor.name = format!("t{index}");
        }
        let mut genesis = Genesis::custom("any", tensors);
        let (seed, steps, rate, momentum, clip) = numbers;
        genesis.init_seed = seed.into();
        genesis.rounds.steps = steps;
        genesis.rounds.steps_min = steps.div_ceil(3);
        genesis.outer.learning_rate = rate;
        genesis.outer.momentum = momentum;
        genesis.merge.clip = clip;
        genesis.schedule.peak = rate / 3.0;
        genesis
    })
}

proptest! {
    #[test]
    fn any_genesis_comes_back(genesis in small()) {
        prop_assert_eq!(genesis.validate(), Ok(()));
        prop_assert_eq!(Genesis::from_bytes(&genesis.to_bytes()), Ok(genesis.clone()));
        prop_assert_eq!(Genesis::from_toml(&genesis.to_toml()), Ok(genesis.clone()));
    }

    #[test]
    fn any_bytes_are_a_genesis_or_an_error(
        genesis in small(),
        noise in prop::collection::vec(any::<u8>(), 0..200),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let _ = Genesis::from_bytes(&noise);
        let mut bytes = genesis.to_bytes();
        // The tag and version stay, or nothing behind them would be tried.
        let head = bytes.len().min(18);
        let _ = Genesis::from_bytes(&[&bytes[..head], &noise].concat());
        let _ = Genesis::from_bytes(&bytes[..cut.index(bytes.len())]);
        for (index, value) in flips {
            let position = head + index.index(bytes.len() - head);
            bytes[position] = value;
        }
        if let Ok(read) = Genesis::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
            let elements: usize =
                read.fragment_map().fragments().iter().map(|fragment| fragment.elements).sum();
            prop_assert!(elements > 0);
        }
    }

    #[test]
    fn any_text_is_a_genesis_or_an_error(
        text in ".{0,80}",
        position in any::<prop::sample::Index>(),
    ) {
        let _ = Genesis::from_toml(&text);
        let mut whole = FULL.to_string();
        whole.insert_str(position.index(FULL.len()), &text);
        let _ = Genesis::from_toml(&whole);
    }
}
