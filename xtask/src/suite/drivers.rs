//! Real drivers against real processes: each script in `lab/drivers` runs against Arras and against the
//! plaintext twin (`lab/twin`), and every step must give the same reply.
//!
//! *The contract with a script.* It takes the connection URI, and `--extra` if it is to run the steps that the
//! twin cannot (they check themselves). It prints one line of JSON for each step,
//! `{"step": name, "reply": ...}`, with `"extra": true` on those steps, and fails if something unexpected
//! happens. Replies are normalised by the script: what must be equal is all of the line.

use super::process::{self, Server};
use super::{Context, Outcome, cargo};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A driver's script.
struct Script {
    name: &'static str,
    /// The environment it runs in.
    prepare: fn(&Context) -> Result<Command, String>,
}

const SCRIPTS: [Script; 3] = [
    Script { name: "python", prepare: python },
    Script { name: "node", prepare: node },
    Script { name: "mongosh", prepare: mongosh },
];

/// Runs every script against both servers, each with fresh servers.
pub(super) fn run(context: &Context) -> Result<Outcome, String> {
    require(cargo::build(context)?, "the binaries do not build")?;
    build_twin(context)?;
    Ok(each(SCRIPTS.iter().map(|script| (script.name, run_script(context, script)))))
}

/// One outcome of all scripts, whose counts are said as they end.
pub(super) fn each<'a>(scripts: impl Iterator<Item = (&'a str, Result<Outcome, String>)>) -> Outcome {
    let mut total = Outcome::default();
    for (name, outcome) in scripts {
        let outcome = outcome.unwrap_or_else(|error| Outcome::one(false).note(error));
        println!("    {name}: {} steps agree, {} do not", outcome.passed, outcome.failed);
        total.add(outcome);
    }
    total
}

fn run_script(context: &Context, script: &Script) -> Result<Outcome, String> {
    let twin = {
        let server = start_twin(context, script.name)?;
        let uri = format!("mongodb://127.0.0.1:{}/", server.address);
        replies(context, script, "twin", &uri, false)?
    };
    let search = start_search(context, script.name)?;
    let server = start_arras(context, script.name, &search.address)?;
    let ours = replies(context, script, "arras", &server.address, true)?;
    Ok(compare(script.name, &twin, &ours))
}

/// Starts the proxy with a server of its own, as `arras dev` does, on an empty folder.
fn start_arras(context: &Context, name: &str, search: &str) -> Result<Server, String> {
    let data = context.scratch.join("data").join(name);
    if data.exists() {
        std::fs::remove_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    }
    let mut command = Command::new(context.root.join("target/debug/arras"));
    command.arg("dev").arg("--data-dir").arg(&data).args(["--listen", "127.0.0.1:0", "--search", search]);
    command.arg("--search-plain-channel");
    // Else it would build the server once more, by itself.
    command.env_remove("CARGO");
    let mut server =
        Server::start(&mut command, "listening on mongodb://", &context.log(&format!("arras-{name}")))?;
    let address = server.address.split_whitespace().next().unwrap_or_default().trim_end_matches('/');
    server.address = format!("mongodb://{address}/");
    Ok(server)
}

/// Starts a host of boolean search with its enclave, which keep nothing.
fn start_search(context: &Context, name: &str) -> Result<Server, String> {
    let built = context.root.join("target/debug");
    // Of the laboratory: the enclave's own program has no plain channels.
    let enclave = ["build", "-p", "arras-simulator", "--bin", "arras-plain-enclave"];
    let log = context.log(&format!("search-{name}-built"));
    if !process::finish(&mut cargo::command(context, &enclave), &log)?.success {
        return Err(format!("the laboratory's enclave does not build; log: {}", log.display()));
    }
    let mut command = Command::new(built.join("arras-host"));
    command.args(["--memory", "--listen", "127.0.0.1:0", "--administrator", "administrator", "--enclave"]);
    command.arg(built.join("arras-plain-enclave"));
    command.args(["--enclave-argument=--sealing-key", "--enclave-argument"]);
    command.arg(context.scratch.join(format!("enclave-key-{name}")));
    Server::start(&mut command, "listening on ", &context.log(&format!("search-{name}")))
}

fn start_twin(context: &Context, name: &str) -> Result<Server, String> {
    let twin = context.root.join("target/twin");
    let mut command = Command::new("java");
    command.arg("-cp").arg(format!("{0}/classes:{0}/lib/*", twin.display())).args(["Twin", "0"]);
    Server::start(&mut command, "listening on ", &context.log(&format!("twin-{name}")))
}

/// Runs `script` against `uri` and reads what it printed.
fn replies(
    context: &Context,
    script: &Script,
    server: &str,
    uri: &str,
    extra: bool,
) -> Result<Vec<Value>, String> {
    let mut command = (script.prepare)(context)?;
    command.arg(uri);
    if extra {
        command.arg("--extra");
    }
    session(context, &format!("{}-{server}", script.name), command)
}

/// Runs a session to its end and reads what it printed.
pub(super) fn session(context: &Context, name: &str, mut command: Command) -> Result<Vec<Value>, String> {
    let log = context.log(name);
    let finished = process::finish(&mut command, &log)?;
    let lines = finished.output.lines().filter(|line| line.starts_with('{'));
    let replies: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    if !finished.success || replies.is_empty() {
        let steps = replies.len();
        let said = finished.tail(20);
        return Err(format!("{name} ended after {steps} steps:\n{said}\nlog: {}", log.display()));
    }
    Ok(replies)
}

fn step_of(reply: &Value) -> &str {
    reply["step"].as_str().unwrap_or("a step without a name")
}

/// One check for each step: the shared ones are equal on both sides; extra ones ran on ours.
pub(super) fn compare(script: &str, twin: &[Value], ours: &[Value]) -> Outcome {
    let expected: BTreeMap<&str, &Value> = twin.iter().map(|reply| (step_of(reply), reply)).collect();
    let mut outcome = Outcome::default();
    for reply in ours {
        let step = step_of(reply);
        let wrong = match expected.get(step) {
            _ if reply["extra"] == true => None,
            Some(expected) if *expected == reply => None,
            Some(expected) => Some(format!("  plaintext: {expected}\n  arras:     {reply}")),
            None => Some("  the plaintext twin has no such step".to_owned()),
        };
        outcome.add(Outcome::one(wrong.is_none()));
        outcome.notes.extend(wrong.map(|wrong| format!("{script}, step {step}:\n{wrong}")));
    }
    for step in expected.keys().filter(|step| !ours.iter().any(|reply| step_of(reply) == **step)) {
        outcome.add(Outcome::one(false).note(format!("{script}, step {step}: missing against Arras")));
    }
    let mut names: Vec<&str> = ours.iter().map(step_of).collect();
    names.sort_unstable();
    for twice in names.windows(2).filter(|pair| pair[0] == pair[1]) {
        outcome.add(Outcome::one(false).note(format!("{script}: two steps are called {}", twice[0])));
    }
    outcome
}

/// Builds the twin, unless what is there was built from the same sources.
fn build_twin(context: &Context) -> Result<(), String> {
    let sources =
        [context.root.join("lab/twin/pom.xml"), context.root.join("lab/twin/src/main/java/Twin.java")];
    once(context, "twin", &sources, &context.root.join("target/twin"), || {
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", "--file"]).arg(&sources[0]).arg("compile");
        require(process::finish(&mut maven, &context.log("twin-build"))?, "Maven cannot build lab/twin")
    })
}

pub(super) fn require(finished: process::Finished, otherwise: &str) -> Result<(), String> {
    if finished.success { Ok(()) } else { Err(format!("{otherwise}:\n{}", finished.tail(30))) }
}

/// Runs `make`, which fills `folder`, unless it did so from the same `sources` before.
pub(super) fn once(
    context: &Context,
    name: &str,
    sources: &[PathBuf],
    folder: &Path,
    make: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let mut wanted = String::new();
    for source in sources {
        wanted +=
            &std::fs::read_to_string(source).map_err(|error| format!("{}: {error}", source.display()))?;
    }
    let stamp = context.scratch.join(format!("{name}.made-from"));
    if folder.exists() && std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(());
    }
    make()?;
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

/// The Python of a virtual environment with what `lab/drivers/<folder>/requirements.txt` pins.
pub(super) fn environment(context: &Context, folder: &str) -> Result<Command, String> {
    let requirements = context.root.join("lab/drivers").join(folder).join("requirements.txt");
    // One that is a session's own is called after it.
    let name = if folder == "python" { folder.to_owned() } else { format!("python-{folder}") };
    let venv = context.scratch.join(&name);
    once(context, &name, std::slice::from_ref(&requirements), &venv, || {
        let mut create = Command::new("python3");
        create.args(["-m", "venv", "--clear"]).arg(&venv);
        let created = process::finish(&mut create, &context.log(&format!("{name}-venv")))?;
        require(created, "cannot make a Python environment")?;
        let mut install = Command::new(venv.join("bin/pip"));
        install.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        install.arg(&requirements);
        let installed = process::finish(&mut install, &context.log(&format!("{name}-install")))?;
        require(installed, "pip cannot install")
    })?;
    let mut command = Command::new(venv.join("bin/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

fn python(context: &Context) -> Result<Command, String> {
    let mut command = environment(context, "python")?;
    command.arg(context.root.join("lab/drivers/python/session.py"));
    Ok(command)
}

/// The packages pinned in `lab/drivers/<name>`, installed, and that folder's scripts copied beside them, where Node.js
/// looks for them.
pub(super) fn modules(context: &Context, name: &str) -> Result<PathBuf, String> {
    let modules = context.scratch.join(name);
    let folder = context.root.join("lab/drivers").join(name);
    let manifest = folder.join("package.json");
    once(context, name, std::slice::from_ref(&manifest), &modules.join("node_modules"), || {
        std::fs::create_dir_all(&modules).map_err(|error| format!("{}: {error}", modules.display()))?;
        copy(&manifest, &modules.join("package.json"))?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&modules);
        let log = context.log(&format!("{name}-install"));
        require(process::finish(&mut install, &log)?, "npm cannot install")
    })?;
    copy_scripts(&folder, &modules)?;
    Ok(modules)
}

fn copy_scripts(folder: &Path, modules: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|ending| ending == "js" || ending == "mjs") {
            copy(&path, &modules.join(path.file_name().unwrap_or_default()))?;
        }
    }
    Ok(())
}

/// The scripts of both drivers that share packages.
fn node_folder(context: &Context) -> Result<PathBuf, String> {
    let modules = modules(context, "node")?;
    copy_scripts(&context.root.join("lab/drivers/mongosh"), &modules)?;
    Ok(modules)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(|_| ()).map_err(|error| format!("{}: {error}", from.display()))
}

fn node(context: &Context) -> Result<Command, String> {
    let mut command = Command::new("node");
    command.arg(node_folder(context)?.join("session.mjs"));
    Ok(command)
}

fn mongosh(context: &Context) -> Result<Command, String> {
    let mut command = Command::new("node");
    command.arg(node_folder(context)?.join("run.mjs"));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::compare;
    use serde_json::json;

    #[test]
    fn each_step_is_compared() {
        let twin = [
            json!({"step": "same", "reply": {"a": 1, "b": 2}}),
            json!({"step": "other", "reply": 1}),
            json!({"step": "lost", "reply": 1}),
        ];
        let ours = [
            json!({"step": "same", "reply": {"b": 2, "a": 1}}),
            json!({"step": "other", "reply": 2}),
            json!({"step": "more", "reply": 1, "extra": true}),
            json!({"step": "unknown", "reply": 1}),
        ];
        let outcome = compare("python", &twin, &ours);
        assert_eq!((outcome.passed, outcome.failed), (2, 3), "{:?}", outcome.notes);
        assert!(outcome.notes[0].contains("step other"));
        assert!(outcome.notes[1].contains("no such step"));
        assert!(outcome.notes[2].contains("step lost: missing"));
    }

    #[test]
    fn a_step_named_twice_is_found() {
        let steps = [json!({"step": "x", "reply": 1}), json!({"step": "x", "reply": 1})];
        assert_eq!(compare("node", &steps, &steps).failed, 1);
    }
}
