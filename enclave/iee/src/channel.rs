//! The enclave's end of a client's channel: who speaks, and what it says.

use arras_schemes::bisen::channel::{ChannelBroken, Plain};

/// Which channels the enclave takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// Without protection: for tests and the laboratory. The host reads and alters what clients say, and clients are who they say
    /// they are.
    Plain,
}

/// One client's.
pub(crate) enum Channel {
    /// Nothing has come yet.
    New,
    Plain(Plain),
}

/// What a client's bytes were.
pub(crate) enum Said {
    /// It is this identity.
    Identity(String),
    Message(Vec<u8>),
}

impl Channel {
    pub(crate) fn open(channels: Channels) -> Self {
        match channels {
            Channels::Plain => Self::New,
        }
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Said, ChannelBroken> {
        match self {
            Self::New => {
                let identity = Plain::greeted(bytes)?;
                *self = Self::Plain(Plain::default());
                Ok(Said::Identity(identity))
            }
            Self::Plain(plain) => plain.unwrap(bytes).map(|message| Said::Message(message.to_vec())),
        }
    }

    pub(crate) fn wrap(&mut self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::New => Vec::new(),
            Self::Plain(plain) => plain.wrap(message),
        }
    }
}
