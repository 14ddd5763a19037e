//! Who answers: an enclave behind a channel, or in tests the enclave's own code in this process.

use crate::profile::{Profile, ProfileError};
use arras_schemes::bisen::message::{Opened, Refused, Reply, Request};
use arras_schemes::bisen::update::{Fence, Update};

/// Answers requests, one after the other.
pub trait SearchService {
    /// Asks, and waits for the reply.
    ///
    /// # Errors
    /// [`Unreachable`] if none comes. What an update then did is unknown; it may be sent again.
    fn ask(&mut self, request: Request) -> Result<Reply, Unreachable>;
}

/// No reply comes any more.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the search service does not answer: {0}")]
pub struct Unreachable(pub String);

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// No reply comes.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// The enclave does not do it.
    #[error("the enclave refuses: {0}")]
    Refused(#[from] Refused),
    /// The reply is one to another kind of request.
    #[error("the enclave's reply does not answer the request")]
    Reply,
    /// The enclave's state is an older one than it acknowledged.
    #[error(
        "what the search service keeps was set back (a restored backup, or a rollback): it is at revision {found}, and was at {known}; \
         put the newer data back, or index anew into another store"
    )]
    SetBack {
        /// Where the collection is.
        found: u128,
        /// Where it was.
        known: u128,
    },
    /// The collection is of another analysis.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// An open collection.
pub struct Collection<'s, S: SearchService> {
    service: &'s mut S,
    /// What the enclave says of it.
    pub opened: Opened,
    /// How its texts are analysed.
    pub profile: Profile,
}

impl<'s, S: SearchService> Collection<'s, S> {
    /// Opens a collection, or makes it if there is none. It may be new, or must have been made for this profile.
    ///
    /// # Errors
    /// [`ServiceError`]: [`ServiceError::Profile`] if its texts are analysed in another way.
    pub fn create(service: &'s mut S, name: &str, profile: Profile) -> Result<Self, ServiceError> {
        match Self::open(service, name) {
            Ok((opened, found)) => {
                found.check_same(&profile)?;
                return Ok(Self { service, opened, profile });
            }
            // That it is not there looks like that it is somebody else's, who then refuses to have it made.
            Err(ServiceError::Refused(Refused::NotAllowed)) => {}
            Err(error) => return Err(error),
        }
        let settings = profile.settings();
        let opened = opened(service.ask(Request::Create { name: name.into(), settings })?)?;
        Ok(Self { service, opened, profile })
    }

    /// Opens a collection that is there, with the profile it was made with.
    ///
    /// # Errors
    /// [`ServiceError`]; also if this build's analysis of its language is another than the one it was made with.
    pub fn existing(service: &'s mut S, name: &str) -> Result<Self, ServiceError> {
        let (opened, profile) = Self::open(service, name)?;
        profile.check_current()?;
        Ok(Self { service, opened, profile })
    }

    fn open(service: &mut S, name: &str) -> Result<(Opened, Profile), ServiceError> {
        let opened = opened(service.ask(Request::Open(name.into()))?)?;
        let profile = Profile::decode(opened.settings.profile.as_slice())?;
        Ok((opened, profile))
    }

    /// Sees that the collection is not older than it is known to have been.
    ///
    /// # Errors
    /// [`ServiceError::SetBack`].
    pub fn expect(&self, known: u128) -> Result<(), ServiceError> {
        let found = self.opened.revision;
        if found < known { Err(ServiceError::SetBack { found, known }) } else { Ok(()) }
    }

    /// Writes what is of use anew and removes the rest, if there is so much of no use that it is worth it; how many entries were
    /// removed.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn compact(&mut self, name: &str) -> Result<u64, ServiceError> {
        self.opened = Self::open(self.service, name)?.0;
        if !self.opened.is_to_be_compacted() {
            return Ok(0);
        }
        let (collection, mut from, mut removed) = (self.opened.collection, None, 0);
        loop {
            match self.ask(Request::Compact { collection, from, fence: Fence::default() })? {
                Reply::Compacted { next, saved, .. } => {
                    removed += saved;
                    from = next;
                }
                Reply::Opened(_) | Reply::Updated | Reply::Found(_) | Reply::Done | Reply::Refused(_) => {
                    return Err(ServiceError::Reply);
                }
            }
            if from.is_none() {
                self.opened = Self::open(self.service, name)?.0;
                return Ok(removed);
            }
        }
    }

    /// Carries an update out: durable and visible when this returns.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn update(&mut self, update: Update) -> Result<(), ServiceError> {
        match self.ask(Request::Update(update))? {
            Reply::Updated => {
                // It has grown by one at least.
                self.opened.revision += 1;
                Ok(())
            }
            Reply::Opened(_)
            | Reply::Found(_)
            | Reply::Compacted { .. }
            | Reply::Done
            | Reply::Refused(_) => Err(ServiceError::Reply),
        }
    }

    /// Asks; a refusal is an error.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Reply, ServiceError> {
        match self.service.ask(request)? {
            Reply::Refused(refused) => Err(refused.into()),
            reply @ (Reply::Opened(_)
            | Reply::Updated
            | Reply::Found(_)
            | Reply::Compacted { .. }
            | Reply::Done) => Ok(reply),
        }
    }
}

fn opened(reply: Reply) -> Result<Opened, ServiceError> {
    match reply {
        Reply::Opened(opened) => Ok(opened),
        Reply::Refused(refused) => Err(refused.into()),
        Reply::Updated | Reply::Found(_) | Reply::Compacted { .. } | Reply::Done => Err(ServiceError::Reply),
    }
}
