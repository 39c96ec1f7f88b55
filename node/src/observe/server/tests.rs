use std::io::{Read, Write};
use std::net::TcpStream;

use atoll_protocol::id::NodeId;

use super::*;
use crate::observe::client::{Client, ClientError};
use crate::observe::command::Answer;
use crate::observe::status::example;
use crate::observe::{Clock, Status};

struct Node {
    folder: tempfile::TempDir,
    server: Server,
    queue: mpsc::Receiver<Request>,
    observer: Observer,
}

async fn node() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let observer = Observer::new(Clock::system(), None);
    let listen = "127.0.0.1:0".parse().unwrap();
    let (server, queue) = Server::start(listen, folder.path(), observer.clone()).await.unwrap();
    Node { folder, server, queue, observer }
}

impl Node {
    /// Lets a blocking client talk to the server, which runs on this test's own threads.
    async fn talk<T: Send + 'static>(
        &self,
        talk: impl FnOnce(Client) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, ClientError> {
        let client = Client::of_folder(self.folder.path())?;
        tokio::task::spawn_blocking(move || talk(client)).await.unwrap()
    }

    /// Sends a request as it is and reads the whole response.
    async fn raw(&self, head: &str, body: &str) -> String {
        let length = body.len();
        let text = format!("{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        let address = self.server.address();
        let answer = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        answer.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_metrics_and_health_are_served() {
    let node = node().await;
    let early = node.talk(|client| client.status()).await.unwrap_err().to_string();
    assert_eq!(early, "the node is starting\nhint: try again in a moment");
    assert!(node.raw("GET /healthz HTTP/1.1\r\nHost: localhost", "").await.contains(" 503 "));
    node.observer.publish(example::status());
    let status: Status = node.talk(|client| client.status()).await.unwrap();
    assert_eq!(status.fragments, example::status().fragments);
    assert_eq!(status.name, "reef");
    let health = node.raw("GET /healthz HTTP/1.1\r\nHost: localhost", "").await;
    assert!(health.starts_with("HTTP/1.1 200 ") && health.ends_with("ok\n"), "{health}");
    let metrics = node.raw("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9", "").await;
    assert!(metrics.contains("content-type: application/openmetrics-text"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n") && metrics.contains("atoll_steps_total"), "{metrics}");
    let nothing = node.raw("GET /nothing HTTP/1.1\r\nHost: [::1]:9", "").await;
    assert!(nothing.contains(" 404 ") && nothing.contains("/healthz"), "{nothing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_driver_answers_what_only_it_knows() {
    let mut node = node().await;
    let mut queue = std::mem::replace(&mut node.queue, mpsc::channel(1).1);
    let driver = tokio::spawn(async move {
        let mut asked = Vec::new();
        while let Some(request) = queue.recv().await {
            match request {
                Request::Inspect { topic, reply } => {
                    let _ = reply.send(serde_json::json!({ "topic": topic }));
                }
                Request::Command { command: Command::Leave, reply } => drop(reply),
                Request::Command { command: Command::Revoke { .. }, reply } => {
                    let refusal = Refusal::new("this node is no steward", "ask one");
                    let _ = reply.send(Err(refusal));
                }
                Request::Command { command, reply } => {
                    asked.push(command);
                    let answer = Answer { message: "done".into(), ticket: Some("atoll2".into()) };
                    let _ = reply.send(Ok(answer));
                }
            }
        }
        asked
    });
    let all = node.talk(|client| client.inspect(None)).await.unwrap();
    assert_eq!(all, serde_json::json!({ "topic": null }));
    let one = node.talk(|client| client.inspect(Some("the ledger & co"))).await.unwrap();
    assert_eq!(one, serde_json::json!({ "topic": "the ledger & co" }));
    let invite = Command::Invite { node: NodeId([3; 32]), last_round: 9 };
    let answer = node.talk(move |client| client.command(&invite)).await.unwrap();
    assert_eq!(answer.ticket.as_deref(), Some("atoll2"));
    let revoke = Command::Revoke { node: NodeId([3; 32]) };
    let error = node.talk(move |client| client.command(&revoke)).await.unwrap_err().to_string();
    assert_eq!(error, "this node is no steward\nhint: ask one");
    let error = node.talk(|client| client.command(&Command::Leave)).await.unwrap_err();
    assert!(error.to_string().starts_with("the node is stopping\nhint: "), "{error}");
    let Node { server, folder, .. } = node;
    server.stop().await;
    assert_eq!(driver.await.unwrap(), [invite]);
    drop(folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_need_the_token_and_sense() {
    let mut node = node().await;
    let token = Door::read(node.folder.path()).unwrap().unwrap().token;
    let post = "POST /command HTTP/1.1\r\nHost: localhost:1";
    let with = |token: &str| format!("{post}\r\nAuthorization: Bearer {token}");
    for head in [post.to_owned(), with(""), with("00"), with(&token[1..])] {
        let answer = node.raw(&head, "\"leave\"").await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        assert!(answer.contains("status.json"), "{answer}");
    }
    let answer = node.raw(&with(&token), "\"dance\"").await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("dance"), "{answer}");
    let answer = node.raw(&with(&token), &"x".repeat(BODY_BYTES_MAX + 1)).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let answer = node.raw(&format!("GET{}", &with(&token)[4..]), "").await;
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(node.queue.try_recv().is_err(), "nothing reached the driver");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_name_reads_nothing() {
    let node = node().await;
    node.observer.publish(example::status());
    for (host, code) in [
        ("evil.example", 403),
        ("evil.example:80", 403),
        ("127.0.0.1.evil.example:80", 403),
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("127.0.0.1", 200),
        ("[::1]", 200),
    ] {
        let answer = node.raw(&format!("GET /status HTTP/1.1\r\nHost: {host}"), "").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{host}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_driver_is_not_asked_more_than_it_can_hold() {
    let node = node().await;
    // The queue is filled by hand, for a driver that does not look.
    let shared = Shared {
        observer: node.observer.clone(),
        requests: mpsc::channel(1).0,
        token: blake3::hash(b""),
        local: true,
        patience: PATIENCE,
    };
    let (reply, answer) = oneshot::channel();
    let gone = ask(&shared, Request::Inspect { topic: None, reply }, answer).await.unwrap_err();
    assert_eq!(gone.status(), StatusCode::SERVICE_UNAVAILABLE);
    let (requests, _queue) = mpsc::channel(1);
    let shared = Shared { requests, ..shared };
    let (reply, _answer) = oneshot::channel();
    shared.requests.try_send(Request::Inspect { topic: None, reply }).unwrap();
    let (reply, answer) = oneshot::channel();
    let full = ask(&shared, Request::Inspect { topic: None, reply }, answer).await.unwrap_err();
    assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_driver_that_hangs_is_waited_for_only_so_long() {
    let (requests, _queue) = mpsc::channel(1);
    let observer = Observer::new(Clock::system(), None);
    let (token, patience) = (blake3::hash(b""), Duration::ZERO);
    let shared = Shared { observer, requests, token, local: true, patience };
    let (reply, answer) = oneshot::channel();
    let late = ask(&shared, Request::Inspect { topic: None, reply }, answer).await.unwrap_err();
    assert_eq!(late.status(), StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_leaves_no_trace_and_a_killed_one_is_told_apart() {
    let Node { folder, server, .. } = node().await;
    let door = Door::read(folder.path()).unwrap().unwrap();
    server.stop().await;
    let error = Client::of_folder(folder.path()).unwrap_err();
    assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
    assert!(error.to_string().contains("\nhint: `atoll run`"), "{error}");
    door.write(folder.path()).unwrap();
    let client = Client::of_folder(folder.path()).unwrap();
    let error = tokio::task::spawn_blocking(move || client.status()).await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Silent { .. }), "{error}");
    std::fs::write(Door::path(folder.path()), "{\"addr").unwrap();
    let error = Client::of_folder(folder.path()).unwrap_err();
    assert!(matches!(error, ClientError::File { .. }), "{error}");
}

#[tokio::test]
async fn a_port_in_use_is_told_with_a_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let observer = Observer::new(Clock::system(), None);
    let error = Server::start(address, folder.path(), observer).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("status cannot be served at {address}: ")), "{error}");
    assert!(error.contains("\nhint: --http 127.0.0.1:0"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
