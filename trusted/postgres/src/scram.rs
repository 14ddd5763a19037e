//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the side that knows a verifier: what PostgreSQL keeps in `pg_authid`, from which no
//! password can be read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::Rng;
use ring::{digest, hmac};
use std::str;
use subtle::ConstantTimeEq;

/// The mechanism's name.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

/// Random bytes of the server's part of a nonce.
const NONCE_BYTES: usize = 18;
/// Bytes of the salt shown for a user that there is not.
const SALT_BYTES: usize = 16;
/// Iterations shown for a user that there is not: PostgreSQL's own default.
const ITERATIONS: u32 = 4096;
/// Bytes of a SHA-256.
const HASH_BYTES: usize = 32;

/// What a password is checked by.
#[derive(Clone)]
pub struct Verifier {
    salt: Vec<u8>,
    iterations: u32,
    stored: [u8; HASH_BYTES],
    server: [u8; HASH_BYTES],
}

/// A text that is no verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a SCRAM-SHA-256 verifier (`SCRAM-SHA-256$iterations:salt$stored key:server key`, as in PostgreSQL's \
     pg_authid.rolpassword)"
)]
pub struct NotAVerifier;

impl str::FromStr for Verifier {
    type Err = NotAVerifier;

    fn from_str(text: &str) -> Result<Self, NotAVerifier> {
        parse(text).ok_or(NotAVerifier)
    }
}

fn parse(text: &str) -> Option<Verifier> {
    let (salted, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
    let (iterations, salt) = salted.split_once(':')?;
    let (stored, server) = keys.split_once(':')?;
    let hash = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
    Some(Verifier {
        salt: STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?,
        iterations: iterations.parse().ok().filter(|iterations| *iterations > 0)?,
        stored: hash(stored)?,
        server: hash(server)?,
    })
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("its SCRAM messages are malformed")]
    Malformed,
    #[error("the user or the password is wrong")]
    Wrong,
}

/// One exchange, after the first message of the client.
pub(crate) struct Exchange {
    /// None for a user that there is not: the exchange goes on to its end all the same.
    verifier: Option<Verifier>,
    /// What the client's last message must begin with.
    channel_and_nonce: String,
    /// Client's first message without its header, and the answer to it.
    signed: String,
}

fn mac(key: &[u8], message: &[u8]) -> [u8; HASH_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    let mut hash = [0; HASH_BYTES];
    hash.copy_from_slice(tag.as_ref());
    hash
}

impl Exchange {
    /// Reads the client's first message; what to answer. A user that there is not gets a salt that is always the same, made
    /// from `mask`.
    pub(crate) fn begin(
        verifier: Option<Verifier>,
        user: &[u8],
        mask: &[u8; HASH_BYTES],
        first: &[u8],
    ) -> Result<(Self, String), Denied> {
        let mut random = [0; NONCE_BYTES];
        rand::rng().fill_bytes(&mut random);
        Self::begin_with(verifier, (user, mask), first, &STANDARD.encode(random))
    }

    fn begin_with(
        verifier: Option<Verifier>,
        (user, mask): (&[u8], &[u8; HASH_BYTES]),
        first: &[u8],
        own_nonce: &str,
    ) -> Result<(Self, String), Denied> {
        let first = str::from_utf8(first).map_err(|_| Denied::Malformed)?;
        // "y": the client would bind the channel and thinks that it cannot; it was not offered, so that is true.
        let (header, bare) = [("n,,", "n,,"), ("y,,", "y,,")]
            .into_iter()
            .find_map(|(prefix, header)| Some((header, first.strip_prefix(prefix)?)))
            .ok_or(Denied::Malformed)?;
        // The name is the one of the connection's start; PostgreSQL's clients leave it empty here.
        let nonce = bare
            .split(',')
            .nth(1)
            .filter(|_| bare.starts_with("n="))
            .and_then(|attribute| attribute.strip_prefix("r="))
            .filter(|nonce| !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic()))
            .ok_or(Denied::Malformed)?;
        let (salt, iterations) = match &verifier {
            Some(known) => (known.salt.clone(), known.iterations),
            None => (mac(mask, user).iter().copied().take(SALT_BYTES).collect(), ITERATIONS),
        };
        let nonce = format!("{nonce}{own_nonce}");
        let answer = format!("r={nonce},s={},i={iterations}", STANDARD.encode(salt));
        let channel_and_nonce = format!("c={},r={nonce}", STANDARD.encode(header));
        let signed = format!("{bare},{answer}");
        Ok((Self { verifier, channel_and_nonce, signed }, answer))
    }

    /// Judges the client's last message; what to answer.
    pub(crate) fn finish(self, last: &[u8]) -> Result<String, Denied> {
        let last = str::from_utf8(last).map_err(|_| Denied::Malformed)?;
        let (said, proof) = last.rsplit_once(",p=").ok_or(Denied::Malformed)?;
        if said != self.channel_and_nonce {
            return Err(Denied::Malformed);
        }
        let proof: [u8; HASH_BYTES] =
            STANDARD.decode(proof).ok().and_then(|proof| proof.try_into().ok()).ok_or(Denied::Malformed)?;
        let verifier = self.verifier.ok_or(Denied::Wrong)?;
        let signed = format!("{},{said}", self.signed);
        let mut key = mac(&verifier.stored, signed.as_bytes());
        for (byte, proof) in key.iter_mut().zip(proof) {
            *byte ^= proof;
        }
        let hash = digest::digest(&digest::SHA256, &key);
        if !bool::from(hash.as_ref().ct_eq(&verifier.stored)) {
            return Err(Denied::Wrong);
        }
        Ok(format!("v={}", STANDARD.encode(mac(&verifier.server, signed.as_bytes()))))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
    use postgres_protocol::password::scram_sha_256;

    const MASK: [u8; HASH_BYTES] = [7; HASH_BYTES];

    fn exchange(verifier: Option<Verifier>, typed: &str) -> Result<(), Denied> {
        let mut client = ScramSha256::new(typed.as_bytes(), ChannelBinding::unsupported());
        let (exchange, answer) = Exchange::begin(verifier, b"app", &MASK, client.message())?;
        client.update(answer.as_bytes()).unwrap();
        let answer = exchange.finish(client.message())?;
        client.finish(answer.as_bytes()).unwrap();
        Ok(())
    }

    /// RFC 7677, section 3.
    #[test]
    fn the_exchange_of_the_standard() {
        let mut salted = [0; HASH_BYTES];
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let iterations = std::num::NonZeroU32::new(4096).unwrap();
        ring::pbkdf2::derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, b"pencil", &mut salted);
        let stored = digest::digest(&digest::SHA256, &mac(&salted, b"Client Key"));
        let verifier = Verifier {
            salt,
            iterations: 4096,
            stored: stored.as_ref().try_into().unwrap(),
            server: mac(&salted, b"Server Key"),
        };
        let (exchange, answer) = Exchange::begin_with(
            Some(verifier),
            (b"user", &MASK),
            b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        )
        .unwrap();
        assert_eq!(
            answer,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(exchange.finish(last).unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn the_password_lets_in_and_nothing_else_does() {
        let verifier = scram_sha_256(b"secret").parse::<Verifier>().ok();
        assert!(verifier.is_some());
        assert_eq!(exchange(verifier.clone(), "secret"), Ok(()));
        assert_eq!(exchange(verifier, "Secret"), Err(Denied::Wrong));
        assert_eq!(exchange(None, "secret"), Err(Denied::Wrong));
    }

    #[test]
    fn a_message_that_leaves_something_out_or_binds_a_channel_is_refused() {
        for first in
            [&b"n,,r=abc"[..], b"p=tls-server-end-point,,n=,r=abc", b"n,,n=,r=", b"n,a=b,n=,r=abc", b"\xff"]
        {
            assert!(Exchange::begin(None, b"app", &MASK, first).is_err(), "{first:?}");
        }
        let verifier = scram_sha_256(b"secret").parse::<Verifier>().ok();
        let mut client = ScramSha256::new(b"secret", ChannelBinding::unsupported());
        let (exchange, answer) = Exchange::begin(verifier, b"app", &MASK, client.message()).unwrap();
        client.update(answer.as_bytes()).unwrap();
        let replayed = String::from_utf8(client.message().to_vec()).unwrap().replacen("r=", "r=x", 1);
        assert_eq!(exchange.finish(replayed.as_bytes()), Err(Denied::Malformed));
    }

    #[test]
    fn verifiers_are_read_whole() {
        let whole = scram_sha_256(b"secret");
        for wrong in [
            whole.replace("SCRAM-SHA-256", "SCRAM-SHA-1"),
            whole.replace("4096", "0"),
            whole[..whole.len() - 4].to_owned(),
            "md5aabbcc".to_owned(),
            String::new(),
        ] {
            assert!(wrong.parse::<Verifier>().is_err(), "{wrong}");
        }
    }
}
