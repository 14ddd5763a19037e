//! Conversations with the enclave, whatever carries them.

use arras_schemes::bisen::message::{Reply, Request};
use arras_search::service::Unreachable;
use arras_service::{Fault, ServiceError};
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// What will have been said.
pub type Saying<'c, T> = Pin<Box<dyn Future<Output = T> + Send + 'c>>;

/// The way to an enclave.
pub trait Host: fmt::Debug + Send + Sync {
    /// Where it is, for messages.
    fn place(&self) -> String;

    /// Begins a conversation over a channel of its own.
    ///
    /// # Errors
    /// [`Fault::Unreachable`] if nobody is there, [`Fault::Peer`] if it is not whom this client speaks to.
    fn begin(&self) -> Saying<'_, Result<Box<dyn Conversation>, ServiceError>>;
}

/// An open channel, on which one request is under way at a time.
pub trait Conversation: Send {
    /// Asks. After an error, or if this is given up before its end, the conversation is of no more use.
    ///
    /// # Errors
    /// [`Unreachable`] if no reply comes: what an update then did is unknown; it may be sent again.
    fn ask(&mut self, request: Request) -> Saying<'_, Result<Reply, Unreachable>>;
}

/// Nobody is there, or answers.
#[must_use]
pub fn unreachable(error: &dyn fmt::Display) -> ServiceError {
    ServiceError::new(Fault::Unreachable, error.to_string())
}
