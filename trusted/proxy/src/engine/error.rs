//! Failures as MongoDB reports them: its codes where it has one for the case.

use super::intents::WriteError;
use super::local::LocalError;
use crate::history::Halt;
use arras_planner::schema::Misfit;
use arras_planner::store::{Namespace, StoreError};
use arras_planner::terms::TooManyTerms;
use arras_protocol::{ChannelError, Refusal};
use arras_schemes::OpenFailed;
use arras_schemes::error::IndexError;
use bson::{Bson, doc};

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

/// A statement's collection was dropped under it: MongoDB's code for that.
pub(super) fn dropped(ns: &Namespace) -> StoreError {
    let Namespace { database, collection } = ns;
    of(175, "QueryPlanKilled", format!("collection dropped: {database}.{collection}"))
}

/// MongoDB's code for a server that cannot be reached: nothing was applied, and a driver may try again.
pub(super) const HOST_UNREACHABLE: i32 = 6;
/// MongoDB's code for a server that did not answer in time.
pub(super) const NETWORK_TIMEOUT: i32 = 89;
/// MongoDB's code for a server that is no longer the one to write to.
pub(super) const NOT_PRIMARY: i32 = 10107;
/// A write whose outcome nobody knows yet, and which will be completed: MongoDB's code for one that is not confirmed.
/// Drivers do not send such a write again by themselves; it could be applied twice.
pub(super) const IN_DOUBT: i32 = 64;

/// MongoDB's code for a document that is not what is declared.
pub(super) const VALIDATION: i32 = 121;

/// A document that is not what the schema declares.
pub(super) fn misfit(misfit: &Misfit, id: &Bson) -> StoreError {
    let info = doc! { "failingDocumentId": id.clone(), "details": misfit.details() };
    StoreError {
        details: Some(Box::new(doc! { "errInfo": info })),
        ..of(VALIDATION, "DocumentValidationFailure", format!("Document failed validation: {misfit}"))
    }
}

fn in_doubt(message: String) -> StoreError {
    of(IN_DOUBT, "WriteConcernFailed", message)
}

/// A failure to read what a write needs to know, before it is recorded: what becomes of the write is known.
pub(super) fn not_recorded(mut error: StoreError) -> StoreError {
    if matches!(error.code, HOST_UNREACHABLE | NETWORK_TIMEOUT) {
        error.message.push_str("; this part of the write was not recorded, and will not be applied");
    }
    error
}

/// A failure to make the collection that a write needs: the collection will be there, the write's own documents not.
pub(super) fn only_prepared(error: StoreError) -> StoreError {
    if error.code != IN_DOUBT {
        return not_recorded(error);
    }
    let message = "the server cannot be reached while the collection is made";
    not_recorded(of(HOST_UNREACHABLE, "HostUnreachable", message))
}

/// A failure of inserts that were sent without asking whether their `_id`s are taken.
pub(super) fn unless_taken(mut error: StoreError) -> StoreError {
    if error.code == IN_DOUBT {
        error.message.push_str("; it will be refused then if a document with its `_id` exists");
    }
    error
}

/// A failure to settle what is in doubt, for one whose own write is recorded to follow it.
pub(super) fn recorded(error: StoreError) -> StoreError {
    if error.code != HOST_UNREACHABLE {
        return error;
    }
    in_doubt("the server cannot be reached; the change is recorded in the proxy and will be completed".into())
}

/// This proxy must not go on. Drivers try one that is no longer the primary again elsewhere, or at its successor.
pub(super) fn halted(halt: Halt) -> StoreError {
    match halt {
        Halt::Fenced => of(NOT_PRIMARY, "NotWritablePrimary", halt.to_string()),
        Halt::OtherDatabase | Halt::ProxyBehind | Halt::ServerBehind => {
            of(8, "UnknownError", halt.to_string())
        }
    }
}

pub(super) fn channel(error: ChannelError) -> StoreError {
    match &error {
        ChannelError::Refused(Refusal::Fenced) => halted(Halt::Fenced),
        ChannelError::Refused(Refusal::SetBack) => halted(Halt::ServerBehind),
        ChannelError::Halted(why) => of(8, "UnknownError", why.clone()),
        ChannelError::Lost(_) | ChannelError::Refused(Refusal::Stopping) => {
            of(HOST_UNREACHABLE, "HostUnreachable", error.to_string())
        }
        ChannelError::Deadline(_) => of(NETWORK_TIMEOUT, "NetworkTimeout", error.to_string()),
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
        WriteError::InDoubt(_) | WriteError::Undecided(_) | WriteError::HaltedInDoubt(_) => {
            in_doubt(error.to_string())
        }
        // Nothing was applied: a driver may send it again.
        WriteError::Unsettled(_) => of(HOST_UNREACHABLE, "HostUnreachable", error.to_string()),
        WriteError::NotSent(error) => channel(error),
        WriteError::TooLarge(_) => of(10334, "BSONObjectTooLarge", error.to_string()),
        other => of(8, "UnknownError", other.to_string()),
    }
}

pub(super) fn too_many_entries(error: &TooManyTerms) -> StoreError {
    match error {
        TooManyTerms::Values { .. } | TooManyTerms::Combinations { .. } => {
            of(2, "BadValue", error.to_string())
        }
        TooManyTerms::ParallelArrays { .. } => of(171, "CannotIndexParallelArrays", error.to_string()),
    }
}
