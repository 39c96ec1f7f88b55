//! A node on a host, driven through the product's own commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::door::Door;
use super::patience::wait_every;
use super::{Host, Process, Status, binary};

/// A node: a home on a host, and a process while it runs.
pub(crate) struct Node {
    host: Host,
    home: PathBuf,
    options: Vec<String>,
    process: Option<Process>,
}

impl Node {
    /// A node that has nothing yet, to be started with `options` every time.
    pub(crate) fn new(host: &Host, options: &[&str]) -> Self {
        Self::at(host, "atoll", options)
    }

    /// Nodes of a new run, one on each host: the first makes it, the others join. With its ticket.
    pub(crate) fn together(
        hosts: &[Host],
        options: &[&str],
        genesis: &str,
        bootstrap: &[String],
    ) -> (Vec<Self>, String) {
        let mut nodes: Vec<Self> = hosts.iter().map(|host| Self::new(host, options)).collect();
        let ticket = nodes[0].make_run(genesis, bootstrap);
        nodes[0].start();
        nodes[1..].iter_mut().for_each(|node| node.join(&ticket));
        (nodes, ticket)
    }

    /// One of several nodes of a host.
    pub(crate) fn named(host: &Host, name: &str) -> Self {
        Self::at(host, name, &[])
    }

    fn at(host: &Host, name: &str, options: &[&str]) -> Self {
        let home = host.home(name);
        let pace: &[&str] = if options.contains(&"--effort") { &[] } else { &PACE };
        let all = OPTIONS.iter().chain(pace).chain(options);
        let mut all: Vec<String> = all.map(|it| (*it).to_owned()).collect();
        all.extend(["--home".to_owned(), home.to_str().unwrap().to_owned()]);
        Self { host: host.clone(), home, options: all, process: None }
    }

    /// Makes a run of `genesis`, which is TOML, and returns its ticket.
    pub(crate) fn make_run(&self, genesis: &str, bootstrap: &[String]) -> String {
        let file = self.home.join("lab-genesis.toml");
        fs::write(&file, genesis).unwrap();
        let mut arguments = vec!["new", "--genesis", file.to_str().unwrap()];
        for address in bootstrap {
            arguments.extend(["--bootstrap", address]);
        }
        self.command(&arguments).trim().to_owned()
    }

    /// Takes part in the run that is in its home: `atoll run`.
    pub(crate) fn start(&mut self) {
        self.spawn(&["run"]);
    }

    /// Takes part in the run of a ticket: `atoll join`.
    pub(crate) fn join(&mut self, ticket: &str) {
        self.spawn(&["join", ticket]);
    }

    /// Runs one of the product's commands about this node to its end and returns what it printed.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        let home = self.home.to_str().unwrap();
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--home", home]).collect();
        let output = self.host.run(binary("atoll"), &arguments, &self.home, COMMAND);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "atoll {}: {said}", arguments.join(" "));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Asks the running node what it is asked on its local server, such as `"quiesce"`.
    pub(crate) fn ask(&self, command: &Value) -> Value {
        let answer = self.door().and_then(|door| door.command(&self.host, command));
        answer.unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    /// Lets the island step no more; everything else goes on.
    pub(crate) fn quiesce(&self) {
        self.ask(&json!("quiesce"));
    }

    /// Lets it step again.
    pub(crate) fn resume(&self) {
        self.ask(&json!("resume"));
    }

    /// Its status now.
    ///
    /// Straight from its server, because tests look often and a process for every look would take
    /// the cores from the islands; [`Node::command`] has what people use.
    pub(crate) fn status(&self) -> Result<Status, String> {
        let ended = self.process().ended();
        assert_eq!(ended, None, "{} has ended: {}", self.name(), self.process().log());
        self.door()?.get(&self.host, "/status").map(Status)
    }

    /// What its engine holds of a topic, such as `rounds` or `evidence`.
    pub(crate) fn inspect(&self, topic: &str) -> Result<Value, String> {
        self.door()?.get(&self.host, &format!("/inspect?topic={topic}"))
    }

    /// Looks at its status until `holds`, and returns it.
    pub(crate) fn wait_until(
        &self,
        what: &str,
        timeout: Duration,
        mut holds: impl FnMut(&Status) -> bool,
    ) -> Status {
        let what = format!("{}: {what}", self.name());
        wait_every(LOOK_EVERY, &what, timeout, || {
            let status = self.status()?;
            if holds(&status) { Ok(status) } else { Err(status.to_string()) }
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.host.name()
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The process of a node that was started.
    pub(crate) fn process(&self) -> &Process {
        self.process.as_ref().unwrap_or_else(|| panic!("{} was not started", self.name()))
    }

    /// The ticket that the running node printed, with its own addresses, once it has.
    pub(crate) fn ticket(&self) -> Option<String> {
        let output = self.process().output();
        output.lines().rfind(|line| line.starts_with(TICKET)).map(str::to_owned)
    }

    /// The folder of its only run.
    pub(crate) fn folder(&self) -> Result<PathBuf, String> {
        let runs = self.home.join("runs");
        let entries = fs::read_dir(&runs).map_err(|error| format!("no runs yet: {error}"))?;
        let folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        match folders.as_slice() {
            [folder] => Ok(folder.clone()),
            folders => Err(format!("not one run but {folders:?}")),
        }
    }

    /// Everything in its log of events, over all its lives.
    pub(crate) fn events(&self) -> Vec<Value> {
        let file = self.folder().unwrap().join("events.jsonl");
        let text = fs::read_to_string(file).unwrap_or_default();
        // The last line may be half written, and a life may have ended within one.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn door(&self) -> Result<Door, String> {
        Door::of(&self.folder()?)
    }

    fn spawn(&mut self, task: &[&str]) {
        if let Some(process) = &self.process {
            assert!(process.ended().is_some(), "{} is running", self.name());
        }
        let options = self.options.iter().map(String::as_str);
        let arguments: Vec<&str> = task.iter().copied().chain(options).collect();
        self.process = Some(self.host.spawn(binary("atoll"), &arguments, &self.home));
    }
}

/// One thread each, and nothing that asks a router.
const OPTIONS: [&str; 6] = ["--device", "cpu", "--threads", "1", "--upnp", "false"];
/// A step about as often as all islands of a test manage on two cores.
const PACE: [&str; 2] = ["--step-ms", "100"];
const TICKET: &str = "atoll2";
const LOOK_EVERY: Duration = Duration::from_millis(200);
const COMMAND: Duration = Duration::from_secs(60);
