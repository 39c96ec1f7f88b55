use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    partial: Partial,
}

fn flags(words: &[&str]) -> Partial {
    Arguments::try_parse_from(["atoll"].iter().chain(words)).unwrap().partial
}

fn resolve(
    file: &str,
    variables: &[(&str, &str)],
    words: &[&str],
) -> (tempfile::TempDir, Result<Config, ConfigError>) {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(FILE), file).unwrap();
    let variables =
        variables.iter().copied().chain([("ATOLL_HOME", home.path().to_str().unwrap())]);
    let variables: Vec<_> = variables.map(|(name, value)| (name.into(), value.into())).collect();
    let config = Config::resolve(flags(words), variables);
    (home, config)
}

fn good(file: &str, variables: &[(&str, &str)], words: &[&str]) -> Config {
    resolve(file, variables, words).1.unwrap()
}

fn refused(file: &str, variables: &[(&str, &str)], words: &[&str]) -> String {
    let error = resolve(file, variables, words).1.unwrap_err().to_string();
    assert!(error.contains("\nhint: "), "{error}");
    error
}

#[test]
fn without_a_word_everything_has_a_default() {
    let config = good("", &[], &[]);
    assert_eq!(config.listen, LISTEN);
    assert_eq!((config.mdns, config.upnp, config.nice), (true, true, 0));
    assert_eq!((config.max_upload, config.max_disk, config.threads), (None, None, None));
    assert_eq!(config.http.to_string(), "127.0.0.1:0");
    assert_eq!(config.device, DeviceChoice::Auto);
    assert_eq!(config.precision, PrecisionChoice::Auto);
    assert_eq!((config.log, config.log_level), (LogFormat::Human, LogLevel::Info));
    assert_eq!(config.source("listen"), &Source::Default);
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn later_sources_win_one_value_at_a_time() {
    let file = "max_upload = '1mbit'\nmax_download = '1mbit'\nmax_disk = '1GB'\nmdns = false\n";
    let variables = [("ATOLL_MAX_DOWNLOAD", "2mbit"), ("ATOLL_MAX_DISK", "2GB")];
    let config = good(file, &variables, &["--max-disk", "3GB"]);
    assert_eq!(config.max_upload.unwrap().to_string(), "1mbit");
    assert_eq!(config.max_download.unwrap().to_string(), "2mbit");
    assert_eq!(config.max_disk.unwrap().to_string(), "3GB");
    assert!(!config.mdns && config.upnp);
    assert!(config.source("max_upload").to_string().ends_with("config.toml"));
    assert_eq!(config.source("max_download").to_string(), "ATOLL_MAX_DOWNLOAD");
    assert_eq!(config.source("max_disk").to_string(), "--max-disk");
    assert_eq!(config.source("home").to_string(), "ATOLL_HOME");
    assert_eq!(config.source("upnp"), &Source::Default);
}

#[test]
fn every_key_can_be_given_by_every_source() {
    let values = [
        ("listen", "/ip4/127.0.0.1/tcp/1"),
        ("external", "/ip4/203.0.113.7/tcp/1"),
        (
            "bootstrap",
            "/ip4/203.0.113.7/tcp/1/p2p/12D3KooWF6FptGEgimCKpm7bqD9sLTS12P5ZT3TSPP1Fwy5MYg2E",
        ),
        ("max_upload", "3mbit"),
        ("max_download", "3mbit"),
        ("max_disk", "3GB"),
        ("mdns", "false"),
        ("upnp", "false"),
        ("http", "127.0.0.1:81"),
        ("device", "cuda:1"),
        ("precision", "f32"),
        ("threads", "3"),
        ("nice", "3"),
        ("data", "folder"),
        ("field", "body"),
        ("log", "json"),
        ("log_level", "debug"),
    ];
    let file: String = values
        .iter()
        .map(|(key, value)| match *key {
            "listen" | "external" | "bootstrap" => format!("{key} = ['{value}']\n"),
            "mdns" | "upnp" | "threads" | "nice" => format!("{key} = {value}\n"),
            _ => format!("{key} = '{value}'\n"),
        })
        .collect();
    let names: Vec<String> =
        values.iter().map(|(key, _)| format!("ATOLL_{}", key.to_uppercase())).collect();
    let variables: Vec<_> =
        names.iter().zip(&values).map(|(name, (_, value))| (name.as_str(), *value)).collect();
    let words: Vec<String> =
        values.iter().map(|(key, value)| format!("--{}={value}", key.replace('_', "-"))).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let same = |mut config: Config| {
        for (key, _) in values {
            assert_ne!(config.source(key), &Source::Default, "{key}");
        }
        (config.home, config.sources) = Default::default();
        config
    };
    let from_file = same(good(&file, &[], &[]));
    assert_eq!(from_file.threads, Some(3));
    assert_eq!(from_file.device, DeviceChoice::Cuda(1));
    assert_eq!(from_file, same(good("", &variables, &[])));
    assert_eq!(from_file, same(good("", &[], &words)));
}

#[test]
fn what_is_printed_is_read_again() {
    let words = [
        "--max-upload",
        "2MB",
        "--data",
        "a \"b\" # \\c",
        "--threads",
        "2",
        "--listen",
        "/ip4/127.0.0.1/tcp/1,/ip4/127.0.0.1/udp/1/quic-v1",
        "--http",
        "[::1]:80",
    ];
    for config in [good("", &[], &[]), good("nice = 5", &[("ATOLL_MDNS", "off")], &words)] {
        let mut again = good(&config.to_toml(), &[], &[]);
        (again.home, again.sources) = (config.home.clone(), config.sources.clone());
        assert_eq!(again, config, "{}", config.to_toml());
    }
    let text = good("nice = 5", &[("ATOLL_MDNS", "off")], &words).to_toml();
    for line in [
        "max_upload = \"2MB\" # --max-upload",
        "mdns = false # ATOLL_MDNS",
        "upnp = true # default",
        "# max_disk is not set: no limit",
        "listen = [ # --listen",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
    }
    let nice = text.lines().find(|line| line.starts_with("nice")).unwrap();
    assert!(nice.ends_with("config.toml"), "{nice}");
}

#[test]
fn impossible_values_are_named_with_what_is_allowed() {
    for (key, value, said) in [
        ("max-upload", "5mb", "max_upload from --max-upload: `5mb` could mean bits or bytes"),
        ("max-upload", "0mbit", "`0mbit` is outside 1kB to 125GB"),
        ("max-disk", "much", "`much` is not a size"),
        ("threads", "0", "threads from --threads: `0` is outside 1 to 1024"),
        ("nice", "-5", "nice from --nice: `-5` is outside 0 to 19"),
        ("nice", "20", "`20` is outside 0 to 19"),
        ("http", "localhost", "`localhost` is not an address and a port"),
        ("precision", "f16", "precision from --precision: \"f16\" is no precision"),
        ("device", "gpu", "device from --device: there is no device `gpu`"),
        ("log", "xml", "`xml`"),
        ("log-level", "loud", "`loud`"),
        ("data", " ", "data from --data: ` ` is empty"),
        ("listen", "0.0.0.0:4001", "`0.0.0.0:4001` is not a multiaddress"),
        ("listen", "/tcp/4001", "`/tcp/4001` is not a multiaddress"),
        ("external", "/ip4/0.0.0.0/tcp/1", "is not an address that others can dial"),
        ("bootstrap", "/dns/boot.example/tcp/1", "is without a peer id at its end"),
        ("bootstrap", "/dns/boot.example/tcp/1/p2p/...", "is without a peer id at its end"),
    ] {
        let error = refused("", &[], &[&format!("--{key}={value}")]);
        assert!(error.contains(said), "{error}");
    }
    let error = refused("", &[("ATOLL_MDNS", "perhaps")], &[]);
    assert!(error.starts_with("mdns from ATOLL_MDNS: `perhaps` is neither true"), "{error}");
    let error = refused("", &[("ATOLL_THREADS", "two")], &[]);
    assert!(error.starts_with("threads from ATOLL_THREADS: `two` is not a whole"), "{error}");
}

#[test]
fn a_file_with_other_keys_is_refused_with_the_line() {
    let error = refused("nice = 1\nmax_uplaod = '1mbit'\n", &[], &[]);
    assert!(error.contains("config.toml: "), "{error}");
    assert!(error.contains("line 2") && error.contains("max_uplaod"), "{error}");
    assert!(error.contains("`max_upload`"), "{error}");
    assert!(refused("home = '/x'", &[], &[]).contains("unknown field `home`"));
    assert!(refused("threads = 'two'", &[], &[]).contains("line 1"));
    assert!(refused("threads =", &[], &[]).contains("line 1"));
    assert!(refused("threads = -1", &[], &[]).contains("`-1` is outside 1 to 1024"));
}

#[test]
fn what_is_probably_a_mistake_is_a_warning() {
    let variables = [("ATOLL_MAX_UPLAOD", "1mbit"), ("ATOLL_NICE", ""), ("OTHER", "x")];
    let config = good("", &variables, &["--http", "0.0.0.0:80"]);
    let [unknown, open] = config.warnings.as_slice() else { panic!("{:?}", config.warnings) };
    assert!(unknown.starts_with("ATOLL_MAX_UPLAOD is set and means nothing"), "{unknown}");
    assert!(open.starts_with("anyone who reaches 0.0.0.0:80 can read"), "{open}");
}

#[test]
fn the_folder_follows_the_flag_the_variable_and_xdg() {
    let home = |variables: &[(&str, &str)], words: &[&str]| {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        Config::resolve(flags(words), variables).map(|config| config.home)
    };
    let all =
        [("HOME", "/nowhere/h"), ("XDG_DATA_HOME", "/nowhere/x"), ("ATOLL_HOME", "/nowhere/a")];
    assert_eq!(home(&all, &["--home", "/nowhere/f"]).unwrap(), Path::new("/nowhere/f"));
    assert_eq!(home(&all, &[]).unwrap(), Path::new("/nowhere/a"));
    assert_eq!(home(&all[..2], &[]).unwrap(), Path::new("/nowhere/x/atoll"));
    assert_eq!(home(&all[..1], &[]).unwrap(), Path::new("/nowhere/h/.local/share/atoll"));
    let relative = [("HOME", "/nowhere/h"), ("XDG_DATA_HOME", "x")];
    assert_eq!(home(&relative, &[]).unwrap(), Path::new("/nowhere/h/.local/share/atoll"));
    assert_eq!(home(&[], &[]), Err(ConfigError::NoHome));
    assert!(home(&[], &["--home", "here"]).unwrap().is_absolute());
}
