//! From a command document to its handler: the checks every command shares, a table lookup, the reply.

use crate::answer::Answer;
use crate::arguments::{self, Arguments};
use crate::commands::{Command, Running};
use crate::connection::Peer;
use crate::cursors::{Batch, Batches};
use crate::deadline::Deadline;
use crate::error::{AnswerResult, CommandError};
use crate::memory::UNCOUNTED_BYTES;
use crate::operations::Operation;
use crate::server::ServerState;
use crate::wire::Sequence;
use arras_documents::order::type_name;
use arras_service::interrupt::Reason;
use arras_service::store::{Namespace, Store};
use bson::{Bson, DateTime, Document};
use std::sync::atomic::Ordering;

/// Longest database name, in bytes.
const DATABASE_NAME_BYTES_MAX: usize = 63;
/// Longest `database.collection`, in bytes.
const NAMESPACE_BYTES_MAX: usize = 255;

/// What a handler may use.
pub(crate) struct Context<'a, S: Store> {
    pub(crate) server: &'a ServerState<S>,
    pub(crate) peer: &'a Peer,
    /// Database the command is addressed to.
    pub(crate) database: &'a str,
    pub(crate) deadline: Deadline,
    /// What `$$NOW` stands for, wherever it is in the command.
    pub(crate) now: DateTime,
    /// The command as one of the operations under way.
    pub(crate) operation: &'a Operation<'a>,
}

impl<S: Store> Context<'_, S> {
    /// The store.
    pub(crate) fn store(&self) -> &S {
        &self.server.store
    }

    /// Fails if the command is to end: past its deadline, or asked to. For writes, between two statements.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        self.deadline.check()?;
        Ok(self.operation.interrupt().check()?)
    }

    /// The next batch of a result, as large as there is room for.
    pub(crate) async fn next_batch(
        &self,
        batches: &mut Batches<S::Cursor>,
        documents_max: Option<usize>,
        deadline: Deadline,
    ) -> Result<Batch, CommandError> {
        let memory = &self.server.memory;
        let mut batch = deadline.read(batches.next(documents_max, UNCOUNTED_BYTES)).await?;
        let enough = documents_max.is_some_and(|most| batch.documents.len() >= most);
        if batch.last || enough {
            self.operation.hold(memory.reply(batch.bytes).await?);
            return Ok(batch);
        }
        // There is more of it: the room is taken before anything is there to fill it, so that many who ask at once do
        // not each fill what only some of them can have.
        let (bytes_max, mut share) = memory.batch();
        deadline.read(batches.fill(&mut batch, documents_max, bytes_max)).await?;
        match &mut share {
            Some(share) => share.shrink(batch.bytes),
            None => share = memory.reply(batch.bytes).await?,
        }
        self.operation.hold(share);
        Ok(batch)
    }

    /// Takes the collection the command names in its first field.
    pub(crate) fn namespace(&self, arguments: &mut Arguments) -> Result<Namespace, CommandError> {
        match arguments.take(arguments.command()) {
            Some(Bson::String(collection)) => namespace(self.database, collection),
            Some(other) => Err(CommandError::invalid_namespace(format!(
                "collection name has invalid type {}",
                type_name(&other)
            ))),
            None => Err(arguments.missing(arguments.command())),
        }
    }
}

/// A namespace, if its names are ones MongoDB allows.
pub(crate) fn namespace(database: &str, collection: String) -> Result<Namespace, CommandError> {
    let bytes = database.len() + 1 + collection.len();
    let refused = collection.is_empty()
        || collection.contains(['$', '\0'])
        || collection.starts_with(['.'])
        || bytes > NAMESPACE_BYTES_MAX;
    if refused {
        return Err(CommandError::invalid_namespace(format!(
            "Invalid namespace specified '{database}.{collection}'"
        )));
    }
    if collection.starts_with("system.") {
        return Err(CommandError::invalid_namespace(format!(
            "'{database}.{collection}': Arras has no system collections"
        )));
    }
    Ok(Namespace { database: database.to_owned(), collection })
}

/// Runs a command that came as `OP_MSG` and returns the reply.
pub(crate) async fn run<S: Store>(
    server: &ServerState<S>,
    peer: &Peer,
    operation: &Operation<'_>,
    command: Document,
    sequences: Vec<Sequence>,
) -> Answer {
    let outcome = match command.get("$db") {
        Some(Bson::String(database)) => {
            let database = database.clone();
            let caller = Caller { server, peer, database: &database, operation };
            execute(caller, command, sequences).await
        }
        Some(_) => Err(CommandError::type_mismatch("$db must be a string")),
        None => Err(CommandError::new(40571, "Location40571", "OP_MSG requests require a $db argument")),
    };
    reply(server, outcome)
}

/// Runs a command that came as `OP_QUERY`: only the legacy hello may.
pub(crate) async fn run_legacy<S: Store>(
    server: &ServerState<S>,
    peer: &Peer,
    operation: &Operation<'_>,
    database: &str,
    mut command: Document,
) -> Answer {
    // Old drivers wrap the command to attach a read preference.
    if let Some(Bson::Document(inner)) = command.remove("$query").or_else(|| command.remove("query")) {
        command = inner;
    }
    let name = command.keys().next().cloned().unwrap_or_default();
    let outcome = if matches!(name.as_str(), "hello" | "isMaster" | "ismaster") {
        execute(Caller { server, peer, database, operation }, command, Vec::new()).await
    } else {
        let text = format!("Unsupported OP_QUERY command: {name}. The client driver may require an upgrade.");
        Err(CommandError::new(352, "UnsupportedOpQueryCommand", text))
    };
    reply(server, outcome)
}

fn reply<S: Store>(server: &ServerState<S>, outcome: AnswerResult) -> Answer {
    server.counters.commands.fetch_add(1, Ordering::Relaxed);
    match outcome {
        Ok(Answer::Document(mut document)) => {
            document.insert("ok", 1.0);
            Answer::Document(document)
        }
        // It says so by itself.
        Ok(Answer::Batch(batch)) => Answer::Batch(batch),
        Err(error) => {
            server.counters.commands_failed.fetch_add(1, Ordering::Relaxed);
            Answer::Document(error.to_reply())
        }
    }
}

/// Where a command comes from and what it is addressed to.
struct Caller<'a, S: Store> {
    server: &'a ServerState<S>,
    peer: &'a Peer,
    database: &'a str,
    operation: &'a Operation<'a>,
}

async fn execute<S: Store>(
    caller: Caller<'_, S>,
    fields: Document,
    sequences: Vec<Sequence>,
) -> AnswerResult {
    let Caller { server, peer, database, operation } = caller;
    let name = fields.keys().next().map(String::as_str).unwrap_or_default();
    let (name, command) = server
        .registry
        .find(name)
        .ok_or_else(|| CommandError::new(59, "CommandNotFound", format!("no such command: '{name}'")))?;
    check_database(name, command, database)?;
    check_api(name, command, &fields)?;
    check_transaction(&fields)?;
    check_read_concern(&fields)?;
    check_write_concern(&fields)?;
    let deadline = if name == "getMore" {
        // There it is for tailable cursors alone; a cursor's time is what the command that opened it left.
        if arguments::time_limit(&fields)?.is_some() {
            let text = "cannot set maxTimeMS on getMore command for a non-awaitData cursor";
            return Err(CommandError::bad_value(text));
        }
        Deadline::within(None)
    } else {
        Deadline::within(arguments::time_limit(&fields)?)
    };
    operation.describe(name, described(name, database, &fields));
    let context = Context { server, peer, database, deadline, now: DateTime::now(), operation };
    let running = (command.run)(&context, Arguments::new(name, fields, sequences));
    if command.abandonable {
        operation.is_waited_for();
        tokio::select! {
            outcome = running => outcome,
            reason = operation.interrupted() => Err(reason.error().into()),
        }
    } else {
        run_whole(running, deadline, operation).await
    }
}

/// Runs a command that is not to be abandoned half way: past its deadline it is asked to end where it can.
async fn run_whole(mut running: Running<'_>, deadline: Deadline, operation: &Operation<'_>) -> AnswerResult {
    tokio::select! {
        outcome = &mut running => return outcome,
        () = deadline.passed() => operation.raise(Reason::Expired),
    }
    running.await
}

/// The namespace an operation is listed under.
fn described(command: &str, database: &str, fields: &Document) -> String {
    let named = if command == "getMore" { "collection" } else { command };
    match fields.get(named) {
        Some(Bson::String(collection)) => format!("{database}.{collection}"),
        _ => format!("{database}.$cmd"),
    }
}

fn check_database<S: Store>(name: &str, command: &Command<S>, database: &str) -> Result<(), CommandError> {
    let invalid = database.is_empty()
        || database.len() > DATABASE_NAME_BYTES_MAX
        || database.contains(['.', '$', '/', '\\', ' ', '"', '\0']);
    if invalid {
        return Err(CommandError::invalid_namespace(format!("Invalid database name: '{database}'")));
    }
    if command.admin_only && database != "admin" {
        let text = format!("{name} may only be run against the admin database.");
        return Err(CommandError::new(13, "Unauthorized", text));
    }
    Ok(())
}

fn check_api<S: Store>(name: &str, command: &Command<S>, fields: &Document) -> Result<(), CommandError> {
    let strict = fields.get_bool("apiStrict").unwrap_or(false);
    match fields.get("apiVersion") {
        None if fields.contains_key("apiStrict") || fields.contains_key("apiDeprecationErrors") => {
            let text = "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
            Err(CommandError::new(322, "APIVersionError", text))
        }
        Some(Bson::String(version)) if version == "1" => {
            if strict && !command.versioned {
                let text = format!("Provided apiStrict:true, but the command {name} is not in API Version 1");
                return Err(CommandError::new(323, "APIStrictError", text));
            }
            Ok(())
        }
        Some(_) => Err(CommandError::new(322, "APIVersionError", "API version must be \"1\"")),
        None => Ok(()),
    }
}

fn check_transaction(fields: &Document) -> Result<(), CommandError> {
    if fields.contains_key("txnNumber") {
        let text = "Transaction numbers are only allowed on a replica set member or mongos";
        return Err(CommandError::new(20, "IllegalOperation", text));
    }
    if fields.contains_key("startTransaction") || fields.contains_key("autocommit") {
        let text = "'startTransaction' and 'autocommit' require a transaction number";
        return Err(CommandError::new(72, "InvalidOptions", text));
    }
    Ok(())
}

/// One proxy in front of one server reads what was acknowledged: `local`, `available` and `majority` are the
/// same. The levels that promise more are refused.
fn check_read_concern(fields: &Document) -> Result<(), CommandError> {
    let concern = match fields.get("readConcern") {
        None => return Ok(()),
        Some(Bson::Document(concern)) => concern,
        Some(_) => return Err(CommandError::type_mismatch("readConcern must be an object")),
    };
    for (name, value) in concern {
        match (name.as_str(), value) {
            ("level", Bson::String(level))
                if matches!(level.as_str(), "local" | "available" | "majority") => {}
            ("provenance", _) => {}
            _ => {
                let text =
                    format!("node needs to be a replica set member to use read concern {name}: {value}");
                return Err(CommandError::new(123, "NotAReplicaSet", text));
            }
        }
    }
    Ok(())
}

fn check_write_concern(fields: &Document) -> Result<(), CommandError> {
    let concern = match fields.get("writeConcern") {
        None => return Ok(()),
        Some(Bson::Document(concern)) => concern,
        Some(_) => return Err(CommandError::type_mismatch("writeConcern must be an object")),
    };
    match concern.get("w") {
        None => Ok(()),
        Some(Bson::String(mode)) if mode == "majority" => Ok(()),
        Some(value) if matches!(arguments::whole_number(value), Some(0 | 1)) => Ok(()),
        Some(_) => Err(CommandError::bad_value("cannot use 'w' > 1 or a tag when a host is not replicated")),
    }
}
