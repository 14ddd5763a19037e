//! What crates are made of, by what cargo would build of each by itself, with the packages of others in it.
//!
//! Declared edges between our own crates are judged by `rules`; here it is what they link of the registry: a parser, a
//! runtime or a socket in a room that must do without.

use crate::report::Finding;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A room, and what may not be in it.
pub(super) struct Room {
    /// The rule's name.
    pub(super) rule: &'static str,
    /// The package.
    pub(super) package: &'static str,
    /// The features it is judged with, beside its default ones.
    pub(super) features: &'static [&'static str],
    /// Packages that it must not reach.
    pub(super) packages: &'static [&'static str],
    /// Features of tokio that nothing in it may ask for.
    pub(super) runtime: &'static [&'static str],
    /// Why.
    pub(super) why: &'static str,
    /// What to do instead.
    pub(super) fix: &'static str,
}

/// What opens sockets.
const SOCKETS: [&str; 3] = ["mio", "socket2", "hyper"];

/// The rooms.
pub(super) const ROOMS: [Room; 4] = [
    Room {
        rule: "schemes-alone",
        package: "arras-schemes",
        features: &["lab"],
        packages: &[
            "bson",
            "regex",
            "regex-automata",
            "mio",
            "socket2",
            "hyper",
            "rustls",
            "redb",
            "arras-documents",
            "arras-records",
        ],
        runtime: &["rt", "rt-multi-thread", "net", "time", "fs", "process", "signal", "io-util", "io-std"],
        why: "keyed halves are linked by the enclave and the lab: they compute on keys and bytes, and wait for replies",
        fix: "leave BSON to trusted/records and trusted/documents, and tasks, clocks and sockets to who drives the half",
    },
    Room {
        rule: "search-keyless",
        package: "arras-search",
        features: &[],
        packages: &["arras-keys", "arras-numbers", "bson", "mio", "socket2", "hyper", "rustls"],
        runtime: &["rt", "rt-multi-thread", "net", "time", "fs", "process", "signal", "io-util", "io-std"],
        why: "a client's texts and queries are read with hashes of keywords alone: no key, no encrypted index, no socket",
        fix: "ask trusted/schemes for its feature bisen-client alone, and leave connections and keys to trusted/proxy",
    },
    Room {
        rule: "documents-trusted",
        package: "arras-server",
        features: &["lab"],
        packages: &["bson", "chrono", "chrono-tz", "arras-documents", "arras-numbers"],
        runtime: &[],
        why: "documents are read in plaintext by the trusted side alone: what can parse them has no business at the server",
        fix: "keep document semantics in trusted/documents, and send the server sealed bytes",
    },
    Room {
        rule: "engine-without-sockets",
        package: "arras-engine",
        features: &[],
        packages: &SOCKETS,
        runtime: &["net", "process", "signal", "fs"],
        why: "the engine is run by a simulator, too: what it asks of a server goes through Channel",
        fix: "open sockets in trusted/proxy and hand the engine a channel",
    },
];

/// The rule about what an enclave is made of.
pub(super) const ENCLAVE: &str = "enclave-listed";
/// The enclave's crate.
const ENCLAVE_PACKAGE: &str = "arras-iee";
/// Where what it is made of is listed.
const ENCLAVE_LIST: &str = "enclave/closure.txt";
/// Fewer than so many packages, versions of one counted each.
const ENCLAVE_PACKAGES_END: usize = 60;

/// Every breach.
///
/// # Errors
/// If cargo does not say what it would build, or the list cannot be read.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for room in &ROOMS {
        let mut arguments = vec!["--package", room.package, "--edges", "normal", "--format", "{p} {f}"];
        let features = room.features.join(",");
        if !features.is_empty() {
            arguments.extend(["--features", &features]);
        }
        findings.extend(judge(room, &tree(root, &arguments)?));
    }
    // What runs while compiling is no part of what is measured.
    let edges = ["--edges", "normal,no-proc-macro", "--format", "{p}"];
    let arguments = [&["--package", ENCLAVE_PACKAGE], &edges[..]].concat();
    let list = std::fs::read_to_string(root.join(ENCLAVE_LIST))
        .map_err(|error| format!("{ENCLAVE_LIST}: {error}"))?;
    findings.extend(judge_enclave(&list, &tree(root, &arguments)?));
    Ok(findings)
}

/// What cargo would build, a package on a line: `name version ...`.
pub(super) fn tree(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--prefix", "none"])
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo tree: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// What is in a room and must not be.
pub(super) fn judge(room: &Room, tree: &str) -> Vec<Finding> {
    let mut wrong: BTreeSet<String> = BTreeSet::new();
    for line in tree.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        if room.packages.contains(&name) {
            wrong.insert(name.into());
        }
        let features = line.rsplit(' ').find(|word| *word != "(*)").unwrap_or_default();
        let asked = features.split(',').filter(|feature| name == "tokio" && room.runtime.contains(feature));
        wrong.extend(asked.map(|feature| format!("tokio [{feature}]")));
    }
    if !tree.lines().any(|line| line.starts_with(room.package)) {
        wrong.insert("nothing is known of it: see what `cargo tree` prints".into());
    }
    let finding = |what: &String| Finding {
        rule: room.rule,
        place: format!("{}: {what}", room.package),
        wrong: room.why.into(),
        fix: room.fix.into(),
    };
    wrong.iter().map(finding).collect()
}

/// What an enclave would be made of and is not listed, what is listed and not there, and whether it is too much.
pub(super) fn judge_enclave(list: &str, tree: &str) -> Vec<Finding> {
    let finding = |place: String, wrong: &str, fix: &str| Finding {
        rule: ENCLAVE,
        place,
        wrong: wrong.into(),
        fix: fix.into(),
    };
    let packages: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next().filter(|name| !name.is_empty())?, words.next()?))
        })
        .collect();
    let names: BTreeSet<&str> = packages.iter().map(|(name, _)| *name).collect();
    let listed: BTreeSet<&str> =
        list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut findings = Vec::new();
    for name in names.difference(&listed) {
        findings.push(finding(
            format!("{ENCLAVE_LIST}: {name}"),
            "measured code would hold a package that is not listed",
            "do without it, or read it and add a line",
        ));
    }
    for name in listed.difference(&names) {
        findings.push(finding(
            format!("{ENCLAVE_LIST}: {name}"),
            "it is listed and nothing that an enclave may link needs it",
            "drop the line",
        ));
    }
    if packages.len() >= ENCLAVE_PACKAGES_END {
        findings.push(finding(
            format!("{} packages", packages.len()),
            "measured code must stay small enough to read in a day",
            &format!("fewer than {ENCLAVE_PACKAGES_END}: leave out features, or what needs them"),
        ));
    }
    findings
}
