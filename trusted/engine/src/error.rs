//! Failures, by whose doing they are.

use super::intents::WriteError;
use super::local::LocalError;
use crate::history::Halt;
use arras_planner::schema::Misfit;
use arras_planner::terms::TooManyTerms;
use arras_protocol::{ChannelError, Refusal};
use arras_schemes::OpenFailed;
use arras_schemes::error::IndexError;
use arras_service::store::Namespace;
use arras_service::{Fault, ServiceError};
use bson::{Bson, doc};

/// An error without details.
pub(super) fn of(fault: Fault, message: impl Into<String>) -> ServiceError {
    ServiceError::new(fault, message)
}

/// A reply that no server of this protocol gives.
pub(super) fn not_of_protocol() -> ServiceError {
    of(Fault::Peer, "the server's reply is not of the protocol")
}

/// An answer that is not of what was written: documents or entries repeated, withheld, or not asked for.
pub(super) fn lying(ns: &Namespace, what: &str) -> ServiceError {
    let Namespace { database, collection } = ns;
    let message =
        format!("the server's answer about {database}.{collection} is not of what was written: {what}");
    of(Fault::Corruption, message)
}

/// A statement's collection was dropped under it.
pub(super) fn dropped(ns: &Namespace) -> ServiceError {
    let Namespace { database, collection } = ns;
    of(Fault::Dropped, format!("collection dropped: {database}.{collection}"))
}

/// An index went while a statement read it.
pub(super) fn index_dropped(ns: &Namespace) -> ServiceError {
    let Namespace { database, collection } = ns;
    of(Fault::Dropped, format!("an index of {database}.{collection} was dropped while it was read"))
}

/// A document that is not what the schema declares.
pub(super) fn misfit(misfit: &Misfit, id: &Bson) -> ServiceError {
    let info = doc! { "failingDocumentId": id.clone(), "details": misfit.details() };
    ServiceError {
        details: Some(Box::new(doc! { "errInfo": info })),
        ..of(Fault::Validation, format!("Document failed validation: {misfit}"))
    }
}

fn in_doubt(message: String) -> ServiceError {
    of(Fault::InDoubt, message)
}

/// A failure to read what a write needs to know, before it is recorded: what becomes of the write is known.
pub(super) fn not_recorded(mut error: ServiceError) -> ServiceError {
    if matches!(error.fault, Fault::Unreachable | Fault::TimedOut) {
        error.message.push_str("; this part of the write was not recorded, and will not be applied");
    }
    error
}

/// A failure to make the collection that a write needs: the collection will be there, the write's own documents not.
pub(super) fn only_prepared(error: ServiceError) -> ServiceError {
    if error.fault != Fault::InDoubt {
        return not_recorded(error);
    }
    let message = "the server cannot be reached while the collection is made";
    not_recorded(of(Fault::Unreachable, message))
}

/// A failure of inserts that were sent without asking whether their `_id`s are taken.
pub(super) fn unless_taken(mut error: ServiceError) -> ServiceError {
    if error.fault == Fault::InDoubt {
        error.message.push_str("; it will be refused then if a document with its `_id` exists");
    }
    error
}

/// A failure to settle what is in doubt, for one whose own write is recorded to follow it.
pub(super) fn recorded(error: ServiceError) -> ServiceError {
    if error.fault != Fault::Unreachable {
        return error;
    }
    in_doubt("the server cannot be reached; the change is recorded in the proxy and will be completed".into())
}

/// This proxy must not go on. Drivers try one that is no longer the primary again elsewhere, or at its successor.
pub(super) fn halted(halt: Halt) -> ServiceError {
    match halt {
        Halt::Fenced => of(Fault::Fenced, halt.to_string()),
        Halt::OtherDatabase | Halt::ProxyBehind | Halt::ServerBehind => of(Fault::Halted, halt.to_string()),
    }
}

pub(super) fn channel(error: ChannelError) -> ServiceError {
    match &error {
        ChannelError::Refused(Refusal::Fenced) => halted(Halt::Fenced),
        ChannelError::Refused(Refusal::SetBack) => halted(Halt::ServerBehind),
        ChannelError::Halted(why) => of(Fault::Halted, why.clone()),
        ChannelError::Lost(_) | ChannelError::Refused(Refusal::Stopping) => {
            of(Fault::Unreachable, error.to_string())
        }
        ChannelError::Refused(Refusal::Full(_)) => of(Fault::DiskFull, error.to_string()),
        ChannelError::Deadline(_) => of(Fault::TimedOut, error.to_string()),
        ChannelError::TooLarge { .. } => of(Fault::TooLarge, error.to_string()),
        ChannelError::Refused(_) | ChannelError::Malformed(_) => of(Fault::Peer, error.to_string()),
    }
}

pub(super) fn index(error: IndexError) -> ServiceError {
    match error {
        IndexError::Channel(error) => channel(error),
        IndexError::Open(_) | IndexError::Peer(_) => of(Fault::Peer, error.to_string()),
        IndexError::Contradicted(_) => of(Fault::Corruption, error.to_string()),
        IndexError::Caller(_) => of(Fault::Internal, error.to_string()),
        IndexError::State(_) => of(Fault::ProxyStore, error.to_string()),
    }
}

/// The same of what an index answered about values of a collection.
pub(super) fn answer(ns: &Namespace, error: IndexError) -> ServiceError {
    match error {
        IndexError::Contradicted(what) => lying(ns, what),
        error => index(error),
    }
}

pub(super) fn open(error: OpenFailed) -> ServiceError {
    of(Fault::Peer, error.to_string())
}

pub(super) fn local(error: LocalError) -> ServiceError {
    of(Fault::ProxyStore, error.to_string())
}

pub(super) fn write(error: WriteError) -> ServiceError {
    match error {
        WriteError::InDoubt(_) | WriteError::Undecided(_) | WriteError::HaltedInDoubt(_) => {
            in_doubt(error.to_string())
        }
        // Nothing was applied: a driver may send it again.
        WriteError::Unsettled(_) => of(Fault::Unreachable, error.to_string()),
        WriteError::NotSent(error) => channel(error),
        WriteError::Refused(refusal) => channel(ChannelError::Refused(refusal)),
        WriteError::Halted { halt, .. } => {
            let fault = halt.map_or(Fault::Halted, |halt| halted(halt).fault);
            of(fault, error.to_string())
        }
        WriteError::TooLarge(_) => of(Fault::TooLarge, error.to_string()),
        WriteError::Repeated | WriteError::Local(_) => of(Fault::ProxyStore, error.to_string()),
    }
}

pub(super) fn too_many_entries(error: &TooManyTerms) -> ServiceError {
    match error {
        TooManyTerms::Values { .. } | TooManyTerms::Combinations { .. } => {
            of(Fault::BadValue, error.to_string())
        }
        TooManyTerms::ParallelArrays { .. } => of(Fault::ParallelArrays, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_refuses_is_not_the_proxy_s_store_s_fault() {
        let halt = |halt| WriteError::Halted { halt, why: "stopped".into() };
        for (error, expected) in [
            (halt(Some(Halt::Fenced)), Fault::Fenced),
            (halt(Some(Halt::ServerBehind)), Fault::Halted),
            (halt(None), Fault::Halted),
            (WriteError::Refused(Refusal::Full("no space left".into())), Fault::DiskFull),
            (WriteError::Refused(Refusal::Storage("broken".into())), Fault::Peer),
            (WriteError::Refused(Refusal::Fenced), Fault::Fenced),
            (WriteError::Repeated, Fault::ProxyStore),
        ] {
            let told = error.to_string();
            assert_eq!(write(error).fault, expected, "{told}");
        }
    }
}
