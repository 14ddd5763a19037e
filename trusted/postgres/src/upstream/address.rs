//! Where the database is: a connection URL, or keywords and values, as libpq reads them.

mod keywords;

use super::{LoginPassword, Protection, tls};
use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// PostgreSQL's port.
const PORT: u16 = 5432;

/// A database that clients are connected to.
#[derive(Clone)]
pub struct Upstream {
    /// A name, an address, or the folder of a socket of this machine, which begins with a slash.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) protection: Protection,
    user: Option<String>,
    password: Option<Arc<LoginPassword>>,
    database: Option<String>,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Upstream({self})")
    }
}

/// Host or folder, and port.
impl fmt::Display for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') && self.folder().is_none() {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

/// Why a URL is not taken. It never quotes the URL: a password may be in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the upstream's URL: {0}")]
pub struct AddressError(String);

fn wrong<T>(what: impl Into<String>) -> Result<T, AddressError> {
    Err(AddressError(what.into()))
}

fn decoded(text: &str) -> Result<String, AddressError> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => wrong("a part of it is not UTF-8"),
    }
}

/// What is behind the question mark, or all that keywords say.
#[derive(Default)]
struct Parameters {
    host: Option<String>,
    port: Option<u16>,
    mode: Option<String>,
    authorities: Option<String>,
    user: Option<String>,
    password: Option<Arc<LoginPassword>>,
    database: Option<String>,
}

impl Parameters {
    fn read(query: &str) -> Result<Self, AddressError> {
        let mut read = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return wrong("a parameter of it has no value");
            };
            read.set(name, decoded(value)?)?;
        }
        Ok(read)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), AddressError> {
        match name {
            "host" => self.host = Some(value),
            "port" => self.port = Some(port(&value)?),
            "sslmode" => self.mode = Some(value),
            "sslrootcert" => self.authorities = Some(value),
            "user" => self.user = Some(value),
            "password" => self.password = Some(LoginPassword::new(value)),
            "dbname" => self.database = Some(value),
            _ => return wrong(format!("no parameter is called {name:?}; there are {PARAMETERS}")),
        }
        Ok(())
    }
}

const PARAMETERS: &str = "host, port, sslmode, sslrootcert, user, password and dbname";

impl Upstream {
    /// Reads `postgres://[user[:password]@]host[:port][/database][?parameters]`. Parameters are libpq's `sslmode`
    /// (`disable`, `require`, `verify-ca`, `verify-full`) and `sslrootcert` (a file, or `system`), `host`, `port`, `user`,
    /// `password` and `dbname`; or the same parameters as keywords and values, `host=... dbname=...`. A host that begins with a
    /// slash is the folder of a socket of this machine. Unlike libpq, whose default is to take whatever the server offers, the wire is encrypted and the server's
    /// certificate and name are verified unless the URL says otherwise; a server on this machine's loopback address is
    /// spoken to in plaintext unless the URL asks for more, and by a socket always.
    ///
    /// `password` is what it is where the URL has none.
    ///
    /// # Errors
    /// [`AddressError`] if the URL is not of that form, or its certificates cannot be read.
    pub fn parse(url: &str, password: Option<Arc<LoginPassword>>) -> Result<Self, AddressError> {
        let Some(rest) = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://")) else {
            if url.contains("://") || !url.contains('=') {
                return wrong("it does not begin with postgres://, and is no list of keywords and values");
            }
            let mut parameters = Parameters::default();
            keywords::read(url)?.into_iter().try_for_each(|(name, value)| parameters.set(&name, value))?;
            return Self::of(parameters, password);
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let (host, port) = host_and_port(place)?;
        let mut parameters = Parameters::read(query)?;
        if let Some(login) = login {
            let (name, secret) =
                login.split_once(':').map_or((login, None), |(name, secret)| (name, Some(secret)));
            let user = (!name.is_empty()).then(|| decoded(name)).transpose()?;
            parameters.user = user.or(parameters.user);
            let secret = secret.map(|secret| decoded(secret).map(LoginPassword::new)).transpose()?;
            parameters.password = secret.or(parameters.password);
        }
        if !path.is_empty() {
            parameters.database = Some(decoded(path)?);
        }
        parameters.host = parameters.host.or(Some(host));
        parameters.port = parameters.port.or(port);
        Self::of(parameters, password)
    }

    fn of(read: Parameters, password: Option<Arc<LoginPassword>>) -> Result<Self, AddressError> {
        let host = read.host.unwrap_or_default();
        if host.is_empty() || host.contains(',') || (host.contains('/') && !host.starts_with('/')) {
            return wrong("it must name one host, or the folder of a socket (no list)");
        }
        let protection = protection(&host, read.mode.as_deref(), read.authorities.as_deref())?;
        let (port, password) = (read.port.unwrap_or(PORT), read.password.or(password));
        Ok(Self { host, port, protection, user: read.user, password, database: read.database })
    }

    /// The folder of the socket that the database is connected to by.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.host.starts_with('/').then(|| Path::new(&self.host))
    }

    /// Whom the proxy logs in as, for a client of that name.
    pub(crate) fn user<'a>(&'a self, client: &'a str) -> &'a str {
        self.user.as_deref().unwrap_or(client)
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.password.as_deref().map(LoginPassword::expose)
    }

    /// The database that the URL names.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }
}

fn port(digits: &str) -> Result<u16, AddressError> {
    digits.parse().or_else(|_| wrong("the port is not a number below 65536"))
}

/// A folder stands there with its slashes written as `%2F`.
fn host_and_port(place: &str) -> Result<(String, Option<u16>), AddressError> {
    let (host, digits) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    Ok((decoded(host)?, digits.map(port).transpose()?))
}

/// True if what is sent there stays on this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.starts_with('/')
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn protection(host: &str, mode: Option<&str>, authorities: Option<&str>) -> Result<Protection, AddressError> {
    if host.starts_with('/') && (mode.is_some_and(|mode| mode != "disable") || authorities.is_some()) {
        return wrong(
            "by a socket of this machine PostgreSQL speaks no TLS: leave sslmode and sslrootcert out",
        );
    }
    let judged = match mode {
        Some("disable") => return Ok(Protection::Plain),
        None if is_loopback(host) && authorities.is_none() => return Ok(Protection::Plain),
        None | Some("verify-full") => tls::Judged::Name,
        Some("verify-ca") => tls::Judged::Authority,
        // As libpq has it: with authorities at hand their judgement is asked for.
        Some("require") if authorities.is_some() => tls::Judged::Authority,
        Some("require") => tls::Judged::Nothing,
        Some(mode @ ("allow" | "prefer")) => {
            return wrong(format!(
                "sslmode={mode} takes plaintext if somebody between asks for it; say verify-full, verify-ca, require \
                 or disable"
            ));
        }
        Some(_) => return wrong("sslmode is one of verify-full, verify-ca, require and disable"),
    };
    let authorities = match authorities {
        None | Some("system") => tls::Authorities::System,
        Some(file) => tls::Authorities::File(PathBuf::from(file)),
    };
    let config = tls::config(judged, &authorities).map_err(AddressError)?;
    match ServerName::try_from(host.to_owned()) {
        Ok(name) => Ok(Protection::Tls(config, name)),
        Err(_) => wrong("the host is neither a name nor an address"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Upstream {
        Upstream::parse(url, None).unwrap()
    }

    #[test]
    fn the_parts_of_a_url() {
        let whole = parsed("postgres://us%40er:p%3A%2Fss@db.example:6000/sh%20op?sslmode=disable");
        assert_eq!(whole.to_string(), "db.example:6000");
        assert_eq!(
            (whole.user("x"), whole.password(), whole.database()),
            ("us@er", Some("p:/ss"), Some("sh op"))
        );
        let bare = Upstream::parse("postgresql://127.0.0.1", Some(LoginPassword::new("env".into()))).unwrap();
        assert_eq!(bare.to_string(), "127.0.0.1:5432");
        assert_eq!((bare.user("x"), bare.password(), bare.database()), ("x", Some("env"), None));
        let six = parsed("postgres://[::1]:5433/?user=a&password=b&dbname=c");
        assert_eq!(six.to_string(), "[::1]:5433");
        assert_eq!((six.user("x"), six.password(), six.database()), ("a", Some("b"), Some("c")));
    }

    #[test]
    fn a_socket_is_named_by_its_folder() {
        for text in [
            "postgres://%2Fvar%2Frun%2Fpostgresql:5433/shop?user=app",
            "postgres://app@/shop?host=/var/run/postgresql&port=5433",
            "postgresql:///shop?host=%2Fvar%2Frun%2Fpostgresql&port=5433&user=app&sslmode=disable",
            "host=/var/run/postgresql port=5433 dbname=shop user=app",
            " host = '/var/run/postgresql'  port='5433' user=app dbname = shop ",
        ] {
            let socket = parsed(text);
            assert_eq!(socket.to_string(), "/var/run/postgresql:5433", "{text}");
            assert_eq!(socket.folder(), Some(Path::new("/var/run/postgresql")));
            assert_eq!((socket.user("x"), socket.database()), ("app", Some("shop")));
            assert!(matches!(socket.protection, Protection::Plain));
        }
        assert_eq!(parsed("host=/run").to_string(), "/run:5432");
        for url in [
            "postgres:///x?host=/run&sslmode=require",
            "host=/run sslrootcert=system",
            "host=run/x",
            "user=a",
        ] {
            assert!(Upstream::parse(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn keywords_and_values_say_the_same() {
        let whole = parsed(
            "host=db.example port=6000 user='us er' password='p\\'\\\\s' dbname=sh\\ op sslmode=disable",
        );
        assert_eq!(whole.to_string(), "db.example:6000");
        assert_eq!(
            (whole.user("x"), whole.password(), whole.database()),
            ("us er", Some(r"p'\s"), Some("sh op"))
        );
        assert!(!matches!(parsed("host=db.example").protection, Protection::Plain));
        for text in ["host", "host=a user='b", "host=a port", "host=a hostaddr=1.2.3.4", "host=a port=x"] {
            assert!(Upstream::parse(text, None).is_err(), "{text}");
        }
    }

    #[test]
    fn another_machine_is_verified_unless_the_url_says_otherwise() {
        let plain = |url: &str| matches!(parsed(url).protection, Protection::Plain);
        assert!(
            plain("postgres://localhost/x") && plain("postgres://127.0.0.2/x") && plain("postgres://[::1]/x")
        );
        assert!(plain("postgres://db.example/x?sslmode=disable"));
        assert!(!plain("postgres://db.example/x?sslmode=require"));
        assert!(!plain("postgres://localhost/x?sslmode=require"));
        for taken_back in ["allow", "prefer", "Verify-Full", ""] {
            let url = format!("postgres://db.example/x?sslmode={taken_back}");
            assert!(Upstream::parse(&url, None).is_err(), "{taken_back}");
        }
        let missing =
            Upstream::parse("postgres://localhost/x?sslrootcert=/nowhere/ca.pem", None).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/ca.pem"), "{missing}");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_url() {
        for url in [
            "mysql://u:hunter2@h/x",
            "postgres://u:hunter2@/x",
            "postgres://u:hunter2@h:port/x",
            "postgres://u:hunter2@a,b/x",
            "postgres://u:hunter2@h/x?target_session_attrs=any",
            "postgres://u:hunter2@h/x?sslmode",
            "host=h password=hunter2 port=x",
            "host=h password='hunter2",
        ] {
            let error = Upstream::parse(url, None).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let upstream = parsed("postgres://u:hunter2@localhost/x");
        assert!(!format!("{upstream:?}").contains("hunter2"));
    }
}
