//! A model that was trained, by a lone island or by a run, ready to be used.

use atoll_node::config::{Config, Partial};
use atoll_node::island::data::GENERATED;
use atoll_node::island::layout::Layout;
use atoll_node::island::learner::Learner;
use atoll_node::store::Store;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::Version;
use atoll_protocol::outer::OuterState;

use super::failure::Failure;
use super::folder::{Folder, Settings};
use super::home::{Home, RunFolder};
use super::island;
use crate::cli::{IslandOptions, RunChoice};

/// A model that was trained.
pub(crate) struct Trained {
    pub(crate) folder: Folder,
    pub(crate) learner: Learner,
    /// Of a run: the version of each fragment.
    pub(crate) versions: Option<Vec<Version>>,
}

impl Trained {
    /// The model of a lone island's folder or of a run, to read `data` instead of what it was
    /// trained on if given.
    pub(crate) fn open(
        options: &IslandOptions,
        choice: &RunChoice,
        data: Option<&str>,
        field: Option<&str>,
    ) -> Result<Self, Failure> {
        if choice.run.is_none() && choice.home.is_none() {
            if RunFolder::is_at(&options.dir) {
                return Self::of_run(&RunFolder::open(&options.dir)?, options, data, field);
            }
            return Self::alone(options, data, field);
        }
        let partial = Partial { home: choice.home.clone(), ..Partial::default() };
        let config = Config::load(partial)?;
        let run = Home::new(&config.home).find(choice.run.as_deref())?;
        let data = data.or(config.data.as_deref());
        Self::of_run(&run, options, data, field.or(config.field.as_deref()))
    }

    /// How far the training had come, in words.
    pub(crate) fn age(&self) -> String {
        let Some(versions) = &self.versions else {
            let (steps, tokens) = (self.learner.steps(), self.learner.tokens());
            return format!("after {steps} steps and {tokens} tokens");
        };
        let name = &self.learner.genesis().name;
        match (versions.iter().min(), versions.iter().max()) {
            (Some(low), Some(high)) if low == high => format!("at version {low} of run {name}"),
            (Some(low), Some(high)) => format!("at versions {low} to {high} of run {name}"),
            _ => format!("of run {name}"),
        }
    }

    fn alone(
        options: &IslandOptions,
        data: Option<&str>,
        field: Option<&str>,
    ) -> Result<Self, Failure> {
        let folder = Folder::new(&options.dir);
        let (genesis, settings) = folder.open()?;
        let field = if data.is_some() { field } else { settings.field.as_deref() };
        let tokenizer = folder.tokenizer(&genesis)?;
        let data = data.unwrap_or(&settings.data);
        let dataset = island::dataset(&folder, &genesis, tokenizer, data, field)?;
        let parameters = Layout::new(&genesis).initial(&genesis);
        let mut learner = island::with(parameters, &genesis, &settings, options, &dataset)?;
        let checkpoint = folder.checkpoint().ok_or_else(|| {
            Failure::new(format!("{}: the island has no checkpoint yet", options.dir.display()))
                .hint("train it first: `atoll train`")
        })?;
        learner.restore_without_position(&checkpoint)?;
        Ok(Self { folder, learner, versions: None })
    }

    fn of_run(
        run: &RunFolder,
        options: &IslandOptions,
        data: Option<&str>,
        field: Option<&str>,
    ) -> Result<Self, Failure> {
        let genesis = &run.genesis;
        let folder = Folder::new(&run.path);
        let tokenizer = folder.tokenizer(genesis)?;
        // Whoever only writes or exports needs no text; whoever measures says which.
        let data = data.unwrap_or(GENERATED);
        let settings = Settings { data: data.to_owned(), field: None, accumulate: 1 };
        let dataset = island::dataset(&folder, genesis, tokenizer, data, field)?;
        let (parameters, versions) = outer_state(run)?;
        let learner = island::with(parameters, genesis, &settings, options, &dataset)?;
        Ok(Self { folder, learner, versions: Some(versions) })
    }
}

/// The newest stable outer state of a run, in the order of its layout, and its versions.
fn outer_state(run: &RunFolder) -> Result<(Vec<f32>, Vec<Version>), Failure> {
    let genesis: &Genesis = &run.genesis;
    let bases = Store::newest_bases(&run.path)?;
    if bases.is_empty() {
        return Err(Failure::new(format!("{}: no round of this run is stable yet", run.title()))
            .hint("let it train until `atoll status` shows versions"));
    }
    let (mut parameters, mut versions) = (Vec::new(), Vec::new());
    for fragment in genesis.fragment_map().fragments() {
        match bases.get(&fragment.id) {
            Some(bytes) => {
                let state = OuterState::from_bytes(bytes, fragment)
                    .map_err(|error| Failure::new(format!("{}: {error}", run.title())))?;
                parameters.extend_from_slice(state.params());
                versions.push(state.version());
            }
            None => {
                parameters.extend(genesis.initial(fragment));
                versions.push(0);
            }
        }
    }
    Ok((parameters, versions))
}
