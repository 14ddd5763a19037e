//! What must not stand in any file: unfinished work, one machine's paths, registry hosts, bulk.

use super::tree::Tree;
use crate::report::Finding;
use regex::Regex;

/// Bytes of a tracked file.
pub(super) const FILE_BYTES_MAX: usize = 1024 * 1024;

/// The one source a lock file may name.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern written in this file")
}

/// A finding for every line in which `regex` matches.
fn lines_matching<'a>(
    files: impl Iterator<Item = (&'a str, &'a str)>,
    regex: &Regex,
    rule: &'static str,
    wrong: &str,
    fix: &str,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files {
        for (offset, line) in text.lines().enumerate() {
            if let Some(found) = regex.find(line) {
                let found = found.as_str().trim();
                findings.push(Finding {
                    rule,
                    place: format!("{path}:{}", offset + 1),
                    wrong: format!("{wrong}: {found}"),
                    fix: fix.into(),
                });
            }
        }
    }
    findings
}

/// Unfinished work is not left in files.
pub(super) fn markers(tree: &Tree) -> Vec<Finding> {
    let regex = pattern(r"\b(TODO|FIXME|XXX|HACK)\b");
    let fix = "do it, or say in the docs what is missing";
    lines_matching(tree.prose_and_code(), &regex, "markers", "unfinished work is marked here", fix)
}

/// No path of one machine.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    // What closes an element of XML is no path.
    let regex = pattern(
        r#"(^|[\s"'`(=:,\[])/(root|work|tmp|home/\w+)(/|["'`\s)\],.:;>]|$)|</(root|work|tmp|home/\w+)/"#,
    );
    let fix = "use a path from the repository's root, or a temporary folder made by the code";
    lines_matching(tree.prose_and_code(), &regex, "machine-paths", "this path exists on one machine", fix)
}

/// No package registry by host name: a clone fetches from where its user's tools are set to.
pub(super) fn registry_hosts(tree: &Tree) -> Vec<Finding> {
    let hosts = [
        r"(index|static)\.crates\.io",
        r"crates\.io/api",
        r"registry\.(npmjs|yarnpkg)\.\w+",
        r"pypi\.org/simple",
        r"files\.pythonhosted\.org",
        r"repo1?\.maven\.(apache\.)?org",
        r"proxy\.golang\.org",
        r"(deb|archive|security)\.(debian|ubuntu)\.(org|com)",
        r"https?://[^\s/]*\b(registry|mirror|artifactory|nexus)\b",
    ];
    let regex = pattern(&format!("({})", hosts.join("|")));
    let fix = "leave the host out: cargo, pip, npm and Maven know theirs";
    let mut findings = lines_matching(
        tree.prose_and_code(),
        &regex,
        "registry-hosts",
        "a package registry is named here",
        fix,
    );
    for (path, file) in tree.files.iter().filter(|(path, _)| path.ends_with("Cargo.lock")) {
        let foreign =
            |line: &&str| line.starts_with("source = ") && *line != format!("source = \"{CRATES_IO}\"");
        for line in file.text.lines().filter(foreign) {
            findings.push(Finding {
                rule: "registry-hosts",
                place: path.clone(),
                wrong: format!("the lock file fetches from elsewhere: {line}"),
                fix: format!("lock against {CRATES_IO}"),
            });
        }
    }
    for (path, file) in tree.files.iter().filter(|(path, _)| path.ends_with("package-lock.json")) {
        if file.text.contains("\"resolved\"") {
            findings.push(Finding {
                rule: "registry-hosts",
                place: path.clone(),
                wrong: "the lock file says where each package was fetched from".into(),
                fix: "write it with npm's option omit-lockfile-registry-resolved".into(),
            });
        }
    }
    findings
}

/// No bulk in the history.
pub(super) fn large_files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in &tree.files {
        if file.bytes > FILE_BYTES_MAX && !tree.exceptions.large_files.contains_key(path) {
            findings.push(Finding {
                rule: "large-files",
                place: path.clone(),
                wrong: format!("{} bytes, allowed are {FILE_BYTES_MAX}", file.bytes),
                fix: "generate it, fetch it, or list it with its reason in xtask/exceptions.toml".into(),
            });
        }
    }
    for path in tree.exceptions.large_files.keys() {
        if tree.files.get(path).is_none_or(|file| file.bytes <= FILE_BYTES_MAX) {
            findings.push(Finding {
                rule: "large-files",
                place: path.clone(),
                wrong: "listed as large, but it is not there or not large".into(),
                fix: "drop its line from xtask/exceptions.toml".into(),
            });
        }
    }
    findings
}
