//! The values that `ATOLL_*` variables give.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::error::ConfigError;
use super::partial::Partial;
use super::source::Source;

/// What the variables say, and warnings about those that say nothing.
///
/// An unknown one is not refused: a container's supervisor sets `ATOLL_SERVICE_HOST` and the like
/// for a service of our name.
pub(super) fn read(
    variables: &BTreeMap<OsString, OsString>,
) -> Result<(Partial, Vec<String>), ConfigError> {
    let mut partial = Partial::default();
    let mut warnings = Vec::new();
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        let Some(key) = name.strip_prefix("ATOLL_") else { continue };
        if value.is_empty() {
            continue;
        }
        if key == "HOME" {
            partial.home = Some(PathBuf::from(value));
            continue;
        }
        let not_text = || ConfigError::NotText { name: name.to_owned() };
        let text = value.to_str().ok_or_else(not_text)?.to_owned();
        if !take(&mut partial, key, text)? {
            warnings.push(format!(
                "{name} is set and means nothing to atoll\n\
                 hint: `atoll run --print-config` prints every key; its variable is ATOLL_ and \
                 the key in capitals"
            ));
        }
    }
    Ok((partial, warnings))
}

/// False if no value has this name.
fn take(partial: &mut Partial, key: &str, text: String) -> Result<bool, ConfigError> {
    let list = |text: String| Some(text.split(',').map(|it| it.trim().to_owned()).collect());
    match key {
        "LISTEN" => partial.listen = list(text),
        "EXTERNAL" => partial.external = list(text),
        "BOOTSTRAP" => partial.bootstrap = list(text),
        "MAX_UPLOAD" => partial.max_upload = Some(text),
        "MAX_DOWNLOAD" => partial.max_download = Some(text),
        "MAX_DISK" => partial.max_disk = Some(text),
        "MDNS" => partial.mdns = Some(switch("mdns", &text)?),
        "UPNP" => partial.upnp = Some(switch("upnp", &text)?),
        "HTTP" => partial.http = Some(text),
        "DEVICE" => partial.device = Some(text),
        "PRECISION" => partial.precision = Some(text),
        "THREADS" => partial.threads = Some(whole("threads", &text)?),
        "NICE" => partial.nice = Some(whole("nice", &text)?),
        "DATA" => partial.data = Some(text),
        "FIELD" => partial.field = Some(text),
        "LOG" => partial.log = Some(text),
        "LOG_LEVEL" => partial.log_level = Some(text),
        _ => return Ok(false),
    }
    Ok(true)
}

fn switch(key: &'static str, text: &str) -> Result<bool, ConfigError> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" | "t" | "y" => Ok(true),
        "false" | "no" | "off" | "0" | "f" | "n" => Ok(false),
        _ => {
            let (from, hint) = (Source::Environment(key), "write true or false");
            Err(ConfigError::value(key, text, from, "neither true nor false", hint))
        }
    }
}

fn whole(key: &'static str, text: &str) -> Result<i64, ConfigError> {
    let refuse = |_| {
        let (from, hint) = (Source::Environment(key), "write digits only");
        ConfigError::value(key, text, from, "not a whole number", hint)
    };
    text.trim().parse().map_err(refuse)
}
