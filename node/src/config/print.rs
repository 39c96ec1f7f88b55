//! The configuration as a file.

use std::fmt::Write;

use super::Config;

/// Writes every key, those that are not set as comments.
pub(super) fn to_toml(config: &Config) -> String {
    let mut page = Page { config, text: String::new() };
    page.line(&format!("# Save this as {} to keep it.", config.file().display()));
    let home = text(config.home.display());
    page.line(&format!("# home = {home} # {}", config.source("home")));
    page.list("listen", &config.listen);
    page.list("external", &config.external);
    page.list("bootstrap", &config.bootstrap);
    page.optional("max_upload", config.max_upload.map(text), "no limit");
    page.optional("max_download", config.max_download.map(text), "no limit");
    page.optional("max_disk", config.max_disk.map(text), "no limit");
    page.value("mdns", &config.mdns.to_string());
    page.value("upnp", &config.upnp.to_string());
    page.value("http", &text(config.http));
    page.value("device", &text(config.device));
    page.value("precision", &text(config.precision));
    let threads = config.threads.map(|threads| threads.to_string());
    page.optional("threads", threads, "one for each core");
    page.value("nice", &config.nice.to_string());
    page.optional("data", config.data.as_ref().map(text), "the corpus that the run names");
    page.optional("field", config.field.as_ref().map(text), "the field called text");
    page.value("log", &text(config.log));
    page.value("log_level", &text(config.log_level));
    page.text
}

struct Page<'a> {
    config: &'a Config,
    text: String,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn value(&mut self, key: &str, value: &str) {
        let source = self.config.source(key);
        let _ = writeln!(self.text, "{key} = {value} # {source}");
    }

    fn optional(&mut self, key: &str, value: Option<String>, otherwise: &str) {
        match value {
            Some(value) => self.value(key, &value),
            None => self.line(&format!("# {key} is not set: {otherwise}")),
        }
    }

    fn list(&mut self, key: &str, values: &[String]) {
        let source = self.config.source(key).to_string();
        if let [] | [_] = values {
            let values: Vec<String> = values.iter().map(text).collect();
            return self.value(key, &format!("[{}]", values.join(", ")));
        }
        self.line(&format!("{key} = [ # {source}"));
        for value in values {
            self.line(&format!("    {},", text(value)));
        }
        self.line("]");
    }
}

/// A value as a TOML string.
fn text(value: impl ToString) -> String {
    toml::Value::String(value.to_string()).to_string()
}
