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

use crate::answer::Answer;
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::{AnswerResult, CommandResult};
use arras_service::store::Store;
use bson::{Document, doc};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

/// What a handler returns until it is done.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = AnswerResult> + Send + 'a>>;
/// A handler: takes a command's fields, answers with its reply but for `ok`.
type Handler<S> = for<'a> fn(&'a Context<'a, S>, Arguments) -> Running<'a>;

/// Runs a command whose reply is no batch of documents.
fn plain<'a>(running: impl Future<Output = CommandResult> + Send + 'a) -> Running<'a> {
    Box::pin(async { running.await.map(Answer::Document) })
}

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
        Command::new(&["buildInfo", "buildinfo"], |c, a| plain(status::build_info(c, a))),
        Command::new(&["collStats", "collstats"], |c, a| plain(statistics::collection(c, a))),
        Command::new(&["connectionStatus"], |c, a| plain(status::connection_status(c, a))),
        Command::new(&["count"], |c, a| plain(count::run(c, a))).versioned().abandonable(),
        Command::new(&["create"], |c, a| plain(collections::create(c, a))).versioned(),
        Command::new(&["createIndexes"], |c, a| plain(indexes::create(c, a))).versioned(),
        Command::new(&["currentOp"], |c, a| plain(operations::current(c, a))).admin_only(),
        Command::new(&["dbStats", "dbstats"], |c, a| plain(statistics::database(c, a))),
        Command::new(&["delete"], |c, a| plain(delete::run(c, a))).versioned(),
        Command::new(&["distinct"], |c, a| plain(distinct::run(c, a))).abandonable(),
        Command::new(&["drop"], |c, a| plain(collections::drop(c, a))).versioned(),
        Command::new(&["dropDatabase"], |c, a| plain(databases::drop(c, a))).versioned(),
        Command::new(&["dropIndexes", "deleteIndexes"], |c, a| plain(indexes::drop(c, a))).versioned(),
        Command::new(&["endSessions"], |c, a| plain(sessions::end(c, a))).versioned(),
        Command::new(&["explain"], |c, a| plain(explain::run(c, a))).versioned().abandonable(),
        Command::new(&["find"], |c, a| Box::pin(find::run(c, a))).versioned().abandonable(),
        Command::new(&["findAndModify", "findandmodify"], |c, a| plain(find_and_modify::run(c, a)))
            .versioned(),
        Command::new(&["getCmdLineOpts"], |c, a| plain(status::command_line(c, a))).admin_only(),
        Command::new(&["getLog"], |c, a| plain(status::log(c, a))).admin_only(),
        Command::new(&["getMore"], |c, a| Box::pin(get_more::run(c, a))).versioned().abandonable(),
        Command::new(&["getParameter"], |c, a| plain(status::parameter(c, a))).admin_only(),
        Command::new(&["hello", "isMaster", "ismaster"], |c, a| plain(handshake::hello(c, a))).versioned(),
        Command::new(&["hostInfo", "hostinfo"], |c, a| plain(status::host_info(c, a))),
        Command::new(&["insert"], |c, a| plain(insert::run(c, a))).versioned(),
        Command::new(&["killCursors"], |c, a| plain(get_more::kill(c, a))).versioned(),
        Command::new(&["killOp"], |c, a| plain(operations::kill(c, a))).admin_only(),
        Command::new(&["killSessions"], |c, a| plain(sessions::kill(c, a))),
        Command::new(&["listCollections"], |c, a| Box::pin(collections::list(c, a))).versioned(),
        Command::new(&["listCommands"], |c, a| plain(list(c, a))),
        Command::new(&["listDatabases"], |c, a| plain(databases::list(c, a))).versioned().admin_only(),
        Command::new(&["listIndexes"], |c, a| Box::pin(indexes::list(c, a))).versioned(),
        Command::new(&["logout"], |c, a| plain(sessions::logout(c, a))),
        Command::new(&["ping"], |c, a| plain(handshake::ping(c, a))).versioned(),
        Command::new(&["refreshSessions"], |c, a| plain(sessions::refresh(c, a))),
        Command::new(&["saslStart", "saslContinue", "authenticate"], |c, a| plain(sessions::sign_in(c, a))),
        Command::new(&["serverStatus"], |c, a| plain(status::server_status(c, a))),
        Command::new(&["startSession"], |c, a| plain(sessions::start(c, a))),
        Command::new(&["update"], |c, a| plain(update::run(c, a))).versioned(),
        Command::new(&["whatsmyuri"], |c, a| plain(status::whats_my_uri(c, a))),
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
