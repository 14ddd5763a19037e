//! Failures as MongoDB reports them: its codes where it has one for the case.

use super::intents::WriteError;
use super::local::LocalError;
use arras_client::OpenFailed;
use arras_client::error::IndexError;
use arras_planner::store::{Namespace, StoreError};
use arras_planner::terms::TooManyTerms;
use arras_protocol::{ChannelError, Refusal};

/// An error without details.
pub(super) fn of(code: i32, code_name: &'static str, message: impl Into<String>) -> StoreError {
    StoreError { code, code_name, message: message.into(), details: None }
}

/// A reply that no server of this protocol gives.
pub(super) fn not_of_protocol() -> StoreError {
    of(8, "UnknownError", "the server's reply is not of the protocol")
}

/// An answer that is not of what was written: documents or entries repeated, withheld, or not asked for.
pub(super) fn lying(ns: &Namespace, what: &str) -> StoreError {
    let Namespace { database, collection } = ns;
    let message =
        format!("the server's answer about {database}.{collection} is not of what was written: {what}");
    of(246, "DataCorruptionDetected", message)
}

pub(super) fn channel(error: ChannelError) -> StoreError {
    match &error {
        ChannelError::Lost(_) | ChannelError::Refused(Refusal::Stopping) => {
            of(6, "HostUnreachable", error.to_string())
        }
        ChannelError::Deadline(_) => of(89, "NetworkTimeout", error.to_string()),
        ChannelError::TooLarge { .. } => of(10334, "BSONObjectTooLarge", error.to_string()),
        ChannelError::Refused(_) | ChannelError::Malformed(_) => of(8, "UnknownError", error.to_string()),
    }
}

pub(super) fn index(error: IndexError) -> StoreError {
    match error {
        IndexError::Channel(error) => channel(error),
        other => of(8, "UnknownError", other.to_string()),
    }
}

pub(super) fn open(error: OpenFailed) -> StoreError {
    of(8, "UnknownError", error.to_string())
}

pub(super) fn local(error: LocalError) -> StoreError {
    of(8, "UnknownError", error.to_string())
}

pub(super) fn write(error: WriteError) -> StoreError {
    match error {
        WriteError::InDoubt(_) => of(6, "HostUnreachable", error.to_string()),
        WriteError::NotSent(error) => channel(error),
        WriteError::TooLarge(_) => of(10334, "BSONObjectTooLarge", error.to_string()),
        other => of(8, "UnknownError", other.to_string()),
    }
}

pub(super) fn too_many_entries(error: &TooManyTerms) -> StoreError {
    match error {
        TooManyTerms::Values { .. } => of(2, "BadValue", error.to_string()),
        TooManyTerms::Combinations { .. } => of(171, "CannotIndexParallelArrays", error.to_string()),
    }
}
