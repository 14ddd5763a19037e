//! The lab's website and the page of `arras search serve` in Debian's Chromium, used as a person would:
//! `lab/drivers/web/session.mjs`, `lab/drivers/web/search.mjs`.

use super::process::{self, Server};
use super::{Context, Outcome, cargo, drivers, tools};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What is indexed for the page of searches: a name, and the text.
const TEXTS: [(&str, &str); 3] = [
    ("moby.txt", "Call me Ishmael.\nThe white whales swam by the ship.\n"),
    ("captain.md", "The captain and a whale, <script>document.title = 'gone'</script> and all.\n"),
    ("other.md", "Nothing of the kind.\n"),
];

/// Runs each script against a website of its own.
pub(super) fn run(context: &Context) -> Result<Outcome, String> {
    drivers::require(cargo::build(context)?, "the website does not build")?;
    let modules = drivers::modules(context, "web")?;
    let mut command = Command::new(context.root.join("target/debug/arras-lab"));
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let mut outcome = drive(context, &modules, "web", "session.mjs", command)?;
    outcome.add(drive(context, &modules, "web-search", "search.mjs", search(context)?)?);
    Ok(outcome)
}

/// Indexes a few texts; the command that serves their search.
fn search(context: &Context) -> Result<Command, String> {
    let (folder, program) =
        (context.scratch.join("web-search"), context.root.join("target/debug/arras-search"));
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(wrong)?;
    }
    fs::create_dir_all(folder.join("texts")).map_err(wrong)?;
    for (name, text) in TEXTS {
        fs::write(folder.join("texts").join(name), text).map_err(wrong)?;
    }
    let store = folder.join("store");
    let mut index = Command::new(&program);
    index.args(["index", "--store"]).arg(&store).arg(folder.join("texts"));
    drivers::require(process::finish(&mut index, &context.log("web-search-index"))?, "nothing is indexed")?;
    let mut serve = Command::new(program);
    serve.args(["serve", "--store"]).arg(&store);
    Ok(serve)
}

/// Runs a script in a browser against what a command serves.
fn drive(
    context: &Context,
    modules: &Path,
    name: &str,
    script: &str,
    mut command: Command,
) -> Result<Outcome, String> {
    let server = Server::start(&mut command, "listening on ", &context.log(&format!("{name}-server")))?;
    let address = server.address.split_whitespace().next().unwrap_or_default().to_owned();
    // Playwright looks for an executable at a path, not for a command.
    let chromium = tools::on_path("chromium").ok_or("chromium is not on the PATH")?;
    let mut browser = Command::new("node");
    browser.arg(modules.join(script)).arg(&address).arg(chromium);
    let finished = process::finish(&mut browser, &context.log(name))?;
    let mut outcome = Outcome::default();
    for line in finished.output.lines().filter(|line| line.starts_with('{')) {
        let step: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let holds = step["ok"] == true;
        let mut one = Outcome::one(holds);
        if !holds {
            let text = |field: &str| step[field].as_str().unwrap_or_default().to_owned();
            one = one.note(format!("{script}, {}: {}", text("step"), text("why")));
        }
        outcome.add(one);
    }
    for line in finished.output.lines().filter(|line| line.starts_with("first progress")) {
        println!("    a run of 10,000 records and 100 queries (debug build): {line}");
    }
    if !finished.success || outcome.passed + outcome.failed == 0 {
        outcome.add(Outcome::one(false).note(format!("{script} ended early:\n{}", finished.tail(20))));
    }
    Ok(outcome)
}
