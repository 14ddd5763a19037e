//! The commands: one table, one file a command or family.

mod aggregate;
mod collections;
mod count;
mod databases;
mod delete;
mod distinct;
mod explain;
mod find;
mod find_and_modify;
mod get_more;
mod handshake;
mod indexes;
mod insert;
mod operations;
mod reads;
mod sessions;
mod statistics;
mod status;
mod update;
mod writes;

use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::CommandResult;
use arras_planner::store::Store;
use bson::{Document, doc};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

/// What a handler returns until it is done.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = CommandResult> + Send + 'a>>;
/// A handler: takes a command's fields, answers with its reply but for `ok`.
type Handler<S> = for<'a> fn(&'a Context<'a, S>, Arguments) -> Running<'a>;

/// One row of the table.
pub(crate) struct Command<S: Store> {
    /// Its names: the one documented first, then those older drivers use.
    names: &'static [&'static str],
    /// Only on the database `admin`.
    pub(crate) admin_only: bool,
    /// Part of MongoDB's Stable API, version 1.
    pub(crate) versioned: bool,
    /// Only reads: it may be given up at any moment.
    pub(crate) abandonable: bool,
    /// What it does.
    pub(crate) run: Handler<S>,
}

impl<S: Store> Command<S> {
    const fn new(names: &'static [&'static str], run: Handler<S>) -> Self {
        Self { names, admin_only: false, versioned: false, abandonable: false, run }
    }

    const fn versioned(mut self) -> Self {
        self.versioned = true;
        self
    }

    const fn abandonable(mut self) -> Self {
        self.abandonable = true;
        self
    }

    const fn admin_only(mut self) -> Self {
        self.admin_only = true;
        self
    }
}

/// The table.
fn table<S: Store>() -> Vec<Command<S>> {
    vec![
        Command::new(&["aggregate"], |c, a| Box::pin(aggregate::run(c, a))).versioned().abandonable(),
        Command::new(&["buildInfo", "buildinfo"], |c, a| Box::pin(status::build_info(c, a))),
        Command::new(&["collStats", "collstats"], |c, a| Box::pin(statistics::collection(c, a))),
        Command::new(&["connectionStatus"], |c, a| Box::pin(status::connection_status(c, a))),
        Command::new(&["count"], |c, a| Box::pin(count::run(c, a))).versioned().abandonable(),
        Command::new(&["create"], |c, a| Box::pin(collections::create(c, a))).versioned(),
        Command::new(&["createIndexes"], |c, a| Box::pin(indexes::create(c, a))).versioned(),
        Command::new(&["currentOp"], |c, a| Box::pin(operations::current(c, a))).admin_only(),
        Command::new(&["dbStats", "dbstats"], |c, a| Box::pin(statistics::database(c, a))),
        Command::new(&["delete"], |c, a| Box::pin(delete::run(c, a))).versioned(),
        Command::new(&["distinct"], |c, a| Box::pin(distinct::run(c, a))).abandonable(),
        Command::new(&["drop"], |c, a| Box::pin(collections::drop(c, a))).versioned(),
        Command::new(&["dropDatabase"], |c, a| Box::pin(databases::drop(c, a))).versioned(),
        Command::new(&["dropIndexes", "deleteIndexes"], |c, a| Box::pin(indexes::drop(c, a))).versioned(),
        Command::new(&["endSessions"], |c, a| Box::pin(sessions::end(c, a))).versioned(),
        Command::new(&["explain"], |c, a| Box::pin(explain::run(c, a))).versioned().abandonable(),
        Command::new(&["find"], |c, a| Box::pin(find::run(c, a))).versioned().abandonable(),
        Command::new(&["findAndModify", "findandmodify"], |c, a| Box::pin(find_and_modify::run(c, a)))
            .versioned(),
        Command::new(&["getCmdLineOpts"], |c, a| Box::pin(status::command_line(c, a))).admin_only(),
        Command::new(&["getLog"], |c, a| Box::pin(status::log(c, a))).admin_only(),
        Command::new(&["getMore"], |c, a| Box::pin(get_more::run(c, a))).versioned().abandonable(),
        Command::new(&["getParameter"], |c, a| Box::pin(status::parameter(c, a))).admin_only(),
        Command::new(&["hello", "isMaster", "ismaster"], |c, a| Box::pin(handshake::hello(c, a))).versioned(),
        Command::new(&["hostInfo", "hostinfo"], |c, a| Box::pin(status::host_info(c, a))),
        Command::new(&["insert"], |c, a| Box::pin(insert::run(c, a))).versioned(),
        Command::new(&["killCursors"], |c, a| Box::pin(get_more::kill(c, a))).versioned(),
        Command::new(&["killOp"], |c, a| Box::pin(operations::kill(c, a))).admin_only(),
        Command::new(&["killSessions"], |c, a| Box::pin(sessions::kill(c, a))),
        Command::new(&["listCollections"], |c, a| Box::pin(collections::list(c, a))).versioned(),
        Command::new(&["listCommands"], |c, a| Box::pin(list(c, a))),
        Command::new(&["listDatabases"], |c, a| Box::pin(databases::list(c, a))).versioned().admin_only(),
        Command::new(&["listIndexes"], |c, a| Box::pin(indexes::list(c, a))).versioned(),
        Command::new(&["logout"], |c, a| Box::pin(sessions::logout(c, a))),
        Command::new(&["ping"], |c, a| Box::pin(handshake::ping(c, a))).versioned(),
        Command::new(&["refreshSessions"], |c, a| Box::pin(sessions::refresh(c, a))),
        Command::new(&["saslStart", "saslContinue", "authenticate"], |c, a| {
            Box::pin(sessions::sign_in(c, a))
        }),
        Command::new(&["serverStatus"], |c, a| Box::pin(status::server_status(c, a))),
        Command::new(&["startSession"], |c, a| Box::pin(sessions::start(c, a))),
        Command::new(&["update"], |c, a| Box::pin(update::run(c, a))).versioned(),
        Command::new(&["whatsmyuri"], |c, a| Box::pin(status::whats_my_uri(c, a))),
    ]
}

/// The table, by name.
pub(crate) struct Registry<S: Store> {
    commands: Vec<Command<S>>,
    positions: HashMap<&'static str, usize>,
}

/// Builds the registry.
pub(crate) fn registry<S: Store>() -> Registry<S> {
    let commands = table();
    let positions = commands
        .iter()
        .enumerate()
        .flat_map(|(position, command)| command.names.iter().map(move |name| (*name, position)))
        .collect();
    Registry { commands, positions }
}

impl<S: Store> Registry<S> {
    /// The command of that name, and the name itself.
    pub(crate) fn find(&self, name: &str) -> Option<(&'static str, &Command<S>)> {
        let (name, position) = self.positions.get_key_value(name)?;
        self.commands.get(*position).map(|command| (*name, command))
    }
}

/// `listCommands`.
async fn list<S: Store>(context: &Context<'_, S>, _arguments: Arguments) -> CommandResult {
    let row = |command: &Command<S>| {
        let mut names = command.names.iter().map(|name| (*name).to_owned());
        let name = names.next().unwrap_or_default();
        let about = doc! {
            "help": "",
            "requiresAuth": false,
            "adminOnly": command.admin_only,
            "apiVersions": if command.versioned { vec!["1"] } else { vec![] },
            "aliases": names.collect::<Vec<_>>(),
        };
        (name, about)
    };
    let mut commands = Document::new();
    for (name, about) in context.server.registry.commands.iter().map(row) {
        commands.insert(name, about);
    }
    Ok(doc! { "commands": commands })
}
