//! The lab's website in Debian's Chromium, used as a person would: `lab/drivers/web/session.mjs`.

use super::process::{self, Server};
use super::{Context, Outcome, cargo, drivers, tools};
use serde_json::Value;
use std::process::Command;

/// Runs the script against a website of its own.
pub(super) fn run(context: &Context) -> Result<Outcome, String> {
    drivers::require(cargo::build(context)?, "the website does not build")?;
    let modules = drivers::modules(context, "web")?;
    let mut command = Command::new(context.root.join("target/debug/arras-lab"));
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::start(&mut command, "listening on ", &context.log("web-server"))?;
    let address = server.address.split_whitespace().next().unwrap_or_default().to_owned();
    // Playwright looks for an executable at a path, not for a command.
    let chromium = tools::on_path("chromium").ok_or("chromium is not on the PATH")?;
    let mut browser = Command::new("node");
    browser.arg(modules.join("session.mjs")).arg(&address).arg(chromium);
    let finished = process::finish(&mut browser, &context.log("web"))?;
    let mut outcome = Outcome::default();
    for line in finished.output.lines().filter(|line| line.starts_with('{')) {
        let step: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let holds = step["ok"] == true;
        let mut one = Outcome::one(holds);
        if !holds {
            let text = |field: &str| step[field].as_str().unwrap_or_default().to_owned();
            one = one.note(format!("website, {}: {}", text("step"), text("why")));
        }
        outcome.add(one);
    }
    for line in finished.output.lines().filter(|line| line.starts_with("first progress")) {
        println!("    a run of 10,000 records and 100 queries (debug build): {line}");
    }
    if !finished.success || outcome.passed + outcome.failed == 0 {
        outcome.add(
            Outcome::one(false).note(format!("the browser's script ended early:\n{}", finished.tail(20))),
        );
    }
    Ok(outcome)
}
