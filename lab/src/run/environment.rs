//! Where and with what a result was found.

use super::result::Environment;
use std::process::Command;
use std::sync::OnceLock;

/// The environment of this process.
#[must_use]
pub fn environment() -> Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT
        .get_or_init(|| Environment {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit(),
            machine: machine(),
        })
        .clone()
}

/// The commit given when it was built (`ARRAS_COMMIT`), or that of the checkout it was built in.
fn commit() -> String {
    if let Some(commit) = option_env!("ARRAS_COMMIT") {
        return commit.to_owned();
    }
    let checkout = env!("CARGO_MANIFEST_DIR");
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(["-C", checkout]).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then_some(text)
    };
    let changed =
        || git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    match git(&["rev-parse", "HEAD"]) {
        Some(commit) if changed() => format!("{commit} with changes"),
        Some(commit) => commit,
        None => "unknown".to_owned(),
    }
}

fn machine() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores", model.unwrap_or("unknown processor"))
}
