//! Log lines on standard error: for people, or as JSON for programs.

use std::fmt;
use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::clock;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One short line each.
    #[default]
    Human,
    /// One JSON object each.
    Json,
}

/// Which log lines there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What stopped something.
    Error,
    /// What a person should look at.
    Warn,
    /// What happens in the run.
    #[default]
    Info,
    /// Why it happens.
    Debug,
    /// Everything, libraries included.
    Trace,
}

/// Why logging cannot be set up or a value is none of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoggingError {
    /// No such form.
    #[error("`{0}` is no form of log lines\nhint: use human or json")]
    Format(String),
    /// No such level.
    #[error("`{0}` is no level of log lines\nhint: use error, warn, info, debug or trace")]
    Level(String),
    /// RUST_LOG cannot be read.
    #[error("RUST_LOG: {0}\nhint: unset it, and use --log-level")]
    Filter(String),
    /// Something else took the log lines first.
    #[error("log lines are set up already")]
    Twice,
}

/// Sends log lines to standard error from now on.
///
/// `RUST_LOG`, where it is set, says which lines there are instead of `level`.
pub fn start(format: LogFormat, level: LogLevel) -> Result<(), LoggingError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !filter.is_empty() => filter,
        _ => level.filter(),
    };
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let subscriber = subscriber(format, &filter, colour, std::io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::Twice)
}

impl LogLevel {
    /// Libraries warn of what any peer can do to them and nobody here can help; they are heard
    /// when reasons are asked for.
    fn filter(self) -> String {
        let libraries = match self {
            // A machine without multicast would be told so again and again.
            Self::Error | Self::Warn | Self::Info => "error,libp2p_mdns=off",
            Self::Debug => "warn",
            Self::Trace => "debug",
        };
        format!("{libraries},atoll={self},atoll_node={self},atoll_protocol={self}")
    }
}

impl FromStr for LogFormat {
    type Err = LoggingError;

    fn from_str(text: &str) -> Result<Self, LoggingError> {
        match text {
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            _ => Err(LoggingError::Format(text.to_owned())),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Human => "human",
            Self::Json => "json",
        })
    }
}

impl FromStr for LogLevel {
    type Err = LoggingError;

    fn from_str(text: &str) -> Result<Self, LoggingError> {
        let level = LEVELS.iter().find(|(name, _)| *name == text);
        level.map(|(_, level)| *level).ok_or_else(|| LoggingError::Level(text.to_owned()))
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = LEVELS.iter().find(|(_, level)| level == self);
        f.write_str(level.map_or("", |(name, _)| name))
    }
}

fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    colour: bool,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, LoggingError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter =
        EnvFilter::try_new(filter).map_err(|error| LoggingError::Filter(error.to_string()))?;
    // Nobody may read standard error any more; a word about that, on standard error, would panic.
    let builder = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_writer(writer);
    Ok(match format {
        LogFormat::Human => Box::new(
            builder.with_timer(Seconds).with_ansi(colour).with_target(false).compact().finish(),
        ),
        LogFormat::Json => {
            Box::new(builder.with_timer(Milliseconds).json().flatten_event(true).finish())
        }
    })
}

/// People read seconds.
struct Seconds;

impl FormatTime for Seconds {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let text = clock::rfc3339(std::time::SystemTime::now());
        let (date, _) = text.split_once('.').unwrap_or((&text, ""));
        write!(writer, "{date}Z")
    }
}

/// Programs get the same form as in the event log.
struct Milliseconds;

impl FormatTime for Milliseconds {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str(&clock::rfc3339(std::time::SystemTime::now()))
    }
}

const LEVELS: [(&str, LogLevel); 5] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(format: LogFormat, level: LogLevel) -> String {
        let paper = Paper::default();
        let copy = paper.clone();
        let subscriber = subscriber(format, &level.filter(), false, move || copy.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(rounds = 3, "caught up");
            tracing::debug!("because");
            tracing::info!(target: "libp2p_swarm", "chatter");
            tracing::warn!(target: "libp2p_swarm", "trouble");
        });
        let bytes = paper.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn people_get_short_lines_and_nothing_of_libraries() {
        let text = written(LogFormat::Human, LogLevel::Info);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1, "{text}");
        assert!(lines[0].ends_with("INFO caught up rounds=3"), "{text}");
        assert_eq!(&lines[0][19..20], "Z", "{text}");
        assert_eq!(written(LogFormat::Human, LogLevel::Error), "");
        assert_eq!(written(LogFormat::Human, LogLevel::Debug).lines().count(), 3);
        assert_eq!(written(LogFormat::Human, LogLevel::Trace).lines().count(), 4);
    }

    #[test]
    fn programs_get_json() {
        let text = written(LogFormat::Json, LogLevel::Info);
        let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(line["message"], "caught up");
        assert_eq!(line["rounds"], 3);
        assert_eq!(line["level"], "INFO");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for text in ["human", "json"] {
            assert_eq!(text.parse::<LogFormat>().unwrap().to_string(), text);
        }
        for text in ["error", "warn", "info", "debug", "trace"] {
            assert_eq!(text.parse::<LogLevel>().unwrap().to_string(), text);
        }
        assert!("".parse::<LogLevel>().unwrap_err().to_string().contains("\nhint: "));
        assert!("xml".parse::<LogFormat>().unwrap_err().to_string().contains("\nhint: "));
    }
}
