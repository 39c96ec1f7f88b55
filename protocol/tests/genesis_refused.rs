//! Each value that a genesis may not have is named, with what is allowed instead.

use atoll_protocol::genesis::{Genesis, GenesisError, InnerOptimiser, Model, RosterPolicy};
use atoll_protocol::id::NodeId;

#[test]
fn each_bad_value_is_named_with_its_range() {
    let hash = "ab".repeat(32);
    let twice = format!("roster = {{ nodes = [\"{hash}\", \"{hash}\"] }}");
    let cases = [
        ("rounds.steps = 0", "rounds.steps = 0: allowed 1..=100000"),
        ("rounds.steps = -5", "rounds.steps = -5: allowed 1..=100000"),
        ("rounds.steps = 5000000000", "rounds.steps = 5000000000: allowed 1..=100000"),
        ("rounds.steps_min = 25", "rounds.steps_min = 25: allowed at most rounds.steps (24)"),
        ("rounds.quorum_min = 0", "rounds.quorum_min = 0: allowed 1..=1024"),
        ("rounds.quorum_percent = 101", "rounds.quorum_percent = 101: allowed 1..=100"),
        (
            "rounds.grace_ms_min = 20000",
            "rounds.grace_ms_min = 20000: allowed at most rounds.grace_ms_max (10000)",
        ),
        ("rounds.grace_ms_max = 3600001", "rounds.grace_ms_max = 3600001: allowed 0..=3600000"),
        ("rounds.horizon = 3", "rounds.horizon = 3: allowed 4..=4096"),
        (
            "rounds.alive_ms = 700000",
            "rounds.alive_ms = 700000: allowed at most rounds.forget_ms (600000)",
        ),
        (
            "rounds.heartbeat_ms = 10001",
            "rounds.heartbeat_ms = 10001: allowed at most half of rounds.alive_ms (20000)",
        ),
        ("outer.learning_rate = 0", "outer.learning_rate = 0: allowed 0 < value <= 10"),
        ("outer.learning_rate = nan", "outer.learning_rate = NaN: allowed 0 < value <= 10"),
        ("outer.learning_rate = 1e-300", "allowed 0 < value <= 10"),
        ("outer.momentum = 1.0", "outer.momentum = 1: allowed 0 <= value < 1"),
        ("outer.momentum = -0.1", "outer.momentum = -0.1: allowed 0 <= value < 1"),
        ("merge.clip = 0.5", "merge.clip = 0.5: allowed 1 <= value <= 1000000"),
        ("merge.clip = inf", "merge.clip = inf: allowed 1 <= value <= 1000000"),
        ("merge.norm_max = 0.0", "merge.norm_max = 0: allowed 0 < value <= 1000000000000"),
        ("merge.weight_cap = 1001", "merge.weight_cap = 1001: allowed 1..=1000"),
        (
            "merge.rule = \"median\"",
            "merge.rule = \"median\": allowed mean, rda, trimmed-mean, centered-clip",
        ),
        ("codec = \"int5\"", "codec = \"int5\": allowed f32, int8, int4, low, sparse"),
        ("fragments = 0", "fragments = 0: allowed 1..=1024"),
        ("fragments = 39", "fragments = 39: allowed at most the number of tensors (38)"),
        ("init_seed = -1", "init_seed = -1: allowed 0..=9223372036854775807"),
        ("init_content = \"12\"", "init_content = \"12\": allowed 64 hexadecimal digits"),
        ("data.sequence = 129", "data.sequence = 129: allowed at most model.context (128)"),
        ("data.batch = 0", "data.batch = 0: allowed 1..=65536"),
        ("data.corpus = \"a b\"", "data.corpus = \"a b\": allowed 1..=256 visible ASCII"),
        ("schedule.peak = 11", "schedule.peak = 11: allowed 0 < value <= 10"),
        ("schedule.total_tokens = 0", "schedule.total_tokens = 0: allowed 1..="),
        ("schedule.warmup_tokens = 100000001", "allowed at most schedule.total_tokens (100000000)"),
        ("schedule.floor_percent = 101", "schedule.floor_percent = 101: allowed 0..=100"),
        ("schedule.shape = \"wsd\"", "schedule.shape = \"wsd\": allowed cosine, linear, constant"),
        ("inner.optimiser = \"adam\"", "inner.optimiser = \"adam\": allowed adamw, muon"),
        (
            "inner.momentum = 0.9",
            "inner.momentum = 0.9: allowed only with inner.optimiser = \"muon\"",
        ),
        (
            "inner = { optimiser = \"muon\", momentum = 1 }",
            "inner.momentum = 1: allowed 0 <= value < 1",
        ),
        ("inner.weight_decay = 1.5", "inner.weight_decay = 1.5: allowed 0 <= value <= 1"),
        ("roster = \"closed\"", "roster = \"closed\": allowed open, or a table with nodes"),
        ("roster = {}", "roster.stewards = a list of 0: allowed 1..=64 keys"),
        ("roster = { nodes = [] }", "roster.nodes = a list of 0: allowed 1..=1024 keys"),
        ("roster = { nodes = [\"xy\"] }", "roster.nodes = \"xy\": allowed 64 hexadecimal"),
        (&twice, "allowed ascending keys, each once"),
    ];
    for (line, message) in cases {
        refused(&format!("name = \"a\"\nmodel = \"nano\"\n{line}"), message);
    }
}

#[test]
fn each_bad_model_is_named_with_its_range() {
    let cases = [
        ("heads = 3", "model.heads = 3: allowed a number that divides model.width (128)"),
        ("heads = 128", "model.heads = 128: allowed a number that divides"),
        ("kv_heads = 3", "model.kv_heads = 3: allowed a divisor of model.heads (4)"),
        ("heads = 0", "model.heads = 0: allowed 1..=1024"),
        ("layers = 4000000000", "model.layers = 4000000000: allowed 1..=1024"),
        ("layers = 5000000000", "model.layers = 5000000000: allowed 1..=1024"),
        ("vocab = 255", "model.vocab = 255: allowed at least 256 with data.tokenizer"),
        ("rope_theta = 0.5", "model.rope_theta = 0.5: allowed 1 <= value <= 1000000000"),
        ("norm_epsilon = 0", "model.norm_epsilon = 0: allowed 0 < value <= 0.1"),
        ("width = 65536\nvocab = 1048576", "with 1..=536870904 parameters"),
    ];
    for (lines, message) in cases {
        refused(&format!("name = \"a\"\n[model]\npreset = \"nano\"\n{lines}"), message);
    }
    refused("name = \"a\"\n[model]\nvocab = 300", "model.width is missing: needed 2..=65536");
    refused("name = \"a\"\nmodel = \"huge\"", "\"huge\": allowed nano, micro, mini, small, 1b");
    refused("name = \"a\"\nmodel = \"1b\"\nfragments = 1", "allowed enough for at most 536870904");
}

#[test]
fn each_bad_tensor_is_named_with_its_range() {
    let cases = [
        ("name = \"w\"\nshape = []", "tensor[0].shape = []: allowed 1..=8 dimensions"),
        ("name = \"w\"\nshape = [3, 0]", "tensor[0].shape = [3, 0]: allowed 1..=8 dimensions"),
        ("name = \"w\"\nshape = [-1]", "tensor[0].shape = -1: allowed 0..=4294967295"),
        ("name = \"w\"\nshape = [65536, 65536]", "with 1..=536870904 parameters"),
        ("name = \"a b\"\nshape = [1]", "tensor[0].name = \"a b\": allowed 1..=128 visible"),
        ("shape = [1]", "tensor[0].name is missing: needed a unique name"),
        ("name = \"w\"", "tensor[0].shape is missing: needed a list of dimensions"),
        ("name = \"w\"\nshape = [1]\ninit = 0", "tensor[0].init = 0: allowed 0 < value <= 10"),
        ("name = \"w\"\nshape = [1]\ninit = \"two\"", "allowed zeros, ones or a standard"),
        ("name = \"w\"\nshape = [1]\nkind = \"x\"", "allowed matrix, embedding, vector"),
        (
            "name = \"w\"\nshape = [1]\n[[tensor]]\nname = \"w\"\nshape = [1]",
            "tensor[1].name = \"w\": allowed a name after \"w\"",
        ),
    ];
    for (lines, message) in cases {
        refused(&format!("name = \"a\"\n[[tensor]]\n{lines}"), message);
    }
    refused("name = \"a\"\nmodel = \"nano\"\ntensor = []", "tensor = a list: allowed only without");
    refused("name = \"a\"\ntensor = []", "tensors = 0: allowed 1..=16384");
}

#[test]
fn a_name_is_visible_and_short() {
    for name in ["", " a", "a ", "a\\tb", "a\\u202Eb", "a\\u200B", &"x".repeat(65)] {
        let allowed = "allowed 1..=64 visible characters, spaces only between them";
        refused(&format!("name = \"{name}\"\nmodel = \"nano\""), allowed);
    }
    let longest = "\u{e9}".repeat(64);
    for name in ["a b", "Caf\u{e9}-7 (test)", &longest] {
        assert!(Genesis::from_toml(&format!("name = \"{name}\"\nmodel = \"nano\"")).is_ok());
    }
}

#[test]
fn what_has_no_default_must_be_there() {
    refused("model = \"nano\"", "name is missing: needed what people call the run");
    refused("name = \"a\"", "model is missing: needed one of nano, micro, mini, small, 1b, a [mo");
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    for lines in [
        "stepz = 1",
        "rounds.stepz = 1",
        "outer.stepz = 1",
        "merge.stepz = 1",
        "data.stepz = 1",
        "schedule.stepz = 1",
        "inner.stepz = 1",
        "roster.stepz = 1",
    ] {
        refused(&format!("name = \"a\"\nmodel = \"nano\"\n{lines}"), "unknown field `stepz`");
    }
    refused("name = \"a\"\n[model]\nstepz = 1", "unknown field `stepz`");
    refused("name = \"a\"\n[[tensor]]\nstepz = 1", "unknown field `stepz`");
}

#[test]
fn a_wrong_type_is_shown_where_it_stands() {
    refused("name = \"a\"\nmodel = \"nano\"\nrounds.steps = \"many\"", "rounds.steps = \"many\"");
    refused("name = \"a\"\nmodel = 3", "line 2");
    refused("name = ", "line 1");
}

#[test]
fn bytes_are_held_to_the_same_rules() {
    let nano = Genesis::new("a", Model::preset("nano").unwrap());
    let mut cases = vec![nano.clone(); 8];
    cases[0].rounds.steps = 0;
    cases[1].outer.learning_rate = f32::NAN;
    cases[2].roster = RosterPolicy::Invite { stewards: Vec::new() };
    let nodes = vec![NodeId([2; 32]), NodeId([1; 32])];
    cases[3].roster = RosterPolicy::Closed { nodes, stewards: Vec::new() };
    cases[4].tensors.swap(0, 1);
    cases[5].init_seed = u64::MAX;
    cases[6].inner.optimiser = InnerOptimiser::Muon { momentum: 1.0 };
    cases[7].inner.weight_decay = -0.0;
    for case in cases {
        let error = Genesis::from_bytes(&case.to_bytes()).unwrap_err();
        assert!(matches!(error, GenesisError::Value { .. }), "{error}");
    }
}

fn refused(text: &str, message: &str) {
    let error = Genesis::from_toml(text).expect_err(text).to_string();
    assert!(error.contains(message), "{text}\ngave: {error}\nnot:  {message}");
}
