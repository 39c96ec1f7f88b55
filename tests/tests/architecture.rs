//! Rules about the shape of the workspace: who may depend on whom, and what the core may use.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/source.rs"]
mod source;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[test]
fn packages_depend_only_on_what_they_may() {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["metadata", "--offline", "--format-version", "1", "--no-deps"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let edges = edges(&metadata);
    assert!(edges.iter().any(|(from, _)| from == "atoll-protocol"), "no dependencies were found");
    assert_eq!(broken(&edges), Vec::<String>::new());
}

#[test]
fn only_the_devices_of_an_island_name_candle() {
    let source = root().join("node/src");
    let named: Vec<PathBuf> = source::files(&source)
        .into_iter()
        .filter(|(_, text)| text.contains("candle_core"))
        .map(|(path, _)| path.strip_prefix(&source).unwrap().to_owned())
        .collect();
    assert!(!named.is_empty(), "nothing was found");
    let outside: Vec<_> = named.iter().filter(|it| !it.starts_with("island/device")).collect();
    let allowed = Path::new("island/device.rs");
    assert!(outside.iter().all(|path| path.as_path() == allowed), "{outside:?}");
}

#[test]
fn the_simulator_takes_nothing_but_the_island_from_the_node() {
    let mut named = 0;
    for (path, text) in source::files(&root().join("testnet/src")) {
        for part in text.split("atoll_node::").skip(1) {
            named += 1;
            assert!(part.starts_with("island"), "{}: atoll_node::{part:.20}", path.display());
        }
    }
    assert!(named > 0, "nothing was found");
}

#[test]
fn modules_of_the_core_import_only_lower_layers() {
    let source = root().join("protocol/src");
    let mut broken = Vec::new();
    for (path, text) in source::files(&source) {
        let path = path.strip_prefix(&source).unwrap();
        broken.extend(upward(&module_of(path), &text));
    }
    broken.sort();
    broken.dedup();
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_exception_is_used() {
    let source = root().join("protocol/src");
    let used: Vec<(String, String)> = source::files(&source)
        .into_iter()
        .flat_map(|(path, text)| {
            let module = module_of(path.strip_prefix(&source).unwrap());
            source::imports(&text).into_iter().map(move |import| (module.clone(), import))
        })
        .collect();
    for (from, to) in SIBLINGS {
        let edge = (from.to_owned(), to.to_owned());
        assert!(used.contains(&edge), "{from} no longer imports {to}: take it off the list");
    }
}

#[test]
fn the_core_has_no_ambient_input_or_output() {
    let mut found = Vec::new();
    for (path, text) in source::files(&root().join("protocol/src")) {
        for (line, token) in source::forbidden(&text, &FORBIDDEN) {
            found.push(format!("{}:{line}: {token}", path.display()));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn files_are_short() {
    let mut long = Vec::new();
    for package in PACKAGES {
        for (path, text) in source::files(&root().join(package).join("src")) {
            long.extend(too_long(&path, &text));
        }
    }
    assert_eq!(long, Vec::<String>::new());
}

#[test]
fn a_forbidden_dependency_is_found() {
    let metadata = |from: &str, to: &str, kind: Value| {
        let dependency = serde_json::json!({ "name": to, "kind": kind });
        serde_json::json!({ "packages": [{ "name": from, "dependencies": [dependency] }] })
    };
    for (from, to) in [
        ("atoll-protocol", "tokio"),
        ("atoll-protocol", "candle-core"),
        ("atoll-protocol", "libp2p"),
        ("atoll-protocol", "rand"),
        ("atoll-protocol", "atoll-testnet"),
        ("atoll-node", "atoll-testnet"),
        ("atoll-bootstrap", "candle-nn"),
        ("atoll-bootstrap", "atoll-node"),
        ("atoll-testnet", "libp2p"),
    ] {
        assert_eq!(broken(&edges(&metadata(from, to, Value::Null))).len(), 1, "{from} -> {to}");
    }
    for (from, to) in [
        ("atoll-protocol", "libp2p-identity"),
        ("atoll-protocol", "rand_chacha"),
        ("atoll-node", "libp2p"),
        ("atoll-testnet", "rayon"),
    ] {
        assert!(broken(&edges(&metadata(from, to, Value::Null))).is_empty(), "{from} -> {to}");
    }
    // Tests may use what they like.
    assert!(edges(&metadata("atoll-protocol", "rayon", "dev".into())).is_empty());
    let build = metadata("atoll-protocol", "tokio", "build".into());
    assert_eq!(broken(&edges(&build)).len(), 1);
}

#[test]
fn an_import_from_above_is_found() {
    assert_eq!(upward("ledger", "use crate::engine::Engine;").len(), 1);
    assert_eq!(upward("id", "use crate::time::Time;").len(), 1);
    assert_eq!(upward("ledger", "use crate::{id::NodeId, message::{Message, Summary}};").len(), 1);
    assert_eq!(upward("codec", "fn f() { crate::outer::step(); }").len(), 1);
    assert_eq!(upward("ledger", "use crate::nowhere::Thing;").len(), 1);
    assert_eq!(upward("novel", "use crate::id::NodeId;").len(), 1);
    assert_eq!(upward("ledger", "pub(crate) use crate::peers;").len(), 1);
    assert!(upward("ledger", "use crate::ledger::evidence;\nuse crate::id::NodeId;").is_empty());
    assert!(upward("ledger", "// use crate::engine::Engine;").is_empty());
    assert!(upward("ledger", "#[cfg(test)]\nmod tests { use crate::testkit; }").is_empty());
    assert!(upward("chain", "use crate::ledger::cut_digest;").is_empty());
    assert!(upward("testkit", "use crate::engine::Engine;").is_empty());
    assert_eq!(upward("engine", "use crate::testkit::key;").len(), 1);
}

#[test]
fn a_forbidden_word_is_found() {
    let found = |text| source::forbidden(text, &FORBIDDEN).len();
    assert_eq!(found("use std::fs::File;"), 1);
    assert_eq!(found("let map: HashMap<u8, u8> = HashMap::new();"), 1);
    assert_eq!(found("unsafe { x() }\nlet t = std::time::Instant::now();"), 2);
    assert_eq!(found("std::env::var(\"x\"); std::process::exit(1)"), 2);
    assert_eq!(found("// std::fs is for drivers"), 0);
    assert_eq!(found("let text = \"unsafe\";"), 0);
    assert_eq!(found("let InstantNoodles = 1;"), 0);
    assert_eq!(found("#[cfg(test)]\nmod tests { use std::thread; }"), 0);
}

#[test]
fn a_long_file_is_found() {
    let path = Path::new("src/long.rs");
    assert!(too_long(path, &"x\n".repeat(600)).is_none());
    assert!(too_long(path, &"x\n".repeat(601)).is_some());
}

/// Direct dependencies that are not only for tests.
fn edges(metadata: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .flat_map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap();
            let used = dependencies.iter().filter(|it| it["kind"].as_str() != Some("dev"));
            used.map(move |dependency| (text(package), text(dependency)))
        })
        .collect()
}

/// Edges that no rule allows, in words.
fn broken(edges: &[(String, String)]) -> Vec<String> {
    let matches = |name: &str, pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    };
    edges
        .iter()
        .filter(|(from, to)| {
            NEVER.iter().any(|(package, patterns)| {
                from == package && patterns.iter().any(|pattern| matches(to, pattern))
            })
        })
        .map(|(from, to)| format!("{from} must not depend on {to}"))
        .collect()
}

/// The top-level module a file of the core belongs to.
fn module_of(path: &Path) -> String {
    let first = path.iter().next().unwrap().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// What a file imports against the order of the layers, in words.
fn upward(module: &str, text: &str) -> Vec<String> {
    let layer = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    if FREE.contains(&module) {
        return Vec::new();
    }
    let Some(own) = layer(module) else { return vec![format!("{module} has no layer")] };
    source::imports(text)
        .into_iter()
        .filter(|import| {
            let sibling = SIBLINGS.contains(&(module, import.as_str()));
            import != module && !sibling && layer(import).is_none_or(|layer| layer >= own)
        })
        .map(|import| format!("{module} must not import {import}"))
        .collect()
}

fn too_long(path: &Path, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > LINES_MAX).then(|| format!("{} has {lines} lines", path.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

const PACKAGES: [&str; 4] = ["protocol", "node", "bootstrap", "testnet"];

/// What each package must never depend on.
const NEVER: &[(&str, &[&str])] = &[
    (
        "atoll-protocol",
        &[
            "tokio*",
            "futures*",
            "async-*",
            "libp2p",
            "candle*",
            "rayon*",
            "serde_json",
            "rand",
            "rand_core",
            "getrandom",
            "atoll-*",
        ],
    ),
    ("atoll-node", &["atoll-testnet", "atoll-bootstrap"]),
    ("atoll-bootstrap", &["atoll-node", "atoll-testnet", "candle*"]),
    ("atoll-testnet", &["atoll-bootstrap", "libp2p*", "candle*"]),
];

/// The layers of the core, lowest first. A module imports only from layers below its own.
const LAYERS: [&[&str]; 6] = [
    &["id", "time", "rng", "pool", "limits", "fault", "planted"],
    &["wire", "crypto"],
    &["codec", "fragment", "genesis", "contribution"],
    &["ledger", "chain", "outer", "frontier", "roster", "island"],
    &["message", "round", "fetch", "peers", "divergence"],
    &["engine"],
];

/// Imports inside one layer that are meant.
const SIBLINGS: [(&str, &str); 5] = [
    ("crypto", "wire"),
    ("chain", "ledger"),
    ("genesis", "codec"),
    // A genesis is split into fragments, and fragments are made of a genesis' tensors.
    ("genesis", "fragment"),
    ("fragment", "genesis"),
];

/// Modules that may import anything and that nothing but tests may import.
const FREE: [&str; 2] = ["testkit", "lib"];

const FORBIDDEN: [&str; 10] = [
    "std::fs",
    "std::net",
    "std::thread",
    "std::env",
    "std::process",
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "unsafe",
];

const LINES_MAX: usize = 600;
