//! `atoll train` and what goes with it, as a person meets them: what works, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

use std::process::{Command, Output};

use tempfile::TempDir;

#[test]
fn an_island_trains_resumes_writes_and_is_exported_and_imported() {
    let home = tempfile::tempdir().unwrap();
    let trained = run(&home, &["train", "--steps", "6", "--json", "--dir", "one"]);
    assert!(trained.status.success(), "{}", stderr(&trained));
    let summary: serde_json::Value = serde_json::from_slice(&trained.stdout).unwrap();
    assert_eq!(summary["steps"], 6);
    assert!(summary["loss_last"].as_f64().unwrap() < summary["loss_first"].as_f64().unwrap());
    let resumed = run(&home, &["train", "--resume", "--steps", "9", "--json", "--dir", "one"]);
    let summary: serde_json::Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert_eq!(summary["steps"], 9);
    let sampled = run(&home, &["sample", "--dir", "one", "--tokens", "200", "--prompt", "The "]);
    assert!(sampled.status.success(), "{}", stderr(&sampled));
    assert!(sampled.stdout.starts_with(b"The ") && sampled.stdout.len() > 100);
    let exported = run(&home, &["export", "--dir", "one", "model"]);
    assert!(exported.status.success(), "{}", stderr(&exported));
    let again = run(&home, &["export", "--dir", "one", "model"]);
    refused(&again, "not empty");
    let imported = run(&home, &["import", "model", "--dir", "two"]);
    assert!(imported.status.success(), "{}", stderr(&imported));
    // The loss of the exported model, under the name of another run: other held-out text.
    let [one, two] = ["one", "two"].map(|dir| {
        let output = run(&home, &["eval", "--dir", dir, "--json"]);
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        object["loss"].as_f64().unwrap()
    });
    assert!((one / two - 1.0).abs() < 0.1, "{one} {two}");
}

#[test]
fn stopping_and_resuming_gives_the_same_checkpoint() {
    let home = tempfile::tempdir().unwrap();
    let train = |arguments: &[&str]| {
        let output = run(&home, &[&["train", "--threads", "2"], arguments].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    };
    train(&["--dir", "whole", "--steps", "8"]);
    train(&["--dir", "parts", "--steps", "3"]);
    train(&["--dir", "parts", "--resume", "--steps", "8"]);
    for file in ["model.safetensors", "second-moments.safetensors", "island.json"] {
        let read =
            |dir: &str| std::fs::read(home.path().join(dir).join("checkpoint").join(file)).unwrap();
        assert!(read("whole") == read("parts"), "{file}");
    }
}

#[test]
fn the_optimiser_stands_in_the_genesis() {
    let home = tempfile::tempdir().unwrap();
    let train = |dir: &str, arguments: &[&str]| {
        let line = ["train", "--threads", "1", "--steps", "4", "--dir", dir];
        run(&home, &[&line, arguments].concat())
    };
    let read = |file: &str| std::fs::read(home.path().join(file)).unwrap();
    let muon = train("muon", &["--optimiser", "muon"]);
    assert!(muon.status.success(), "{}", stderr(&muon));
    let genesis = String::from_utf8(read("muon/genesis.toml")).unwrap();
    assert!(genesis.contains("optimiser = \"muon\"\nmomentum = 0.95\n"), "{genesis}");
    // The genesis alone says how to train.
    let same = train("same", &["--genesis", "muon/genesis.toml"]);
    assert!(same.status.success(), "{}", stderr(&same));
    let model = "checkpoint/model.safetensors";
    assert!(read(&format!("same/{model}")) == read(&format!("muon/{model}")));
    let both = train("both", &["--genesis", "muon/genesis.toml", "--optimiser", "adamw"]);
    refused(&both, "--optimiser");
    let new = run(&home, &["new", "reef", "--optimiser", "muon", "--home", "home"]);
    assert!(new.status.success(), "{}", stderr(&new));
    assert!(stderr(&new).contains("\ninner   muon, learning rate up to 0.005\n"));
}

#[test]
fn a_tokenizer_stays_with_its_island() {
    let home = tempfile::tempdir().unwrap();
    words(&home, "words");
    let train: [&str; 5] = ["train", "--tokenizer", "words/tokenizer.json", "--dir", "one"];
    let trained = run(&home, &[&train[..], &["--steps", "2"]].concat());
    assert!(trained.status.success(), "{}", stderr(&trained));
    // What the island needs it has taken along.
    std::fs::remove_dir_all(home.path().join("words")).unwrap();
    let resumed = run(&home, &["train", "--resume", "--steps", "3", "--dir", "one"]);
    assert!(resumed.status.success(), "{}", stderr(&resumed));
    let exported = run(&home, &["export", "--dir", "one", "model"]);
    assert!(exported.status.success(), "{}", stderr(&exported));
    let imported = run(&home, &["import", "model", "--dir", "two"]);
    assert!(imported.status.success(), "{}", stderr(&imported));
    for dir in ["one", "model", "two"] {
        let read = |name: &str| std::fs::read_to_string(home.path().join(dir).join(name)).unwrap();
        assert_eq!(read("tokenizer.json"), WORDS, "{dir}");
        assert_eq!(read("tokenizer_config.json"), WORDS_CONFIG, "{dir}");
    }
    let resumed = run(&home, &["train", "--resume", "--steps", "1", "--dir", "two"]);
    assert!(resumed.status.success(), "{}", stderr(&resumed));
    // Without its config the tokenizer ends texts with another token: those are other data.
    std::fs::remove_file(home.path().join("one").join("tokenizer_config.json")).unwrap();
    let resumed = run(&home, &["train", "--resume", "--steps", "4", "--dir", "one"]);
    refused(&resumed, "other data than this");
}

#[test]
fn another_tokenizer_than_the_genesis_names_is_refused() {
    let home = tempfile::tempdir().unwrap();
    words(&home, "words");
    let train = ["train", "--steps", "1", "--tokenizer", "words/tokenizer.json"];
    assert!(run(&home, &[&train[..], &["--dir", "one"]].concat()).status.success());
    let genesis = ["--genesis", "one/genesis.toml"];
    let again = run(&home, &[&train[..], &genesis[..], &["--dir", "two"]].concat());
    assert!(again.status.success(), "{}", stderr(&again));
    let read = |dir: &str| std::fs::read(home.path().join(dir).join("genesis.toml")).unwrap();
    assert!(read("one") == read("two"));
    // The same words, but one more byte.
    let changed = format!("{WORDS}\n");
    for folder in ["words", "one"] {
        std::fs::write(home.path().join(folder).join("tokenizer.json"), &changed).unwrap();
    }
    let resume: [&str; 5] = ["train", "--resume", "--steps", "2", "--dir"];
    for arguments in [
        &[&resume[..], &["one"]].concat()[..],
        &["eval", "--dir", "one"],
        &["sample", "--dir", "one"],
        &["export", "--dir", "one", "model"],
        &[&train[..], &genesis[..], &["--dir", "three"]].concat(),
    ] {
        let output = run(&home, arguments);
        refused(&output, "not the run's tokenizer");
        refused(&output, "hint: use the very tokenizer.json");
    }
    let without = [&["train", "--steps", "1", "--dir", "three"], &genesis[..]].concat();
    refused(&run(&home, &without), "give its file with --tokenizer");
    assert!(!home.path().join("three").join("genesis.toml").exists());
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path();
    std::fs::write(path.join("empty.txt"), "").unwrap();
    std::fs::write(path.join("short.txt"), "a few words").unwrap();
    std::fs::write(path.join("bad.jsonl"), "{\"text\": \"x\"}\n{\"body\": 1}\n").unwrap();
    std::fs::write(path.join("tokenizer.json"), "{}").unwrap();
    std::fs::write(path.join("wide.json"), WIDE_TOKENIZER).unwrap();
    std::fs::write(path.join("latin.txt"), [b'a', 0xff, b'b']).unwrap();
    let cases: [(&[&str], &str); 13] = [
        (&["--data", "nowhere.txt"], "no such file"),
        (&["--data", "empty.txt"], "no text"),
        (&["--data", "short.txt"], "sequences of 128 need at least"),
        (&["--data", "bad.jsonl"], "line 2 has no field"),
        (&["--data", "latin.txt"], "not UTF-8 at byte 1"),
        (&["--tokenizer", "tokenizer.json"], "not a tokenizer"),
        (&["--tokenizer", "wide.json"], "vocabulary is 256"),
        (&["--model", "huge"], "no such size"),
        (&["--device", "cuda:0"], "without cuda"),
        (&["--device", "abacus"], "no device"),
        (&["--minutes=-1"], "more than 0"),
        (&["--sequence", "4096"], "sequence"),
        (&["--resume"], "no island lives here"),
    ];
    for (arguments, message) in cases {
        let output = run(&home, &[&["train", "--dir", "new", "--steps", "1"], arguments].concat());
        refused(&output, message);
        assert!(!path.join("new").join("genesis.toml").exists(), "{arguments:?}");
    }
}

#[test]
fn a_folder_that_is_taken_and_options_that_cannot_change_are_refused() {
    let home = tempfile::tempdir().unwrap();
    assert!(run(&home, &["train", "--steps", "1"]).status.success());
    let checkpoint = home.path().join("atoll-train").join("checkpoint");
    let before = std::fs::read(checkpoint.join("island.json")).unwrap();
    refused(&run(&home, &["train", "--steps", "2"]), "lives here already");
    refused(&run(&home, &["train", "--resume", "--batch", "4"]), "cannot change with --resume");
    refused(&run(&home, &["import", ".", "--dir", "atoll-train"]), "an island lives here");
    assert!(std::fs::read(checkpoint.join("island.json")).unwrap() == before);
    std::fs::write(checkpoint.join("model.safetensors"), "torn").unwrap();
    let resumed = run(&home, &["train", "--resume", "--steps", "3"]);
    refused(&resumed, "torn or was altered");
    refused(&resumed, "hint: nothing was changed; put a copy of the checkpoint back");
    refused(&run(&home, &["sample"]), "torn or was altered");
}

#[test]
fn a_loss_that_is_no_number_keeps_the_last_checkpoint() {
    let home = tempfile::tempdir().unwrap();
    assert!(run(&home, &["train", "--steps", "1", "--dir", "one"]).status.success());
    assert!(run(&home, &["export", "--dir", "one", "model"]).status.success());
    // Every value is finite, but no sum of them is.
    let weights = home.path().join("model").join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let start = {
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let norm = file.tensor("model.norm.weight").unwrap();
        norm.data().as_ptr() as usize - bytes.as_ptr() as usize
    };
    bytes[start..start + 4 * 128].copy_from_slice(&[1e38_f32.to_le_bytes(); 128].concat());
    std::fs::write(&weights, &bytes).unwrap();
    assert!(run(&home, &["import", "model", "--dir", "two"]).status.success());
    let manifest = home.path().join("two").join("checkpoint").join("island.json");
    let before = std::fs::read(&manifest).unwrap();
    let output = run(&home, &["train", "--resume", "--steps", "3", "--dir", "two"]);
    refused(&output, "the last good checkpoint is kept");
    refused(&output, "lower --learning-rate");
    assert!(std::fs::read(&manifest).unwrap() == before);
}

#[test]
fn models_that_cannot_be_imported_are_named() {
    let home = tempfile::tempdir().unwrap();
    assert!(run(&home, &["train", "--steps", "1", "--dir", "one"]).status.success());
    assert!(run(&home, &["export", "--dir", "one", "model"]).status.success());
    refused(&run(&home, &["import", "nothing", "--dir", "x"]), "no model");
    refused(&run(&home, &["import", "model", "--data", "nowhere", "--dir", "x"]), "no such file");
    let weights = home.path().join("model").join("model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &bytes[..bytes.len() - 10]).unwrap();
    refused(&run(&home, &["import", "model", "--dir", "x"]), "its header promises");
    std::fs::write(&weights, &bytes).unwrap();
    let config = home.path().join("model").join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("LlamaForCausalLM", "MistralForCausalLM")).unwrap();
    refused(&run(&home, &["import", "model", "--dir", "x"]), "architecture");
    std::fs::write(&config, text.replace("\"hidden_size\": 128", "\"hidden_size\": 64")).unwrap();
    refused(&run(&home, &["import", "model", "--dir", "x"]), "head_dim");
    assert!(!home.path().join("x").join("genesis.toml").exists());
}

/// Makes a folder with a tokenizer whose config, not its name, tells what ends a text.
fn words(home: &TempDir, folder: &str) {
    let folder = home.path().join(folder);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("tokenizer.json"), WORDS).unwrap();
    std::fs::write(folder.join("tokenizer_config.json"), WORDS_CONFIG).unwrap();
}

fn run(home: &TempDir, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atoll"))
        .args(arguments)
        .current_dir(home.path())
        .output()
        .unwrap()
}

#[track_caller]
fn refused(output: &Output, message: &str) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(message), "{message:?} in {text}");
    assert!(output.stdout.is_empty(), "{text}");
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A tokenizer whose highest id is beyond the byte vocabulary.
const WIDE_TOKENIZER: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 4000}, "unk_token": "a"}
}"#;

/// A tokenizer of a few words, none of which is a usual name for the end of a text.
const WORDS: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null,
    "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"?": 0, "the": 1, "and": 2, "stop": 3},
        "unk_token": "?"}
}"#;
const WORDS_CONFIG: &str = r#"{"eos_token": "stop"}"#;
