//! Texts that are larger than what is kept of one.

use crate::command::{index, names, write};
use std::fmt::Write;

/// One of more than a million different words, and one of a word of 10 MB: what a document may have of them is found, the rest is
/// said, and other texts are not in their way.
#[test]
fn a_million_keywords_and_a_word_of_ten_megabytes_are_indexed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut many = String::new();
    (0..1_000_050).for_each(|word| write!(many, "k{word} ").unwrap());
    write(folder, "many.txt", &many);
    write(folder, "long.txt", &format!("{} whale", "a".repeat(10_000_000)));
    write(folder, "plain.txt", "the whale and k7");
    let indexed = index(folder, &["--language", "none"]);
    assert_eq!(indexed.code, Some(0), "{}", indexed.stderr);
    assert!(indexed.stderr.contains("too large to be indexed whole: 1 document"), "{}", indexed.stderr);
    for (query, found) in [
        ("k0", &["many.txt"][..]),
        ("k999900", &["many.txt"]),
        // Behind the first million, some of which are of the file's path and kind.
        ("k1000049", &[]),
        ("k7", &["many.txt", "plain.txt"]),
        ("k7 AND NOT k0", &["plain.txt"]),
        ("whale", &["long.txt", "plain.txt"]),
        (&"a".repeat(200), &["long.txt"]),
    ] {
        assert_eq!(names(folder, query), found, "{query}");
    }
}
