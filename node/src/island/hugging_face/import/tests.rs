use std::fs;
use std::path::PathBuf;

use atoll_protocol::genesis::Genesis;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use super::*;
use crate::island::hugging_face::{ExportTokenizer, WEIGHTS, WEIGHTS_INDEX, export};

/// A folder of the test's own that goes away with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("atoll-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A model written below this folder.
    fn with_model(name: &str, tied: bool) -> (Self, PathBuf, Model, Vec<f32>) {
        let folder = Self::new(name);
        let path = folder.0.join("model");
        let (model, layout, parameters) = tiny(tied);
        export(&path, &model, &layout, &parameters, ExportTokenizer::Byte).unwrap();
        (folder, path, model, parameters)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tiny(tied: bool) -> (Model, Layout, Vec<f32>) {
    let model = Model::Llama {
        vocab: 256,
        width: 8,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        hidden: 12,
        context: 6,
        tied,
        rope_theta: 500.0,
        norm_epsilon: 1e-5,
    };
    let genesis = Genesis::new("tiny", model);
    let layout = Layout::new(&genesis);
    let parameters = layout.initial(&genesis);
    (model, layout, parameters)
}

type Stored = (String, Vec<usize>, Dtype, Vec<u8>);

/// What a weights file holds, to be changed and written again.
fn stored(path: &Path) -> Vec<Stored> {
    let bytes = fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let own = |(name, view): (String, TensorView<'_>)| {
        (name, view.shape().to_vec(), view.dtype(), view.data().to_vec())
    };
    file.tensors().into_iter().map(own).collect()
}

fn store(path: &Path, tensors: &[Stored]) {
    let views = tensors.iter().map(|(name, shape, dtype, data)| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
}

#[test]
fn what_was_exported_is_imported() {
    for tied in [true, false] {
        let (_folder, path, model, parameters) = Folder::with_model(&format!("whole-{tied}"), tied);
        let imported = import(&path).unwrap();
        assert_eq!(imported.model, model);
        assert!(imported.tokenizer.as_ref().unwrap().json.contains("ByteLevel"));
        let layout = Layout::new(&Genesis::new("tiny", model));
        assert_eq!(imported.into_parameters(&layout).unwrap(), parameters);
    }
}

#[test]
fn other_layouts_of_the_same_model_get_their_own_order() {
    let (_folder, path, model, parameters) = Folder::with_model("order", true);
    let mut genesis = Genesis::new("tiny", model);
    genesis.fragments = 1;
    let (one, four) = (Layout::new(&genesis), Layout::new(&Genesis::new("tiny", model)));
    let imported = import(&path).unwrap().into_parameters(&one).unwrap();
    for (a, b) in one.tensors().iter().zip(four.tensors()) {
        assert_eq!(imported[a.range.clone()], parameters[b.range.clone()]);
    }
    let (_, other, _) = tiny(false);
    let error = import(&path).unwrap().into_parameters(&other).unwrap_err();
    assert!(matches!(error, HuggingFaceError::Parameters { .. }));
}

#[test]
fn half_precision_and_shards_are_read() {
    let (_folder, path, model, parameters) = Folder::with_model("shards", true);
    let mut tensors = stored(&path.join(WEIGHTS));
    for (index, (_, _, dtype, data)) in tensors.iter_mut().enumerate() {
        let words = data.chunks_exact(4).map(|it| it.try_into().unwrap());
        let values: Vec<f32> = words.map(f32::from_le_bytes).collect();
        if index % 2 == 0 {
            *dtype = Dtype::BF16;
            *data = values.iter().flat_map(|it| half::bf16::from_f32(*it).to_le_bytes()).collect();
        } else {
            *dtype = Dtype::F16;
            *data = values.iter().flat_map(|it| half::f16::from_f32(*it).to_le_bytes()).collect();
        }
    }
    fs::remove_file(path.join(WEIGHTS)).unwrap();
    let (one, two) = tensors.split_at(7);
    store(&path.join("a.safetensors"), one);
    store(&path.join("b.safetensors"), two);
    let entry = |file: &'static str| move |it: &Stored| (it.0.clone(), serde_json::json!(file));
    let files =
        one.iter().map(entry("a.safetensors")).chain(two.iter().map(entry("b.safetensors")));
    let map: serde_json::Map<_, _> = files.collect();
    fs::write(path.join(WEIGHTS_INDEX), serde_json::json!({ "weight_map": map }).to_string())
        .unwrap();
    let layout = Layout::new(&Genesis::new("tiny", model));
    let imported = import(&path).unwrap().into_parameters(&layout).unwrap();
    for (a, b) in imported.iter().zip(&parameters) {
        assert!((a - b).abs() <= 0.004 * b.abs(), "{a} against {b}");
    }
    let outside = r#"{"weight_map": {"model.norm.weight": "../a.safetensors"}}"#;
    fs::write(path.join(WEIGHTS_INDEX), outside).unwrap();
    assert!(matches!(import(&path), Err(HuggingFaceError::Malformed { .. })));
}

#[test]
fn a_truncated_file_is_named_at_every_length() {
    let (_folder, path, ..) = Folder::with_model("truncated", true);
    let weights = path.join(WEIGHTS);
    let whole = fs::read(&weights).unwrap();
    for length in [0, 5, 8, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&weights, &whole[..length]).unwrap();
        let error = import(&path).unwrap_err();
        assert!(matches!(error, HuggingFaceError::Truncated { .. }), "{length}: {error}");
        assert!(error.to_string().contains("hint: the file is incomplete"));
    }
    fs::write(&weights, [0xff; 64]).unwrap();
    assert!(matches!(import(&path), Err(HuggingFaceError::Malformed { .. })));
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let (_folder, path, ..) = Folder::with_model("tensors", true);
    let weights = path.join(WEIGHTS);
    let whole = stored(&weights);
    let broken = |change: &dyn Fn(&mut Vec<Stored>)| {
        let mut tensors = whole.clone();
        change(&mut tensors);
        store(&weights, &tensors);
        import(&path).unwrap_err().to_string()
    };
    let norm = |it: &Stored| it.0 == "model.norm.weight";
    let error = broken(&|tensors| tensors.retain(|it| !norm(it)));
    assert!(error.contains("lacks 1 of the model's tensors, first `model.norm.weight`"), "{error}");
    let spare = ("spare.bias".to_owned(), vec![1], Dtype::F32, vec![0; 4]);
    let error = broken(&|tensors| tensors.push(spare.clone()));
    assert!(error.contains("first `spare.bias`"), "{error}");
    let error = broken(&|tensors| {
        let norm = tensors.iter_mut().find(|it| norm(it)).unwrap();
        (norm.1, norm.3) = (vec![4], vec![0; 16]);
    });
    assert!(error.contains("`model.norm.weight` has shape [4] where [8] is needed"), "{error}");
    let error = broken(&|tensors| tensors.iter_mut().find(|it| norm(it)).unwrap().2 = Dtype::I32);
    assert!(error.contains("is of type I32"), "{error}");
}

#[test]
fn a_tied_head_may_be_repeated_but_not_differ() {
    let (_folder, path, ..) = Folder::with_model("head", true);
    let weights = path.join(WEIGHTS);
    let mut tensors = stored(&weights);
    let mut head = tensors.iter().find(|it| it.0 == EMBEDDING).unwrap().clone();
    head.0 = HEAD.to_owned();
    tensors.push(head);
    store(&weights, &tensors);
    import(&path).unwrap();
    tensors.last_mut().unwrap().3[2] ^= 1;
    store(&weights, &tensors);
    let error = import(&path).unwrap_err().to_string();
    assert!(error.contains("`tie_word_embeddings` is true"), "{error}");
}

#[test]
fn nothing_is_overwritten() {
    let (folder, path, model, parameters) = Folder::with_model("overwritten", true);
    let (_, layout, _) = tiny(true);
    let before = fs::read(path.join(WEIGHTS)).unwrap();
    let error = export(&path, &model, &layout, &[], ExportTokenizer::None).unwrap_err();
    assert!(matches!(error, HuggingFaceError::Parameters { .. }));
    let error = export(&path, &model, &layout, &parameters, ExportTokenizer::None).unwrap_err();
    assert!(matches!(error, HuggingFaceError::NotEmpty(_)));
    assert_eq!(fs::read(path.join(WEIGHTS)).unwrap(), before);
    // A tokenizer that cannot be copied leaves nothing behind, finished or not.
    let files = [folder.0.join("absent.json")];
    let other = folder.0.join("other");
    let tokenizer = ExportTokenizer::Files(&files);
    assert!(export(&other, &model, &layout, &parameters, tokenizer).is_err());
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    let error = import(&folder.0).unwrap_err().to_string();
    assert!(error.contains("has no model\nhint: "), "{error}");
}
