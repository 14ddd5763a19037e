//! Where the database is: a connection URL as libpq reads it.

use super::{LoginPassword, Protection, tls};
use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// PostgreSQL's port.
const PORT: u16 = 5432;

/// A database that clients are connected to.
#[derive(Clone)]
pub struct Upstream {
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

/// Host and port.
impl fmt::Display for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
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

/// What is behind the question mark.
#[derive(Default)]
struct Parameters {
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
            let value = decoded(value)?;
            match name {
                "sslmode" => read.mode = Some(value),
                "sslrootcert" => read.authorities = Some(value),
                "user" => read.user = Some(value),
                "password" => read.password = Some(LoginPassword::new(value)),
                "dbname" => read.database = Some(value),
                _ => return wrong(format!("no parameter is called {name:?}; there are {PARAMETERS}")),
            }
        }
        Ok(read)
    }
}

const PARAMETERS: &str = "sslmode, sslrootcert, user, password and dbname";

impl Upstream {
    /// Reads `postgres://[user[:password]@]host[:port][/database][?parameters]`. Parameters are libpq's `sslmode`
    /// (`disable`, `require`, `verify-ca`, `verify-full`) and `sslrootcert` (a file, or `system`), `user`, `password` and
    /// `dbname`. Unlike libpq, whose default is to take whatever the server offers, the wire is encrypted and the server's
    /// certificate and name are verified unless the URL says otherwise; a server on this machine's loopback address is
    /// spoken to in plaintext unless the URL asks for more.
    ///
    /// `password` is what it is where the URL has none.
    ///
    /// # Errors
    /// [`AddressError`] if the URL is not of that form, or its certificates cannot be read.
    pub fn parse(url: &str, password: Option<Arc<LoginPassword>>) -> Result<Self, AddressError> {
        let Some(rest) = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://")) else {
            return wrong("it does not begin with postgres://");
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let (host, port) = host_and_port(place)?;
        let parameters = Parameters::read(query)?;
        let mut user = parameters.user;
        let mut own_password = parameters.password;
        if let Some(login) = login {
            let (name, secret) =
                login.split_once(':').map_or((login, None), |(name, secret)| (name, Some(secret)));
            user = (!name.is_empty()).then(|| decoded(name)).transpose()?.or(user);
            own_password =
                secret.map(|secret| decoded(secret).map(LoginPassword::new)).transpose()?.or(own_password);
        }
        let database = if path.is_empty() { parameters.database } else { Some(decoded(path)?) };
        let protection = protection(&host, parameters.mode.as_deref(), parameters.authorities.as_deref())?;
        let password = own_password.or(password);
        Ok(Self { host, port, protection, user, password, database })
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

fn host_and_port(place: &str) -> Result<(String, u16), AddressError> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let Ok(port) = port.map_or(Ok(PORT), str::parse) else {
        return wrong("the port is not a number below 65536");
    };
    if host.is_empty() || host.contains([',', '%', '/']) {
        return wrong("it must name one host (no list, no socket's directory)");
    }
    Ok((host.to_owned(), port))
}

/// True if what is sent there stays on this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn protection(host: &str, mode: Option<&str>, authorities: Option<&str>) -> Result<Protection, AddressError> {
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
        ] {
            let error = Upstream::parse(url, None).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let upstream = parsed("postgres://u:hunter2@localhost/x");
        assert!(!format!("{upstream:?}").contains("hunter2"));
    }
}
