//! `atoll doctor`: what may keep this machine from taking part, and what to do about it.
//!
//! Beside a running node it asks that node. Without one it goes onto the network itself for some
//! seconds, as the node would.

mod check;
mod machine;
mod network;
mod probe;

use atoll_node::config::Config;
use atoll_node::identity::{Identity, IdentityError};
use atoll_node::observe::status::{How, Network};
use atoll_node::observe::{Client, Status};
use atoll_node::ticket::Ticket;
use atoll_protocol::genesis::Genesis;

use self::check::{Check, Verdict};
use super::failure::Failure;
use super::home::{Home, RunFolder};
use crate::cli::swarm::DoctorOptions;

/// Looks at everything and says what it found; false if something keeps the node from its work.
pub(crate) fn run(options: &DoctorOptions) -> Result<bool, Failure> {
    let config = super::configured(&options.config)?;
    let subject = Subject::find(&config, options.what.as_deref())?;
    let identity = Identity::load(&config.home);
    let findings = match subject.running() {
        Some(status) => Findings::of_node(&subject, status),
        None => probe::look(
            &config,
            identity.as_ref().ok().and_then(Option::as_ref),
            &subject,
            options.wait,
        )?,
    };
    let checks = checks(&config, &subject, &identity, &findings);
    let well = checks.iter().all(|check| check.verdict != Verdict::Fail);
    if options.json {
        let all = serde_json::json!({
            "ok": well, "running": findings.status.is_some(), "checks": checks,
            "network": findings.network,
        });
        super::say(&all.to_string());
    } else {
        eprintln!("{}", introduction(&subject, &findings));
        super::say(check::table(&checks).trim_end());
    }
    Ok(well)
}

/// What is looked at.
#[derive(Debug)]
struct Subject {
    ticket: Option<Ticket>,
    folder: Option<RunFolder>,
}

impl Subject {
    /// The run that a ticket or a name means; without either the only one, or none at all.
    fn find(config: &Config, what: Option<&str>) -> Result<Self, Failure> {
        let home = Home::new(&config.home);
        if let Some(text) = what.filter(|what| Ticket::is_meant(what)) {
            let ticket: Ticket = text.parse()?;
            let path = home.folder(&ticket.run);
            let folder = RunFolder::open(&path).ok();
            return Ok(Self { ticket: Some(ticket), folder });
        }
        if what.is_none() && home.is_empty()? {
            return Ok(Self { ticket: None, folder: None });
        }
        let folder = home.find(what)?;
        Ok(Self { ticket: Some(folder.ticket()?), folder: Some(folder) })
    }

    /// What the node of the run says, if it runs.
    fn running(&self) -> Option<Status> {
        let folder = self.folder.as_ref()?;
        Client::of_folder(&folder.path).ok()?.status().ok()
    }

    fn title(&self) -> String {
        match (&self.folder, &self.ticket) {
            (Some(folder), _) => format!("run {}", folder.title()),
            (None, Some(ticket)) => format!("run {} of the ticket", ticket.name),
            (None, None) => "no run".to_owned(),
        }
    }
}

/// What was found out.
#[derive(Debug, Default)]
struct Findings {
    /// What the running node says, if it runs.
    status: Option<Status>,
    /// Why the run's folder cannot be used: what is wrong, and what to do.
    folder: Option<(String, String)>,
    genesis: Option<Genesis>,
    /// What is known of the network; none if there is nobody to look for.
    network: Option<Network>,
    /// How each peer is connected.
    ways: Vec<How>,
    /// The fastest that contents came lately, from all peers together, in bytes per second.
    rate: Option<f64>,
}

impl Findings {
    fn of_node(subject: &Subject, status: Status) -> Self {
        let rates: Vec<f64> = status.peers.iter().filter_map(|peer| peer.bytes_per_s).collect();
        Self {
            genesis: subject.folder.as_ref().map(|folder| folder.genesis.clone()),
            network: Some(status.network.clone()),
            ways: status.peers.iter().filter_map(|peer| peer.how).collect(),
            // What peers gave one after another they may not give all at once.
            rate: rates.into_iter().reduce(f64::max),
            status: Some(status),
            folder: None,
        }
    }
}

fn checks(
    config: &Config,
    subject: &Subject,
    identity: &Result<Option<Identity>, IdentityError>,
    findings: &Findings,
) -> Vec<Check> {
    let mut checks = vec![
        machine::key(config, identity),
        machine::folder(subject, findings),
        machine::disk(config, subject, findings),
        machine::memory(findings),
    ];
    if let Some(network) = &findings.network {
        checks.extend(network::checks(network, &findings.ways));
        checks.push(network::join(config, findings));
    }
    checks
}

fn introduction(subject: &Subject, findings: &Findings) -> String {
    let how = match (&findings.status, &findings.network) {
        (Some(_), _) => "as its running node sees it",
        (None, Some(_)) => "no node runs: looked at the network without one",
        (None, None) => "there is nobody to look for; give a ticket to look at its run",
    };
    format!("{}: {how}\n", subject.title())
}
