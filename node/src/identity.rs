//! Who this node is: one ed25519 key in a file that only its owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use atoll_protocol::crypto::Key;
use atoll_protocol::id::NodeId;
use data_encoding::HEXLOWER_PERMISSIVE;

/// A node's key, and where it is kept.
#[derive(Clone, Debug)]
pub struct Identity {
    key: Key,
    file: PathBuf,
}

/// Why the key cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Others on this machine could read the key.
    #[error(
        "{}: others on this machine can read this key (permissions {mode:04o}, 0600 needed)\n\
         hint: chmod 600 {}", path.display(), path.display()
    )]
    Exposed {
        /// The key's file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file holds something else than a key.
    #[error(
        "{}: not a key: {reason}\n\
         hint: put the file back from a copy; or move it away, and this node gets a new identity, \
         which its peers do not know and an invitation does not cover", path.display()
    )]
    Torn {
        /// The key's file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Reading or writing failed.
    #[error("{}: {source}\nhint: --home names another folder for the key", path.display())]
    File {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no randomness to make a key of.
    #[error("a key needs randomness, but the system gives none: {0}")]
    Randomness(String),
}

impl Identity {
    /// Reads the key in the folder `home`, or makes folder and key if there is none.
    pub fn load_or_create(home: &Path) -> Result<Self, IdentityError> {
        if let Some(identity) = Self::load(home)? {
            return Ok(identity);
        }
        let file = home.join(FILE);
        // Of two processes that start at once one makes the key: what counts is what can be read
        // afterwards.
        create(home, &file)?;
        Ok(Self { key: Key::from_secret(read(&file)?), file })
    }

    /// Reads the key in the folder `home`; none if there is none.
    pub fn load(home: &Path) -> Result<Option<Self>, IdentityError> {
        let file = home.join(FILE);
        match read(&file) {
            Ok(secret) => Ok(Some(Self { key: Key::from_secret(secret), file })),
            Err(IdentityError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The key.
    pub fn key(&self) -> Key {
        self.key.clone()
    }

    /// The public half, which names the node; people are shown [`NodeId::to_hex`].
    pub fn node(&self) -> NodeId {
        self.key.node()
    }

    /// Where the key is kept.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

fn read(path: &Path) -> Result<[u8; 32], IdentityError> {
    let refuse = |source| IdentityError::File { path: path.to_owned(), source };
    let file = File::open(path).map_err(refuse)?;
    check_permissions(path, &file)?;
    let mut bytes = Vec::new();
    // One byte more than a key with its line end has shows that it is none.
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(refuse)?;
    decode(&bytes).map_err(|reason| IdentityError::Torn { path: path.to_owned(), reason })
}

fn decode(bytes: &[u8]) -> Result<[u8; 32], String> {
    // A key that was copied by hand may end with another system's line end, or none.
    let text = bytes.trim_ascii_end();
    let wanted = "64 hexadecimal digits needed";
    if text.len() != 64 {
        return Err(format!("{} bytes, {wanted}", text.len()));
    }
    let secret = HEXLOWER_PERMISSIVE.decode(text).map_err(|error| {
        // The digits are secret, so only the place is told.
        format!("the character at position {} is no digit, {wanted}", error.position + 1)
    })?;
    <[u8; 32]>::try_from(secret.as_slice()).map_err(|_| wanted.to_owned())
}

/// Makes the key under another name and links it into place, so that a crash leaves either a
/// whole key or none, and of two processes that start at once one wins.
fn create(home: &Path, path: &Path) -> Result<(), IdentityError> {
    let refuse = |at: &Path| {
        let path = at.to_owned();
        move |source| IdentityError::File { path, source }
    };
    create_folder(home).map_err(refuse(home))?;
    let (mut secret, mut suffix) = ([0; 32], [0; 8]);
    for bytes in [secret.as_mut_slice(), suffix.as_mut_slice()] {
        getrandom::fill(bytes).map_err(|it| IdentityError::Randomness(it.to_string()))?;
    }
    let mut text = data_encoding::HEXLOWER.encode(&secret);
    text.push('\n');
    let temporary = home.join(format!("{FILE}.{}", data_encoding::HEXLOWER.encode(&suffix)));
    write_private(&temporary, text.as_bytes()).map_err(refuse(&temporary))?;
    let placed = match fs::hard_link(&temporary, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Some file systems have no links; there the later of two processes wins.
        Err(_) => fs::rename(&temporary, path),
        Ok(()) => Ok(()),
    };
    let _ = fs::remove_file(&temporary);
    placed.map_err(refuse(path))?;
    // Without this the name may be lost in a crash although the bytes are not.
    File::open(home).and_then(|folder| folder.sync_all()).map_err(refuse(home))
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn create_folder(home: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(home)
}

#[cfg(unix)]
fn check_permissions(path: &Path, file: &File) -> Result<(), IdentityError> {
    use std::os::unix::fs::PermissionsExt;
    let refuse = |source| IdentityError::File { path: path.to_owned(), source };
    let mode = file.metadata().map_err(refuse)?.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(IdentityError::Exposed { path: path.to_owned(), mode })
}

#[cfg(not(unix))]
fn check_permissions(_path: &Path, _file: &File) -> Result<(), IdentityError> {
    Ok(())
}

const FILE: &str = "key";
/// 64 digits and some room for line ends.
const FILE_BYTES_MAX: u64 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("new/home");
        assert!(Identity::load(&home).unwrap().is_none());
        let first = Identity::load_or_create(&home).unwrap();
        let again = Identity::load_or_create(&home).unwrap();
        assert_eq!(first.node(), again.node());
        assert_eq!(first.key().node(), Identity::load(&home).unwrap().unwrap().node());
        let names: Vec<_> = fs::read_dir(&home).unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(names, [first.file()], "nothing temporary stays");
        assert!(!format!("{first:?}").contains(fs::read_to_string(first.file()).unwrap().trim()));
    }

    #[test]
    fn processes_that_start_at_once_agree() {
        let folder = tempfile::tempdir().unwrap();
        let start = || Identity::load_or_create(folder.path()).unwrap().node();
        let nodes: Vec<NodeId> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(nodes, [start(); 4]);
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_can_read_is_refused_with_a_hint() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::load_or_create(folder.path()).unwrap();
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(identity.file()), 0o600);
        for mode in [0o640, 0o604, 0o644] {
            fs::set_permissions(identity.file(), fs::Permissions::from_mode(mode)).unwrap();
            let error = Identity::load_or_create(folder.path()).unwrap_err().to_string();
            assert!(error.contains(&format!("{mode:04o}")), "{error}");
            assert!(error.contains("hint: chmod 600 "), "{error}");
        }
        fs::set_permissions(identity.file(), fs::Permissions::from_mode(0o400)).unwrap();
        Identity::load_or_create(folder.path()).unwrap();
    }

    #[test]
    fn torn_content_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let whole = "0123456789abcdef".repeat(4);
        let long = format!("{whole}{whole}");
        let odd = whole.replacen('5', "x", 1);
        for (text, said) in [
            ("", "0 bytes"),
            (&whole[..40], "40 bytes"),
            (&long, "81 bytes"),
            (&odd, "position 6"),
            (&"\0".repeat(64), "position 1"),
        ] {
            let _ = fs::remove_file(&path);
            write_private(&path, text.as_bytes()).unwrap();
            let error = Identity::load_or_create(folder.path()).unwrap_err();
            assert!(matches!(error, IdentityError::Torn { .. }));
            let told = error.to_string();
            assert!(told.contains(said) && told.contains("\nhint: "), "{told}");
            assert_eq!(fs::read_to_string(&path).unwrap(), *text);
        }
        fs::remove_file(&path).unwrap();
        write_private(&path, format!("{}\r\n", whole.to_uppercase()).as_bytes()).unwrap();
        Identity::load_or_create(folder.path()).unwrap();
    }
}
