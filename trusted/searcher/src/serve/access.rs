//! Who may ask.

use arras_primitives::ct;
use std::net::SocketAddr;

/// Bytes of a token.
const TOKEN_BYTES: usize = 16;

/// The address and the token of a start.
pub(super) struct Access {
    address: SocketAddr,
    /// In hexadecimal.
    token: String,
}

impl Access {
    /// Draws a token.
    pub(super) fn new(address: SocketAddr) -> Result<Self, getrandom::Error> {
        let mut drawn = [0; TOKEN_BYTES];
        getrandom::fill(&mut drawn)?;
        Ok(Self { address, token: drawn.iter().map(|byte| format!("{byte:02x}")).collect() })
    }

    /// What a browser opens.
    pub(super) fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Whether a request's `Host` is this address, by number or as `localhost`.
    pub(super) fn knows_host(&self, host: Option<&[u8]>) -> bool {
        let names = [self.address.to_string(), format!("localhost:{}", self.address.port())];
        host.is_some_and(|host| names.iter().any(|name| host.eq_ignore_ascii_case(name.as_bytes())))
    }

    /// What is behind the token in a path; nothing if it does not begin with the token.
    pub(super) fn behind_token<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (token, rest) = path.strip_prefix('/')?.split_once('/')?;
        ct::equal(token.as_bytes(), self.token.as_bytes()).then_some(rest)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_new_each_time_and_opens_alone() {
        let address = "127.0.0.1:8478".parse().unwrap();
        let (access, other) = (Access::new(address).unwrap(), Access::new(address).unwrap());
        let url = access.url();
        let path = url.strip_prefix("http://127.0.0.1:8478").unwrap();
        assert_eq!(access.behind_token(path), Some(""));
        assert_eq!(access.behind_token(&format!("{path}style.css")), Some("style.css"));
        assert_eq!(other.behind_token(path), None);
        for wrong in ["", "/", "//", "/style.css", path.trim_end_matches('/'), &path[..path.len() - 2]] {
            assert_eq!(access.behind_token(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn another_name_for_this_address_is_not_known() {
        let access = Access::new("127.0.0.1:8478".parse().unwrap()).unwrap();
        for known in ["127.0.0.1:8478", "localhost:8478", "LOCALHOST:8478"] {
            assert!(access.knows_host(Some(known.as_bytes())), "{known}");
        }
        for unknown in ["evil.example:8478", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8478.evil.example", ""] {
            assert!(!access.knows_host(Some(unknown.as_bytes())), "{unknown}");
        }
        assert!(!access.knows_host(None));
    }
}
