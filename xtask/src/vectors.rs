//! Known-answer files are used: each file under `kat/` is named by Rust code, and one of JSON parses.
//!
//! A vector that no test names proves nothing, and nobody notices. The whole file name must stand in a `.rs` file.

use crate::report::{Finding, Report};
use std::collections::BTreeMap;
use std::path::Path;

/// Checks this repository.
///
/// # Errors
/// If a file cannot be read.
pub fn run() -> Result<Report, String> {
    let root = crate::metadata::root();
    let mut files = BTreeMap::new();
    for path in crate::files::list(&root)? {
        if path.ends_with(".rs") || path.starts_with("kat/") {
            files.insert(path.clone(), read(&root, &path)?);
        }
    }
    Ok(judge(&files))
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    let content = std::fs::read(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
    Ok(String::from_utf8_lossy(&content).into_owned())
}

fn judge(files: &BTreeMap<String, String>) -> Report {
    let code: Vec<&String> =
        files.iter().filter(|(path, _)| path.ends_with(".rs")).map(|(_, text)| text).collect();
    let mut findings = Vec::new();
    let mut add = |rule, place: &str, wrong: String, fix: &str| {
        findings.push(Finding { rule, place: place.into(), wrong, fix: fix.into() });
    };
    let vectors = files.iter().filter(|(path, _)| path.starts_with("kat/") && !path.ends_with(".md"));
    // What is a program makes vectors, and is none.
    for (path, text) in vectors.filter(|(path, _)| !path.ends_with(".rs") && !path.ends_with(".py")) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let quoted = |code: &&String| {
            let after = |(at, _): (usize, &str)| code[at + name.len()..].chars().next();
            let before = |(at, _): (usize, &str)| code[..at].chars().next_back();
            let edge =
                |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_');
            code.match_indices(name).any(|found| edge(before(found)) && edge(after(found)))
        };
        if !code.iter().any(quoted) {
            add("vectors-used", path, "no test names this file".into(), "test against it, or delete it");
        }
        if text.trim().is_empty() {
            add("vectors-parse", path, "the file is empty".into(), "fill it, or delete it");
        } else if path.ends_with(".json")
            && let Err(error) = serde_json::from_str::<serde_json::Value>(text)
        {
            add("vectors-parse", path, error.to_string(), "make it JSON");
        }
    }
    Report { name: "vectors", rules: vec!["vectors-used", "vectors-parse"], findings }
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn unused_and_broken_vectors_are_found() {
        let files = [
            ("kat/aes.json", "{}"),
            ("kat/deep/siv.json", "[1]"),
            ("kat/unused.json", "{}"),
            ("kat/broken.json", "{"),
            ("kat/empty.txt", "\n"),
            ("kat/README.md", ""),
            ("kat/make.py", ""),
            (
                "x.rs",
                "f(\"aes.json\"); include_str!(\"../kat/deep/siv.json\"); \"not_unused.json\"; \"broken.json\"",
            ),
            ("y.rs", "\"empty.txt\""),
        ];
        let report = judge(&files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect());
        let found: Vec<(&str, &str)> =
            report.findings.iter().map(|finding| (finding.rule, finding.place.as_str())).collect();
        let expected = [
            ("vectors-parse", "kat/broken.json"),
            ("vectors-parse", "kat/empty.txt"),
            ("vectors-used", "kat/unused.json"),
        ];
        assert_eq!(found, expected);
    }
}
