//! `atoll-bootstrap`: settings, server, exit code.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

use atoll_bootstrap::config::{self, StartError};
use atoll_bootstrap::observe;
use atoll_bootstrap::server::Server;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let Err(error) = run() else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error}");
    ExitCode::from(2)
}

fn run() -> Result<(), StartError> {
    let settings = config::settings(std::env::args_os().collect())?;
    if settings.print_config {
        say(toml::to_string(&settings).expect("settings are plain values").trim_end());
        return Ok(());
    }
    observe::start_log(settings.log == "json");
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let server = Server::start(settings).await?;
        tracing::info!(peer = %server.peer_id, http = %server.http, "started");
        let stop = async { tokio::select!(_ = terminate.recv() => {}, _ = interrupt.recv() => {}) };
        server.run(stop, |address| say(&address)).await;
        Ok(())
    })
}

/// Whoever read our output may have left; the server stays.
fn say(line: &(impl Display + ?Sized)) {
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
