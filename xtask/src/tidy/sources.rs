//! Where the engine takes time, randomness and threads from: from what it is opened with, and from the runtime, so that a
//! simulation can repeat a run from a number.

use super::tree::Tree;
use crate::report::Finding;

/// Folders that a simulation runs.
const SIMULATED: [&str; 8] = [
    "trusted/numbers/src/",
    "trusted/planner/src/",
    "trusted/service/src/",
    "trusted/documents/src/",
    "trusted/engine/src/",
    "trusted/schemes/src/",
    "trusted/records/src/",
    "trusted/text/src/",
];

/// The modules that are these sources.
const HOMES: [&str; 3] =
    ["trusted/documents/src/clock.rs", "trusted/engine/src/aside.rs", "trusted/schemes/src/random.rs"];

/// What must not be named elsewhere, and what to use.
const BARRED: [(&str, &str); 19] = [
    ("std::time::Instant", "use tokio::time::Instant, which a simulation moves"),
    ("time::{Duration, Instant}", "use tokio::time::Instant, which a simulation moves"),
    ("SystemTime", "take the time from whoever opens the engine"),
    ("use std::time::*", "name what is used of it"),
    ("use std::time;", "name what is used of it"),
    ("DateTime::now", "take the time from whoever opens the engine"),
    ("ObjectId::new", "take the id with the statement"),
    ("Utc::now", "take the time from whoever opens the engine"),
    ("std::net", "go by the channel that the engine was opened with"),
    ("tokio::net", "go by the channel that the engine was opened with"),
    ("OsRng", "draw from the `Randomness` that the engine was opened with"),
    ("getrandom", "draw from the `Randomness` that the engine was opened with"),
    ("rand::rng(", "draw from the `Randomness` that the engine was opened with"),
    ("thread_rng", "draw from the `Randomness` that the engine was opened with"),
    ("SysRng", "draw from the `Randomness` that the engine was opened with"),
    ("Key::generate", "draw from the `Randomness` that the engine was opened with"),
    ("spawn_blocking", "use the engine's `aside`"),
    ("block_in_place", "use the engine's `aside`"),
    ("std::thread::spawn", "use the engine's `aside`"),
];

/// No simulated source reaches a clock, randomness or a thread by itself.
pub(super) fn own_sources(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let simulated = |path: &&String| {
        SIMULATED.iter().any(|folder| path.starts_with(folder))
            && !HOMES.contains(&path.as_str())
            && !path.ends_with("tests.rs")
            && !path.contains("/tests/")
    };
    for path in tree.files.keys().filter(simulated) {
        let Some(file) = tree.files.get(path) else { continue };
        // Tests stand at the end of a file, and may draw what they like.
        let code = file.text.split("\n#[cfg(test)]\n#[allow").next().unwrap_or_default();
        let code = code.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (offset, line) in
            code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for (name, fix) in BARRED.iter().filter(|(name, _)| line.contains(name)) {
                findings.push(Finding {
                    rule: "own-sources",
                    place: format!("{path}:{}", offset + 1),
                    wrong: format!(
                        "`{name}`: a simulation of the engine could not be repeated from its seed"
                    ),
                    fix: (*fix).into(),
                });
            }
        }
    }
    findings
}
