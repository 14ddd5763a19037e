//! Logical sessions. Drivers attach one to every command; without transactions and retried writes it carries
//! no state, so these commands only answer.

use super::handshake::SESSION_MINUTES;
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_service::store::Store;
use bson::spec::BinarySubtype;
use bson::{Binary, doc};

/// `startSession`.
pub(crate) async fn start<S: Store>(_context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: rand::random::<[u8; 16]>().to_vec() };
    Ok(doc! { "id": { "id": id }, "timeoutMinutes": SESSION_MINUTES })
}

/// `refreshSessions`.
pub(crate) async fn refresh<S: Store>(_context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    Ok(doc! {})
}

/// `endSessions`.
pub(crate) async fn end<S: Store>(_context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    Ok(doc! {})
}

/// `killSessions`.
pub(crate) async fn kill<S: Store>(_context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    Ok(doc! {})
}

/// `logout`.
pub(crate) async fn logout<S: Store>(_context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    Ok(doc! {})
}

/// `saslStart` and its like: what a driver sends if the connection string has credentials.
pub(crate) async fn sign_in<S: Store>(_context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    let message =
        "this proxy takes no credentials yet: leave user name and password out of the connection string";
    Err(CommandError::new(18, "AuthenticationFailed", message))
}
