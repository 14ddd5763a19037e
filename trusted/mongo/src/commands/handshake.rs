//! `hello` (and its old names) and `ping`.

use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::CommandResult;
use crate::wire::{DOCUMENT_BYTES_MAX, MESSAGE_BYTES_MAX, WRITE_BATCH_MAX};
use arras_service::store::Store;
use bson::{DateTime, doc};

/// The wire version of MongoDB 7.0, whose behaviour this server follows.
const WIRE_VERSION_MAX: i32 = 21;
/// Minutes a logical session lives unused; drivers refresh sooner.
pub(crate) const SESSION_MINUTES: i32 = 30;

/// Describes the server as a standalone one. There is no `topologyVersion`, so drivers poll and never ask for
/// a streamed answer.
pub(crate) async fn hello<S: Store>(context: &Context<'_, S>, arguments: Arguments) -> CommandResult {
    let writable = if arguments.command() == "hello" { "isWritablePrimary" } else { "ismaster" };
    Ok(doc! {
        "helloOk": true,
        writable: true,
        "maxBsonObjectSize": as_int32(DOCUMENT_BYTES_MAX),
        "maxMessageSizeBytes": as_int32(MESSAGE_BYTES_MAX),
        "maxWriteBatchSize": as_int32(WRITE_BATCH_MAX),
        "localTime": DateTime::now(),
        "logicalSessionTimeoutMinutes": SESSION_MINUTES,
        "connectionId": i32::try_from(context.peer.number).unwrap_or(i32::MAX),
        "minWireVersion": 0,
        "maxWireVersion": WIRE_VERSION_MAX,
        "readOnly": false,
    })
}

/// Does nothing.
pub(crate) async fn ping<S: Store>(_context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    Ok(doc! {})
}

fn as_int32(limit: usize) -> i32 {
    i32::try_from(limit).unwrap_or(i32::MAX)
}
