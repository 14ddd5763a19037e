//! PostgreSQL's drivers and mappers: each session in `lab/drivers/postgres` runs on a database in plaintext and through
//! `arras proxy`, with the columns encrypted that its `schema.toml` declares, and every step must give the same reply.
//!
//! The contract with a session is that of the other drivers.

use super::drivers::{compare, each, environment, modules, once, require, session};
use super::process::Server;
use super::{Context, Outcome, cargo, process};
use serde_json::Value;
use std::process::Command;

/// A session: its folder in `lab/drivers/postgres`, and how it is run.
struct Script {
    name: &'static str,
    prepare: fn(&Context, &str) -> Result<Command, String>,
}

const SCRIPTS: [Script; 5] = [
    Script { name: "psycopg", prepare: python },
    Script { name: "sqlalchemy", prepare: python },
    Script { name: "django", prepare: python },
    Script { name: "node", prepare: node },
    Script { name: "jdbc", prepare: java },
];

/// Runs every session on both sides, each on a server and a proxy of its own.
pub(super) fn run(context: &Context) -> Result<Outcome, String> {
    require(cargo::build(context)?, "the binaries do not build")?;
    Ok(each(SCRIPTS.iter().map(|script| (script.name, run_script(context, script)))))
}

fn run_script(context: &Context, script: &Script) -> Result<Outcome, String> {
    let mut stage = Command::new(context.root.join("target/debug/postgres_stage"));
    stage.arg(context.root.join("lab/drivers/postgres").join(script.name).join("schema.toml"));
    let log = context.log(&format!("postgres-{}", script.name));
    let server = Server::start(&mut stage, "ready: ", &log)?;
    let urls: Value = serde_json::from_str(&server.address).map_err(|error| format!("the stage: {error}"))?;
    let replies = |side: &str| {
        let mut command = (script.prepare)(context, script.name)?;
        command.arg(urls[side].as_str().unwrap_or_default());
        if side == "arras" {
            command.arg("--extra");
        }
        session(context, &format!("{}-{side}", script.name), command)
    };
    Ok(compare(script.name, &replies("plain")?, &replies("arras")?))
}

fn node(context: &Context, name: &str) -> Result<Command, String> {
    let mut command = Command::new("node");
    // What it says of its packages is no reply.
    command.arg("--no-deprecation").arg(modules(context, &format!("postgres/{name}"))?.join("session.mjs"));
    Ok(command)
}

fn java(context: &Context, name: &str) -> Result<Command, String> {
    let folder = context.root.join("lab/drivers/postgres").join(name);
    let sources = [folder.join("pom.xml"), folder.join("src/main/java/Session.java")];
    let target = context.root.join("target").join(name);
    once(context, &format!("postgres-{name}"), &sources, &target, || {
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", "--file"]).arg(&sources[0]).arg("compile");
        let built = process::finish(&mut maven, &context.log(&format!("postgres-{name}-build")))?;
        require(built, "Maven cannot build the session of pgjdbc")
    })?;
    let mut command = Command::new("java");
    command.arg("-cp").arg(format!("{0}/classes:{0}/lib/*", target.display())).arg("Session");
    Ok(command)
}

fn python(context: &Context, name: &str) -> Result<Command, String> {
    let mut command = environment(context, "postgres")?;
    command.arg(context.root.join("lab/drivers/postgres").join(name).join("session.py"));
    Ok(command)
}
