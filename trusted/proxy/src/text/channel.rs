//! The channel to the enclave: attested, or plain for trials.

use crate::configuration::{ConfigurationError, Search};
use arras_attestation::channel::{Channel, ChannelError, Client};
use arras_attestation::folder::credentials;
use arras_attestation::policy::ReleasePolicy;
use arras_schemes::bisen::message::{Reply, Request};
use arras_search::link::{Link, OpenError};
use arras_search::service::{SearchService, Unreachable};
use std::net::TcpStream;
use std::path::Path;

/// Begins channels.
pub(super) enum Channels {
    /// That open to enclaves of the release policy only.
    Attested(Client),
    /// That protect nothing, as somebody.
    Plain(String),
}

impl std::fmt::Debug for Channels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Attested(_)) { "Attested" } else { "Plain" })
    }
}

fn wrong(path: &Path, what: &dyn std::fmt::Display) -> ConfigurationError {
    ConfigurationError { path: path.to_owned(), what: what.to_string() }
}

impl Channels {
    /// As the configuration says.
    ///
    /// # Errors
    /// A file cannot be read or is not what it should be.
    pub(super) fn new(search: &Search) -> Result<Self, ConfigurationError> {
        let Some((certificates, policy)) = search.attested() else {
            tracing::warn!(
                host = search.host,
                "[search]: the channel is plain: the host can read and change what is said to the enclave; for trials only"
            );
            return Ok(Self::Plain(search.identity.clone()));
        };
        let own = credentials(certificates, &search.identity)
            .map_err(|error| ConfigurationError { path: error.path, what: error.what })?;
        let text = std::fs::read_to_string(policy).map_err(|error| wrong(policy, &error))?;
        let policy = ReleasePolicy::read(&text).map_err(|error| wrong(policy, &error))?;
        Client::new(own, policy).map(Self::Attested).map_err(|error| wrong(certificates, &error))
    }

    /// A channel over a stream.
    pub(super) fn open(&self, stream: TcpStream) -> Result<Linked, OpenError<ChannelError>> {
        match self {
            Self::Attested(client) => {
                let channel =
                    client.channel().map_err(|error| OpenError::Channel(ChannelError::Tls(error)))?;
                Link::open(stream, channel).map(|link| Linked::Attested(Box::new(link)))
            }
            Self::Plain(identity) => Ok(Linked::Plain(Link::plain(stream, identity)?)),
        }
    }
}

/// An open channel.
pub(super) enum Linked {
    Attested(Box<Link<TcpStream, Channel>>),
    Plain(Link<TcpStream>),
}

impl SearchService for Linked {
    fn ask(&mut self, request: Request) -> Result<Reply, Unreachable> {
        match self {
            Self::Attested(link) => link.ask(request),
            Self::Plain(link) => link.ask(request),
        }
    }
}
