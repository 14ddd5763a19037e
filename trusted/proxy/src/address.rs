//! Addresses as they are written: a host and a port. Whether anybody is there shows when it is used.

use serde::{Deserialize, Deserializer};

/// An address of the command line, as it is written.
///
/// # Errors
/// What is wrong with it: it lacks its host or its port.
pub fn address(text: &str) -> Result<String, String> {
    let wrong = |what: &str| {
        Err(format!("{text:?} is no address: {what} (HOST:PORT, as 127.0.0.1:27017 or [::1]:27017)"))
    };
    let Some((host, port)) = text.rsplit_once(':') else { return wrong("it has no port") };
    let is_in_brackets = host.starts_with('[') && host.ends_with(']');
    if host.is_empty()
        || host == "[]"
        || host.contains(|letter: char| letter.is_whitespace() || letter == '/')
    {
        return wrong("it has no host");
    }
    if host.contains(':') && !is_in_brackets {
        return wrong("an IPv6 address goes in brackets");
    }
    if port.parse::<u16>().is_err() {
        return wrong("its port is no number below 65536");
    }
    Ok(text.to_owned())
}

/// The same of a configuration.
///
/// # Errors
/// As [`address`].
pub(crate) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    address(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in ["127.0.0.1:27017", "[::1]:0", "db.example:65535", "localhost:1"] {
            assert_eq!(address(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "27017",
            "localhost",
            ":27017",
            "localhost:",
            "localhost:70000",
            "::1:27017",
            "a b:1",
            "http://a:1",
            "[]:1",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
