//! The local HTTP server: status, metrics, health, and commands for those who hold the token.

mod listener;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, Request as HttpRequest, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::command::{Command, Refusal, Request};
use super::door::Door;
use super::metrics;
use super::observer::Observer;
use listener::BoundedListener;

/// A server that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    door: Door,
    folder: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<io::Result<()>>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be had.
    #[error(
        "status cannot be served at {address}: {source}\n\
         hint: --http 127.0.0.1:0 takes any free port"
    )]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The file that leads to the server cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Server {
    /// Serves what `observer` shows at `listen`, and says where in the run's folder.
    ///
    /// What only the driver can answer comes out of the queue. A request that finds it full is
    /// turned away, so nobody can pile up work here.
    pub async fn start(
        listen: SocketAddr,
        folder: &Path,
        observer: Observer,
    ) -> Result<(Self, mpsc::Receiver<Request>), ServerError> {
        let refuse = |source| ServerError::Listen { address: listen, source };
        let listener = tokio::net::TcpListener::bind(listen).await.map_err(refuse)?;
        let address = listener.local_addr().map_err(refuse)?;
        let refuse = |source| ServerError::File { path: Door::path(folder), source };
        let door = Door::new(address).map_err(refuse)?;
        let (requests, queue) = mpsc::channel(REQUESTS_MAX);
        let token = blake3::hash(door.token.as_bytes());
        let local = address.ip().is_loopback();
        let shared = Arc::new(Shared { observer, requests, token, local, patience: PATIENCE });
        let (stop, stopped) = oneshot::channel();
        let service = axum::serve(BoundedListener::new(listener), router(shared))
            .with_graceful_shutdown(async move {
                let _ = stopped.await;
            });
        let task = tokio::spawn(async move { service.await });
        let server = Self { address, door, folder: folder.to_owned(), stop: Some(stop), task };
        // Last: whoever finds the file is answered. Without the file the server ends here.
        server.door.write(folder).map_err(refuse)?;
        Ok((server, queue))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: answers that are under way have a moment to go out.
    pub async fn stop(mut self) {
        self.door.remove(&self.folder);
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = tokio::time::timeout(FAREWELL, &mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        self.door.remove(&self.folder);
    }
}

struct Shared {
    observer: Observer,
    requests: mpsc::Sender<Request>,
    /// Hashes are compared in constant time, whatever the token's first wrong byte is.
    token: blake3::Hash,
    local: bool,
    /// How long the driver may take to answer.
    patience: Duration,
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/metrics", get(show_metrics))
        .route("/healthz", get(health))
        .route("/inspect", get(inspect))
        .route("/command", post(command))
        .fallback(nothing)
        .layer(middleware::from_fn_with_state(shared.clone(), check_host))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(shared)
}

async fn status(State(shared): State<Arc<Shared>>) -> Response {
    match shared.observer.latest() {
        Some(status) => Json(status.as_ref()).into_response(),
        None => starting(),
    }
}

async fn show_metrics(State(shared): State<Arc<Shared>>) -> Response {
    match metrics::render(&shared.observer) {
        Ok(page) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response(),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "report this"),
    }
}

async fn health(State(shared): State<Arc<Shared>>) -> Response {
    match shared.observer.age() {
        Some(age) if age < STUCK => "ok\n".into_response(),
        Some(age) => {
            let message = format!("the node has said nothing for {} s", age.as_secs());
            refuse(StatusCode::SERVICE_UNAVAILABLE, message, "look at its log")
        }
        None => starting(),
    }
}

#[derive(Deserialize)]
struct Topic {
    topic: Option<String>,
}

async fn inspect(State(shared): State<Arc<Shared>>, Query(query): Query<Topic>) -> Response {
    let (reply, answer) = oneshot::channel();
    match ask(&shared, Request::Inspect { topic: query.topic, reply }, answer).await {
        Ok(value) => Json(value).into_response(),
        Err(response) => response,
    }
}

async fn command(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let token = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
    let token = token.and_then(|it| it.strip_prefix("Bearer ")).unwrap_or_default();
    if blake3::hash(token.as_bytes()) != shared.token {
        let hint = "the header `Authorization: Bearer TOKEN` needs the token of status.json";
        return refuse(StatusCode::UNAUTHORIZED, "the token is missing or wrong", hint);
    }
    let command: Command = match serde_json::from_slice(&body) {
        Ok(command) => command,
        Err(error) => {
            let hint = "invite, revoke, leave, quiesce and resume are the commands";
            return refuse(StatusCode::BAD_REQUEST, format!("not a command: {error}"), hint);
        }
    };
    let (reply, answer) = oneshot::channel();
    match ask(&shared, Request::Command { command, reply }, answer).await {
        Ok(Ok(answer)) => Json(answer).into_response(),
        Ok(Err(refusal)) => (StatusCode::CONFLICT, Json(refusal)).into_response(),
        Err(response) => response,
    }
}

async fn nothing() -> Response {
    let hint = "there are /status, /metrics, /healthz, /inspect and /command";
    refuse(StatusCode::NOT_FOUND, "there is nothing here", hint)
}

/// A page in the operator's browser can point a name of its own at this machine and read what is
/// served here; such requests carry that name.
async fn check_host(
    State(shared): State<Arc<Shared>>,
    request: HttpRequest,
    next: Next,
) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if shared.local && !host.is_none_or(is_local) {
        let hint = "use the address that status.json names";
        return refuse(StatusCode::FORBIDDEN, "this is not a name of this machine", hint);
    }
    next.run(request).await
}

fn is_local(host: &str) -> bool {
    if host.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let name = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost")
}

/// Asks the driver; the error is what to tell the asker.
async fn ask<T>(
    shared: &Shared,
    request: Request,
    answer: oneshot::Receiver<T>,
) -> Result<T, Response> {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    match shared.requests.try_send(request) {
        Err(mpsc::error::TrySendError::Full(_)) => {
            return Err(refuse(unavailable, "the node has other questions to answer", "try again"));
        }
        Err(mpsc::error::TrySendError::Closed(_)) => return Err(stopping()),
        Ok(()) => {}
    }
    match tokio::time::timeout(shared.patience, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(stopping()),
        Err(_) => {
            let message = format!("the node did not answer within {} s", shared.patience.as_secs());
            Err(refuse(StatusCode::GATEWAY_TIMEOUT, message, "look at its log, or try again"))
        }
    }
}

fn starting() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "the node is starting", "try again in a moment")
}

fn stopping() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping", "start it again: atoll run")
}

fn refuse(code: StatusCode, message: impl Into<String>, hint: &str) -> Response {
    (code, Json(Refusal::new(message, hint))).into_response()
}

/// Requests that wait for the driver.
const REQUESTS_MAX: usize = 8;
/// Bytes of a command.
const BODY_BYTES_MAX: usize = 4096;
/// How long a driver may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A node publishes its status every second or so; one that has not for this long is stuck.
const STUCK: Duration = Duration::from_secs(60);
/// How long answers that are under way may take when the server stops.
const FAREWELL: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;
