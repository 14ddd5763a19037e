//! Where applications of PostgreSQL connect: a host and a port, or a folder of this machine and a port.

use crate::address::address;
use arras_postgres::{Listener, socket_path};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde::{Deserialize, Deserializer};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;

/// PostgreSQL's port.
const PORT: u16 = 5432;
/// What the file of a socket is called before its port.
const FILE: &str = ".s.PGSQL.";
/// What a URL's host does not have as it is, of what folders' names may.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A place to listen at, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Host and port.
    Address(String),
    /// The folder of a socket, and its port.
    Folder(PathBuf, u16),
}

/// A place of the command line: `HOST:PORT`, or what begins with a slash: a folder (`/run/arras`), a folder and a port
/// (`/run/arras:5433`), or the file of a socket (`/run/arras/.s.PGSQL.5433`).
///
/// # Errors
/// What is wrong with it.
pub fn place(text: &str) -> Result<Place, String> {
    if !text.starts_with('/') {
        return address(text).map(Place::Address);
    }
    let port = |digits: &str| {
        digits.parse().map_err(|_| format!("{text:?} is no place: its port is no number below 65536"))
    };
    if let Some((folder, digits)) = text.rsplit_once(FILE).filter(|(folder, _)| folder.ends_with('/')) {
        return Ok(Place::Folder(folder.into(), port(digits)?));
    }
    match text.rsplit_once(':') {
        Some((folder, digits)) => Ok(Place::Folder(folder.into(), port(digits)?)),
        None => Ok(Place::Folder(text.into(), PORT)),
    }
}

/// The places of a configuration: one, or a list.
///
/// # Errors
/// As [`place`]; there is none.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Place>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an address, or a list of addresses")]
    enum Written {
        One(String),
        Several(Vec<String>),
    }
    let list = match Written::deserialize(from)? {
        Written::One(one) => vec![one],
        Written::Several(list) => list,
    };
    if list.is_empty() {
        return Err(serde::de::Error::custom("it names no place to listen at"));
    }
    list.iter().map(|text| place(text).map_err(serde::de::Error::custom)).collect()
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(out),
            Self::Folder(folder, port) => socket_path(folder, *port).display().fmt(out),
        }
    }
}

impl Place {
    /// Opens it; what clients write between `postgres://` and the database, and whether others than the process's own user may
    /// reach it. `mode`: who may connect by a socket.
    pub(super) async fn open(&self, mode: Option<u32>) -> io::Result<(Listener, String, bool)> {
        match self {
            Self::Address(address) => {
                let listener = TcpListener::bind(address).await?;
                let bound = listener.local_addr()?;
                Ok((Listener::Tcp(listener), bound.to_string(), !bound.ip().is_loopback()))
            }
            Self::Folder(folder, port) => {
                let listener = Listener::in_folder(folder, *port, mode).await?;
                let others = mode.is_some_and(|mode| mode & 0o077 != 0);
                Ok((listener, format!("{}:{port}", in_url(folder)), others))
            }
        }
    }
}

/// A folder as the host of a URL.
fn in_url(folder: &Path) -> String {
    percent_encode(folder.as_os_str().as_bytes(), UNSAFE).to_string()
}

/// Rights as `chmod` writes them: digits to the base of eight.
///
/// # Errors
/// There are others than a socket has.
pub(super) fn read_mode<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(from)?;
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.map(Some).ok_or_else(|| serde::de::Error::custom("rights are three digits, as \"0660\""))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_or_a_folder_with_a_port() {
        let folder = |folder: &str, port| Ok(Place::Folder(folder.into(), port));
        assert_eq!(place("127.0.0.1:5433"), Ok(Place::Address("127.0.0.1:5433".into())));
        assert_eq!(place("/run/arras"), folder("/run/arras", 5432));
        assert_eq!(place("/run/arras:5433"), folder("/run/arras", 5433));
        assert_eq!(place("/run/arras/.s.PGSQL.5433"), folder("/run/arras/", 5433));
        for bad in ["run/arras", "/run/arras:x", "/run/arras:70000", "/run/.s.PGSQL.x", "127.0.0.1"] {
            assert!(place(bad).is_err(), "{bad}");
        }
        assert_eq!(in_url(Path::new("/run/a b:c")), "%2Frun%2Fa%20b%3Ac");
    }

    #[test]
    fn a_configuration_names_one_place_or_several() {
        #[derive(Deserialize)]
        struct Section {
            #[serde(deserialize_with = "read")]
            listen: Vec<Place>,
        }
        let read = |text: &str| toml::from_str::<Section>(text).map(|section| section.listen.len());
        assert_eq!(read("listen = \"127.0.0.1:5433\"").unwrap(), 1);
        assert_eq!(read("listen = [\"127.0.0.1:5433\", \"/run/arras\"]").unwrap(), 2);
        for bad in ["listen = []", "listen = 5", "listen = [\"nowhere\"]"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
