//! The way into a running node: its local HTTP server.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::Host;

/// Where a running node answers, and what it takes to command it.
pub(super) struct Door {
    address: SocketAddr,
    token: String,
}

impl Door {
    /// The door of the node whose run is in `folder`.
    pub(super) fn of(folder: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(folder.join("status.json"))
            .map_err(|error| format!("no status.json: {error}"))?;
        let said: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let address = said["address"].as_str().and_then(|it| it.parse().ok());
        let address = address.ok_or_else(|| format!("no address in {text}"))?;
        Ok(Self { address, token: said["token"].as_str().unwrap_or_default().to_owned() })
    }

    /// The JSON behind `path`.
    pub(super) fn get(&self, host: &Host, path: &str) -> Result<Value, String> {
        self.ask(host, &format!("GET {path}"), "")
    }

    /// What the node answers to a command.
    pub(super) fn command(&self, host: &Host, command: &Value) -> Result<Value, String> {
        self.ask(host, "POST /command", &command.to_string())
    }

    fn ask(&self, host: &Host, line: &str, body: &str) -> Result<Value, String> {
        let request = format!(
            "{line} HTTP/1.0\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        let answer = host.within(|| exchange(self.address, &request));
        let answer = answer.map_err(|error| format!("{line}: {error}"))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        if head.split(' ').nth(1) != Some("200") {
            return Err(format!("{line}: {answer}"));
        }
        serde_json::from_str(body).map_err(|error| format!("{line}: {error} in {body}"))
    }
}

fn exchange(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&address, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    connection.write_all(request.as_bytes())?;
    let mut answer = String::new();
    connection.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: u64 = 16 << 20;
