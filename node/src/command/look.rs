//! `atoll status`, `atoll inspect` and `atoll whoami`.

use atoll_node::config::{Config, Partial};
use atoll_node::identity::Identity;
use atoll_node::observe::{Client, page};
use serde_json::Value;

use super::failure::Failure;
use super::home::{Home, RunFolder};
use crate::cli::swarm::{InspectOptions, Part, StatusOptions, WhoamiOptions, Whose};

/// How the node is.
pub(crate) fn status(options: &StatusOptions) -> Result<(), Failure> {
    let client = client(&options.whose)?;
    let status = client.status()?;
    if options.json {
        super::say(&serde_json::to_string(&status).expect("a status is plain data"));
    } else {
        super::say(&page::render(&status));
    }
    Ok(())
}

/// What the engine holds, as JSON.
pub(crate) fn inspect(options: &InspectOptions) -> Result<(), Failure> {
    let topic = match options.part {
        Part::All => None,
        Part::Fragments => Some("fragments"),
        Part::Rounds => Some("rounds"),
        Part::Frontiers => Some("frontiers"),
        Part::Evidence => Some("evidence"),
    };
    let shown: Value = client(&options.whose)?.inspect(topic)?;
    super::say(&serde_json::to_string_pretty(&shown).expect("JSON can be written"));
    Ok(())
}

/// The node's public name.
pub(crate) fn whoami(options: &WhoamiOptions) -> Result<(), Failure> {
    let config = Config::load(Partial { home: options.home.clone(), ..Partial::default() })?;
    let identity = Identity::load_or_create(&config.home)?;
    eprintln!("key in {}", identity.file().display());
    super::say(&identity.node().to_hex());
    Ok(())
}

fn client(whose: &Whose) -> Result<Client, Failure> {
    let config = Config::load(Partial { home: whose.home.clone(), ..Partial::default() })?;
    let folder: RunFolder = Home::new(&config.home).find(whose.run.as_deref())?;
    Client::of_folder(&folder.path).map_err(|error| {
        Failure::new(format!("the node of {} does not answer: {error}", folder.title()))
    })
}
