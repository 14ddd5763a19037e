//! Links between the documents of this repository.

use super::modules::join;
use super::tree::Tree;
use crate::report::Finding;
use regex::Regex;
use std::collections::BTreeSet;

/// Every relative link in Markdown leads to a file, and its anchor to a heading.
pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let link =
        Regex::new(r"\]\(<?([^)\s>]+)>?[^)]*\)|^\s*\[[^\]]+\]:\s+(\S+)").expect("a pattern written here");
    let mut findings = Vec::new();
    for (path, file) in tree.files.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (offset, line) in without_code(&file.text).iter().enumerate() {
            for found in link.captures_iter(line) {
                let target = found.get(1).or(found.get(2)).map_or("", |target| target.as_str());
                if let Some(wrong) = broken(tree, path, target) {
                    findings.push(Finding {
                        rule: "links",
                        place: format!("{path}:{}", offset + 1),
                        wrong,
                        fix: "correct the link, or write what it promises".into(),
                    });
                }
            }
        }
    }
    findings
}

/// What is wrong with a link, if anything. Links with a scheme are not followed.
fn broken(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = if file.is_empty() { from.to_owned() } else { join(folder, file) };
    let is_folder = tree
        .files
        .range(format!("{path}/")..)
        .next()
        .is_some_and(|(next, _)| next.starts_with(&format!("{path}/")));
    let Some(content) = tree.files.get(&path) else {
        return (!is_folder && !path.is_empty()).then(|| format!("no file {path}"));
    };
    let heading = anchor.is_empty() || !path.ends_with(".md") || anchors(&content.text).contains(anchor);
    (!heading).then(|| format!("no heading #{anchor} in {path}"))
}

/// Lines with fenced blocks and inline code blanked.
fn without_code(text: &str) -> Vec<String> {
    let inline = Regex::new("`[^`]*`").expect("a pattern written here");
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let kept = if fenced || fence { String::new() } else { inline.replace_all(line, "``").into_owned() };
        lines.push(kept);
    }
    lines
}

/// The anchors that a Markdown renderer makes of the headings: lower case, punctuation dropped, spaces to
/// hyphens, a number behind repetitions.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_' || letter == ' ';
        let slug: String = title.chars().filter(|letter| kept(*letter)).collect::<String>().replace(' ', "-");
        let numbered = (1..).map(|number| format!("{slug}-{number}"));
        if let Some(free) = std::iter::once(slug.clone()).chain(numbered).find(|slug| !found.contains(slug)) {
            found.insert(free);
        }
    }
    found
}
