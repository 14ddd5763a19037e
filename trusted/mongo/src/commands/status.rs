//! What a server says about itself.

use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_documents::order::type_name;
use arras_service::store::Store;
use bson::{Bson, DateTime, Document, doc};
use std::sync::atomic::{AtomicU64, Ordering};

/// The MongoDB release whose behaviour this server follows.
const VERSION: &str = "7.0.0";
/// Its series, as drivers and shells ask for it.
const COMPATIBILITY_VERSION: &str = "7.0";

/// `buildInfo`.
pub(crate) async fn build_info<S: Store>(_context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    Ok(doc! {
        "version": VERSION,
        "versionArray": [7, 0, 0, 0],
        "gitVersion": "",
        "modules": [],
        "allocator": "system",
        "javascriptEngine": "none",
        "bits": i32::try_from(usize::BITS).unwrap_or(64),
        "debug": cfg!(debug_assertions),
        "maxBsonObjectSize": 16_777_216,
        "storageEngines": ["arras"],
        "arras": { "version": env!("CARGO_PKG_VERSION") },
    })
}

/// `connectionStatus`: nobody is authenticated.
pub(crate) async fn connection_status<S: Store>(
    _context: &Context<'_, S>,
    mut arguments: Arguments,
) -> CommandResult {
    let privileges = arguments.boolean("showPrivileges")?.unwrap_or(false);
    let mut info = doc! { "authenticatedUsers": [], "authenticatedUserRoles": [] };
    if privileges {
        info.insert("authenticatedUserPrivileges", Vec::<Bson>::new());
    }
    Ok(doc! { "authInfo": info })
}

/// `whatsmyuri`.
pub(crate) async fn whats_my_uri<S: Store>(context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    Ok(doc! { "you": context.peer.address.to_string() })
}

/// `getCmdLineOpts`: the proxy's own options are not a client's business.
pub(crate) async fn command_line<S: Store>(
    _context: &Context<'_, S>,
    _arguments: Arguments,
) -> CommandResult {
    Ok(doc! { "argv": ["arras"], "parsed": {} })
}

/// `getLog`: logs are not served to clients; the ones MongoDB has exist and are empty.
pub(crate) async fn log<S: Store>(_context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    match arguments.take("getLog") {
        Some(Bson::String(name)) if name == "*" => Ok(doc! { "names": ["global", "startupWarnings"] }),
        Some(Bson::String(name)) if name == "global" || name == "startupWarnings" => {
            Ok(doc! { "totalLinesWritten": 0, "log": [] })
        }
        Some(Bson::String(name)) => {
            Err(CommandError::new(96, "OperationFailed", format!("No log named '{name}'")))
        }
        other => Err(CommandError::type_mismatch(format!(
            "Argument to getLog must be of type String; found {}",
            type_name(&other.unwrap_or(Bson::Null))
        ))),
    }
}

/// `getParameter`: the ones shells and drivers ask for.
pub(crate) async fn parameter<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    let all = matches!(arguments.take("getParameter"), Some(Bson::String(name)) if name == "*");
    let known = doc! {
        "authenticationMechanisms": [],
        "cursorTimeoutMillis": i64::try_from(context.server.options.cursor_idle.as_millis()).unwrap_or(i64::MAX),
        "featureCompatibilityVersion": { "version": COMPATIBILITY_VERSION },
        "localLogicalSessionTimeoutMinutes": super::handshake::SESSION_MINUTES,
    };
    let mut reply = Document::new();
    for (name, value) in known {
        if arguments.take(&name).is_some() || all {
            reply.insert(name, value);
        }
    }
    if reply.is_empty() {
        return Err(CommandError::new(72, "InvalidOptions", "no option found to get"));
    }
    Ok(reply)
}

/// `hostInfo`.
pub(crate) async fn host_info<S: Store>(_context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(doc! {
        "system": {
            "currentTime": DateTime::now(),
            "cpuAddrSize": i32::try_from(usize::BITS).unwrap_or(64),
            "numCores": i32::try_from(cores).unwrap_or(i32::MAX),
            "cpuArch": std::env::consts::ARCH,
        },
        "os": { "type": std::env::consts::OS },
        "extra": {},
    })
}

/// `serverStatus`.
pub(crate) async fn server_status<S: Store>(
    context: &Context<'_, S>,
    _arguments: Arguments,
) -> CommandResult {
    let server = context.server;
    let uptime = server.started.elapsed();
    let open = count(&server.counters.connections_open);
    let limit = i64::try_from(server.options.connections_max).unwrap_or(i64::MAX);
    Ok(doc! {
        "version": VERSION,
        "process": "arras",
        "pid": i64::from(std::process::id()),
        "uptime": uptime.as_secs_f64().floor(),
        "uptimeMillis": i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX),
        "localTime": DateTime::now(),
        "connections": {
            "current": open,
            "available": limit.saturating_sub(open),
            "totalCreated": count(&server.counters.connections_made),
        },
        "metrics": {
            "commands": {
                "total": count(&server.counters.commands),
                "failed": count(&server.counters.commands_failed),
            },
            "cursor": { "open": { "total": i64::try_from(server.cursors.count()).unwrap_or(i64::MAX) } },
        },
        "storageEngine": { "name": "arras" },
    })
}

fn count(counter: &AtomicU64) -> i64 {
    i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
}
