//! Who answers: an enclave behind a channel, or in tests the enclave's own code in this process.

use crate::profile::{Profile, ProfileError};
use arras_schemes::bisen::message::{Opened, Refused, Reply, Request};
use arras_schemes::bisen::update::Update;

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

    /// Carries an update out: durable and visible when this returns.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn update(&mut self, update: Update) -> Result<(), ServiceError> {
        match self.ask(Request::Update(update))? {
            Reply::Updated => Ok(()),
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
