//! How a node of this machine is asked and told.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Deserialize;
use ureq::Agent;

use super::journal::Journal;
use super::network::Place;
use super::status::Status;

/// Asks the node whose home is a folder; it may not be there yet, or no more.
#[derive(Clone, Debug)]
pub(super) struct Client {
    home: PathBuf,
    place: Place,
    agent: Agent,
}

/// Where a node's server is, as the node writes it into its run's folder.
#[derive(Clone, Deserialize)]
struct Door {
    address: SocketAddr,
    token: String,
}

impl Client {
    pub(super) fn new(home: &Path, place: Place) -> Self {
        let agent = Agent::config_builder()
            // A proxy of the environment is for the world, not for this machine.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(true)
            .timeout_global(Some(PATIENCE))
            .build()
            .into();
        Self { home: home.to_owned(), place, agent }
    }

    /// The folder of its only run, once there is one.
    pub(super) fn run_folder(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(self.home.join("runs")).ok()?;
        entries.flatten().map(|entry| entry.path()).find(|path| path.is_dir())
    }

    /// Its event log, once there is a run.
    pub(super) fn journal(&self) -> Option<Journal> {
        self.run_folder().map(|it| Journal::new(&it.join("events.jsonl")))
    }

    /// Where it stands, if it answers.
    pub(super) fn status(&self) -> Option<Status> {
        let url = format!("http://{}/status", self.door()?.address);
        let ask = || self.agent.get(url).call().ok()?.body_mut().read_json().ok();
        self.place.within(ask).ok()?
    }

    /// Tells it to do something, on a thread: one that answers late must hold up nobody.
    pub(super) fn tell(&self, word: Word) -> Telling {
        let client = self.clone();
        Telling { word, thread: std::thread::spawn(move || client.command(word)) }
    }

    /// Tells it to do something. False if it does not hear.
    fn command(&self, word: Word) -> bool {
        let Some(door) = self.door() else { return false };
        let url = format!("http://{}/command", door.address);
        let bearer = format!("Bearer {}", door.token);
        let tell =
            || self.agent.post(url).header("Authorization", bearer).send_json(word.text()).is_ok();
        self.place.within(tell).unwrap_or(false)
    }

    fn door(&self) -> Option<Door> {
        let text = fs::read(self.run_folder()?.join("status.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// What a node can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Step no more, but go on merging.
    Quiesce,
    /// Say goodbye and end.
    Leave,
}

impl Word {
    fn text(self) -> &'static str {
        match self {
            Self::Quiesce => "quiesce",
            Self::Leave => "leave",
        }
    }
}

/// A word on its way to a node.
#[derive(Debug)]
pub(super) struct Telling {
    word: Word,
    thread: JoinHandle<bool>,
}

impl Telling {
    /// Whether it is known how it went.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// What was told, and whether the node heard it.
    pub(super) fn end(self) -> (Word, bool) {
        (self.word, self.thread.join().unwrap_or(false))
    }
}

/// A node answers at once, but on a machine with more nodes than cores that takes its time.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A home whose node answers one request with `answer`; gives the request back.
    fn node(answer: &'static str) -> (tempfile::TempDir, std::thread::JoinHandle<String>) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("runs/0123456789abcdef");
        fs::create_dir_all(&folder).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let door = format!(r#"{{"address":"{address}","token":"secret","pid":1}}"#);
        fs::write(folder.join("status.json"), door).unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).unwrap();
            let length = answer.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{answer}");
            stream.write_all(head.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        (home, thread)
    }

    #[test]
    fn a_status_is_fetched_where_the_node_says() {
        let (home, thread) = node(r#"{"standing":"caught_up"}"#);
        assert!(Client::new(home.path(), Place::Here).status().unwrap().is_caught_up());
        assert!(thread.join().unwrap().starts_with("GET /status HTTP/1.1"));
    }

    #[test]
    fn commands_show_the_token() {
        let (home, thread) = node("{}");
        assert!(Client::new(home.path(), Place::Here).command(Word::Quiesce));
        let request = thread.join().unwrap().to_lowercase();
        assert!(request.starts_with("post /command"), "{request}");
        assert!(request.contains("authorization: bearer secret"), "{request}");
    }

    #[test]
    fn a_node_that_is_not_there_says_nothing() {
        let home = tempfile::tempdir().unwrap();
        let client = Client::new(home.path(), Place::Here);
        assert_eq!(client.status(), None);
        assert_eq!(client.tell(Word::Leave).end(), (Word::Leave, false));
    }
}
