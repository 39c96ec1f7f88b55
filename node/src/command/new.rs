//! `atoll new`: a run's genesis, its folder on this machine, and a ticket to it.

use std::fs;
use std::path::Path;

use atoll_node::config::{Config, Partial};
use atoll_node::identity::Identity;
use atoll_node::island::data::{GENERATED, TokenizerFiles};
use atoll_node::store::Store;
use atoll_node::ticket::Ticket;
use atoll_protocol::genesis::{Genesis, Model, PRESETS, RosterPolicy};
use atoll_protocol::id::NodeId;

use super::failure::Failure;
use super::home::{Home, RunFolder};
use super::island;
use crate::cli::swarm::{NewOptions, RosterChoice};

pub(crate) fn run(options: &NewOptions) -> Result<(), Failure> {
    let (home, bootstrap) = (options.home.clone(), options.bootstrap.clone());
    let config = Config::load(Partial { home, bootstrap, ..Partial::default() })?;
    let identity = Identity::load_or_create(&config.home)?;
    let tokenizer = options.tokenizer.as_deref().map(tokenizer).transpose()?;
    let genesis = genesis(options, tokenizer.as_ref(), identity.node())?;
    let path = Home::new(&config.home).folder(&genesis.run_id());
    if path.join("genesis.bin").exists() {
        return Err(Failure::new(format!("{}: this very run is here already", path.display()))
            .hint("start it with `atoll run`, or give the new one another name or seed"));
    }
    let ticket = Ticket {
        run: genesis.run_id(),
        name: genesis.name.clone(),
        bootstrap: config.bootstrap.clone(),
        peers: Vec::new(),
        sponsor: Some(identity.node()),
        invite: None,
    };
    let text = ticket.encode()?;
    Store::create(&path, &genesis)?.found()?;
    if let Some(files) = &tokenizer {
        files.write(&path)?;
    }
    let folder = RunFolder::open(&path)?;
    folder.keep_ticket(&ticket)?;
    tell(&folder, &identity, &text, &config);
    Ok(())
}

/// A tokenizer for a run: without the config beside it, which the genesis does not name and
/// joiners would not have.
fn tokenizer(file: &Path) -> Result<TokenizerFiles, Failure> {
    let files = TokenizerFiles { config: None, ..TokenizerFiles::read(file)? };
    // What is wrong with it shows before anything is written.
    files.tokenizer()?;
    Ok(files)
}

fn genesis(
    options: &NewOptions,
    tokenizer: Option<&TokenizerFiles>,
    own: NodeId,
) -> Result<Genesis, Failure> {
    let mut genesis = match &options.genesis {
        Some(file) => {
            let text = fs::read_to_string(file).map_err(Failure::file(file))?;
            Genesis::from_toml(&text)
                .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?
        }
        None => {
            let name = options.model.as_deref().unwrap_or("nano");
            let model = Model::preset(name).ok_or_else(|| {
                Failure::new(format!("--model {name}: no such size"))
                    .hint(&format!("there are {}", PRESETS.join(", ")))
            })?;
            let mut genesis = Genesis::new("atoll", model);
            if let Some(choice) = options.optimiser {
                genesis.inner.optimiser = choice.into();
                genesis.schedule.peak = genesis.inner.optimiser.peak();
            }
            genesis
        }
    };
    if let Some(name) = &options.name {
        genesis.name.clone_from(name);
    }
    if let Some(seed) = options.seed {
        genesis.init_seed = seed;
    }
    if let Some(steps) = options.steps {
        genesis.rounds.steps = steps;
        genesis.rounds.steps_min = genesis.rounds.steps_min.min(steps);
    }
    if !options.members.is_empty() && options.roster != Some(RosterChoice::Closed) {
        return Err(Failure::new("--member is for --roster closed")
            .hint("with --roster invite the steward says `atoll invite NODE`"));
    }
    if let Some(choice) = options.roster {
        genesis.roster = roster(choice, &options.members, own);
    }
    if let Some(files) = tokenizer {
        files.check(&genesis.data)?;
        let corpus = genesis.data.corpus.clone();
        island::name_text(&mut genesis, GENERATED, Some(files));
        genesis.data.corpus = corpus;
    } else if let Some(content) = &genesis.data.tokenizer_content {
        return Err(Failure::new(format!("the genesis names tokenizer {content}"))
            .hint("give its file with --tokenizer"));
    }
    genesis.validate()?;
    Ok(genesis)
}

/// Whoever makes a run that is not open to all is its steward.
fn roster(choice: RosterChoice, members: &[NodeId], own: NodeId) -> RosterPolicy {
    match choice {
        RosterChoice::Open => RosterPolicy::Open,
        RosterChoice::Invite => RosterPolicy::Invite { stewards: vec![own] },
        RosterChoice::Closed => {
            let mut nodes: Vec<NodeId> = members.iter().copied().chain([own]).collect();
            nodes.sort_unstable();
            nodes.dedup();
            RosterPolicy::Closed { nodes, stewards: vec![own] }
        }
    }
}

fn tell(folder: &RunFolder, identity: &Identity, ticket: &str, config: &Config) {
    let genesis = &folder.genesis;
    let parameters = genesis.fragment_map().elements();
    eprintln!("run     {}", folder.title());
    eprintln!("model   {parameters} parameters in {} fragments", genesis.fragments);
    let (optimiser, peak) = (genesis.inner.optimiser.name(), genesis.schedule.peak);
    eprintln!("inner   {optimiser}, learning rate up to {peak}");
    eprintln!("folder  {}", folder.path.display());
    eprintln!("node    {}", identity.node());
    if config.bootstrap.is_empty() {
        eprintln!(
            "note    without --bootstrap others find this run only on the same network, or with \
             the ticket that `atoll run` prints"
        );
    }
    if matches!(genesis.roster, RosterPolicy::Invite { .. }) {
        eprintln!("note    only invited nodes contribute: `atoll invite NODE`");
    }
    eprintln!("next    atoll run {}\nticket  for others: atoll join TICKET", genesis.name);
    super::say(ticket);
}
