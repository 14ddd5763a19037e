//! Pairs of keyword and document a second that one thread's analysis makes of real text.
//!
//! `cargo bench -p arras-search --bench analysis -- [--language english] PATH...`: every file below the paths is a document, up to
//! 256 MB in all, read before the clock starts. The clock is the thread's own time, so that what else runs does not count.

use arras_search::analysis::Collector;
use arras_search::language::Language;
use rustix::time::{ClockId, clock_gettime};
use std::path::{Path, PathBuf};

/// Bytes of text that are read at most.
const BYTES_MAX: usize = 256 << 20;

fn main() {
    let mut language = Language::English;
    let mut paths = Vec::new();
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        if argument == "--language" {
            let name = arguments.next().unwrap_or_default();
            language = name.parse().unwrap_or_else(|error| panic!("{error}"));
        } else {
            paths.push(PathBuf::from(argument));
        }
    }
    if paths.is_empty() {
        // What nearly every machine has.
        paths = vec!["/usr/share/doc".into(), "/usr/share/common-licenses".into()];
    }
    let mut texts = Vec::new();
    let mut bytes = 0;
    for path in &paths {
        read(path, &mut texts, &mut bytes);
    }
    measure("all", language, &texts);
    let short: Vec<String> = texts.iter().flat_map(|text| pieces(text)).collect();
    measure("in pieces of 2 KB", language, &short);
}

/// A text as documents the size of a message.
fn pieces(text: &str) -> Vec<String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(2048.min(rest.len())).max(1));
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces
}

fn read(path: &Path, texts: &mut Vec<String>, bytes: &mut usize) {
    if path.is_dir() {
        let mut below: Vec<PathBuf> =
            std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        below.sort();
        below.iter().for_each(|path| read(path, texts, bytes));
    } else if *bytes < BYTES_MAX
        && let Ok(text) = std::fs::read_to_string(path)
    {
        *bytes += text.len();
        texts.push(text);
    }
}

fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[allow(clippy::print_stdout, reason = "what the bench is for")]
fn measure(name: &str, language: Language, texts: &[String]) {
    let mut collector = Collector::new(language);
    let (mut pairs, mut words, mut bytes) = (0_u64, 0_u64, 0_usize);
    let start = seconds();
    for text in texts {
        collector.begin();
        collector.feed(text);
        let keywords = collector.finish();
        pairs += keywords.iter().len() as u64;
        words += keywords.words();
        bytes += text.len();
    }
    let took = seconds() - start;
    let rate = |count: f64| count / took;
    println!(
        "{name}: {} documents, {:.1} MB, {words} words, {pairs} pairs in {took:.2} s of one core: {:.0} pairs/s, {:.0} words/s, {:.1} MB/s ({language})",
        texts.len(),
        bytes as f64 / 1e6,
        rate(pairs as f64),
        rate(words as f64),
        rate(bytes as f64) / 1e6,
    );
}
