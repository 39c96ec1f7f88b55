//! Where settings and the identity come from, and why a server does not start.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, FromArgMatches as _, Parser as _};
use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use libp2p::identity::Keypair;
use thiserror::Error;

use crate::cli::Settings;

/// Why a server does not start, and what to do about it.
#[derive(Debug, Error)]
#[error("{0}\nhint: {1}")]
pub struct StartError(pub(crate) String, pub(crate) &'static str);

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self(format!("the system refused: {error}"), "look at the limits of this user")
    }
}

/// The settings that the command line, the environment and the file come to.
///
/// Wrong usage ends the process with clap's own message and exit code 2.
pub fn settings(arguments: Vec<OsString>) -> Result<Settings, StartError> {
    let mut command = Settings::command();
    if let Some(path) = Settings::parse_from(&arguments).config {
        let failed = |reason| {
            let hint = "`atoll-bootstrap --print-config` prints a file with every setting";
            StartError(format!("configuration file {}: {reason}", path.display()), hint)
        };
        let text = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
        let table: toml::Table = text.parse().map_err(|error| failed(format!("{error}")))?;
        // What the file says becomes the default, so that clap checks it and lets others win.
        for (name, value) in table {
            if ["config", "print_config"].contains(&&*name)
                || !command.get_arguments().any(|known| known.get_id() == &name)
            {
                return Err(failed(format!("unknown setting {name:?}")));
            }
            let values = value.as_array().cloned().unwrap_or_else(|| vec![value]);
            let text = |value: toml::Value| value.as_str().map_or(value.to_string(), Into::into);
            let values: Vec<String> = values.into_iter().map(text).collect();
            command = command.mut_arg(name, |argument| argument.default_values(values));
        }
    }
    let matches = command.get_matches_from(arguments);
    let mut settings = Settings::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")));
    settings.key = settings.key.or_else(|| Some(data?.join("atoll/bootstrap.key")));
    Ok(settings)
}

/// The identity in the key file, which is made if there is none.
pub fn identity(settings: &Settings) -> Result<Keypair, StartError> {
    let hint = "name a file of your own with --key; a deleted one is made anew, as a new identity";
    let no_folder = || StartError("no folder for the key: HOME is not set".into(), hint);
    let path = settings.key.as_deref().ok_or_else(no_folder)?;
    let secret = match read_secret(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_secret(path),
        read => read,
    };
    secret
        .and_then(|secret| Keypair::ed25519_from_bytes(secret).map_err(io::Error::other))
        .map_err(|error| StartError(format!("key file {}: {error}", path.display()), hint))
}

fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    let text = fs::read_to_string(path)?;
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::other("other users may read it; chmod 600 it"));
    }
    let secret = HEX.decode(text.trim().as_bytes()).ok().filter(|secret| secret.len() == 32);
    secret.ok_or_else(|| io::Error::other("not a key of 64 hex digits"))
}

/// Under its name the file is there whole or not at all.
fn make_secret(path: &Path) -> io::Result<Vec<u8>> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut secret = vec![0; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{}", HEX.encode(&secret))?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(folder)?.sync_all().map(|()| secret)
}
