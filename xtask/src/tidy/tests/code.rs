//! Modules, names, lengths, lints.

use super::{places, tree};
use crate::tidy::lengths::{ENCLAVE_LINES_MAX, FILE_LINES_MAX, FUNCTION_LINES_MAX};
use crate::tidy::protocols::NAMING_FILES_MAX;

#[test]
fn a_file_no_mod_reaches_is_dead() {
    let files = [
        ("trusted/x/src/lib.rs", "mod a;\nmod outer { mod inner; }\n#[path = \"odd.rs\"] mod even;\n"),
        ("trusted/x/src/a.rs", "mod b;\n"),
        ("trusted/x/src/a/b.rs", "#[cfg(test)] mod tests;\n"),
        ("trusted/x/src/a/b/tests.rs", ""),
        ("trusted/x/src/outer/inner/mod.rs", "mod deep;"),
        ("trusted/x/src/outer/inner/deep.rs", ""),
        ("trusted/x/src/odd.rs", ""),
        ("trusted/x/tests/all.rs", "mod support;\n"),
        ("trusted/x/tests/support/mod.rs", ""),
        ("trusted/x/src/b.rs", ""),
        ("trusted/x/src/a/c.rs", ""),
    ];
    assert_eq!(places(&tree(&files), "dead-modules"), ["trusted/x/src/a/c.rs", "trusted/x/src/b.rs"]);
}

#[test]
fn a_file_that_is_no_rust_is_found() {
    let files = [("trusted/x/src/lib.rs", "fn f( {}\n")];
    assert_eq!(places(&tree(&files), "sources-parse"), ["trusted/x/src/lib.rs:1"]);
}

#[test]
fn code_of_another_crate_is_found() {
    let files = [
        ("untrusted/x/src/lib.rs", "#[path = \"../../../trusted/keys/src/key.rs\"]\nmod key;\nmod y;\n"),
        (
            "untrusted/x/src/y.rs",
            "include!(\"../../../trusted/keys/src/key.rs\");\ninclude!(\"table.rs\");\n",
        ),
        ("untrusted/x/src/z.rs", "const X: &str = include_str!(\"../../../kat/x.json\");\n"),
    ];
    assert_eq!(places(&tree(&files), "foreign-code"), ["untrusted/x/src/lib.rs:2", "untrusted/x/src/y.rs:1"]);
}

#[test]
fn empty_module_names_are_found() {
    let files = [
        ("lab/src/lib.rs", "mod misc { }\nmod planner;\n"),
        ("lab/src/utils.rs", ""),
        ("lab/src/manager/mod.rs", ""),
        ("lab/src/management.rs", ""),
        ("lab/src/plain/mod.rs", ""),
        ("lab/src/plain/rest.rs", ""),
    ];
    let expected = [
        "lab/src/manager/mod.rs",
        "lab/src/manager/mod.rs",
        "lab/src/plain/mod.rs",
        "lab/src/utils.rs",
        "lab/src/lib.rs:1",
    ];
    assert_eq!(places(&tree(&files), "module-names"), expected);
}

#[test]
fn banned_type_names_are_found() {
    let text = "struct ClientSession;\ntrait SecureStore {}\ntype Token = u8;\nstruct SearchToken;\nenum Transaction {}\n";
    let found = places(&tree(&[("lab/src/lib.rs", text)]), "type-names");
    assert_eq!(found, ["lab/src/lib.rs:1", "lab/src/lib.rs:2", "lab/src/lib.rs:3"]);
}

#[test]
fn long_files_are_found_and_exceptions_only_shrink() {
    let long = "\n".repeat(FILE_LINES_MAX + 5);
    let limit = "\n".repeat(FILE_LINES_MAX);
    let mut sample =
        tree(&[("lab/src/lib.rs", &long), ("lab/a.py", &long), ("lab/b.py", &limit), ("a.md", &long)]);
    assert_eq!(places(&sample, "file-length"), ["lab/a.py", "lab/src/lib.rs"]);
    sample.exceptions.file_lines =
        [("lab/a.py".into(), FILE_LINES_MAX + 5), ("lab/src/lib.rs".into(), FILE_LINES_MAX + 5)].into();
    assert_eq!(places(&sample, "file-length"), [""; 0]);
    // Longer than listed; shorter than listed; within the limit; gone.
    sample.exceptions.file_lines = [("lab/a.py".into(), FILE_LINES_MAX + 4)].into();
    assert_eq!(places(&sample, "file-length"), ["lab/a.py", "lab/src/lib.rs"]);
    sample.exceptions.file_lines = [
        ("lab/a.py".into(), FILE_LINES_MAX + 6),
        ("lab/b.py".into(), FILE_LINES_MAX + 6),
        ("lab/c.py".into(), FILE_LINES_MAX + 6),
        ("lab/src/lib.rs".into(), FILE_LINES_MAX + 5),
    ]
    .into();
    assert_eq!(places(&sample, "file-length"), ["lab/a.py", "lab/b.py", "lab/c.py"]);
}

#[test]
fn lines_of_the_enclave_are_counted_without_tests_comments_and_clients() {
    let half = "use a;\n".repeat(ENCLAVE_LINES_MAX / 2);
    let rest = "use a;\n".repeat(ENCLAVE_LINES_MAX.div_ceil(2))
        + "\n  // why\n/// What.\n#[cfg(test)]\nmod tests {}\n";
    let client = ("trusted/schemes/src/bisen/client.rs", "use a;\n");
    let within = [("enclave/iee/src/lib.rs", &*half), ("trusted/schemes/src/bisen/update.rs", &rest), client];
    assert_eq!(places(&tree(&within), "enclave-lines"), [""; 0]);
    let over = [("enclave/iee/src/lib.rs", "use b;\n"), ("enclave/iee/src/lane.rs", &half), within[1]];
    assert_eq!(places(&tree(&over), "enclave-lines"), ["enclave/iee/src/"]);
}

#[test]
fn long_functions_are_found_by_their_full_name() {
    let body = |lines: usize| "\n".repeat(lines - 1);
    let (long, limit) = (body(FUNCTION_LINES_MAX + 1), body(FUNCTION_LINES_MAX));
    let text = format!(
        "fn short() {{{limit}}}\nmod m {{ struct S; impl S {{ fn long() {{{long}}} }}\n trait T {{ fn kept() {{{long}}} }} }}\n"
    );
    let mut sample = tree(&[("lab/src/lib.rs", &text)]);
    let expected = ["lab/src/lib.rs::m::S::long", "lab/src/lib.rs::m::T::kept"];
    assert_eq!(places(&sample, "function-length"), expected);
    sample.exceptions.function_lines =
        expected.iter().map(|name| ((*name).to_owned(), FUNCTION_LINES_MAX + 1)).collect();
    assert_eq!(places(&sample, "function-length"), [""; 0]);
    sample.exceptions.function_lines.insert("lab/src/lib.rs::short".into(), 90);
    assert_eq!(places(&sample, "function-length"), ["lab/src/lib.rs::short"]);
}

#[test]
fn roots_forbid_unsafe_code_and_only_primitives_allow_it() {
    let files = [
        ("trusted/x/src/lib.rs", "#![forbid(unsafe_code)]\nmod y;\n"),
        ("trusted/x/src/main.rs", "#![deny(unsafe_code)]\nfn main() {}\n"),
        ("trusted/x/src/y.rs", "#[allow(unsafe_code, reason = \"fast\")]\nmod inner {}\n"),
        ("shared/primitives/src/lib.rs", "#[allow(unsafe_code)]\nmod lanes {}\n"),
    ];
    assert_eq!(places(&tree(&files), "unsafe-code"), ["trusted/x/src/main.rs", "trusted/x/src/y.rs:1"]);
}

#[test]
fn what_parses_hostile_bytes_denies_panics() {
    let all = "#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]\n";
    let soft = format!(
        "{all}#[allow(clippy::unwrap_used)]\nfn f() {{}}\n#[cfg(test)]\nmod tests {{ #![allow(clippy::panic)] }}\n"
    );
    let files = [
        ("shared/protocol/src/lib.rs", soft.as_str()),
        ("shared/protocol/src/tests.rs", "#![allow(clippy::unwrap_used)]\n"),
        ("untrusted/server/src/lib.rs", all),
        (
            "untrusted/server/src/main.rs",
            "#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]\n",
        ),
        ("lab/src/lib.rs", "#![allow(clippy::unwrap_used)]\n"),
    ];
    let expected = ["untrusted/server/src/main.rs", "shared/protocol/src/lib.rs:2"];
    assert_eq!(places(&tree(&files), "panic-lints"), expected);
}

#[test]
fn a_protocol_that_many_files_name_is_found() {
    let names = |file: usize| (format!("lab/src/f{file}.rs"), "use x::PathOram;\n");
    let files: Vec<(String, &str)> = (1..NAMING_FILES_MAX).map(names).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    // That it is a protocol is what the table says.
    files.push(("shared/protocol/src/leakage.rs", "Leakage { protocol: \"scan\" };\n"));
    files.push((
        "shared/protocol/src/table.rs",
        "macro\ntable! {\n    1 HELLO \"hello\";\n    11 PATH_ORAM \"path_oram\", laboratory: true => [PATH_ORAM \"path_oram\"];\n}\n",
    ));
    let own = [
        ("lab/src/lib.rs", "pub mod path_oram;\n"),
        ("lab/src/path_oram.rs", "pub struct PathOram;\n"),
        ("lab/src/path_oram/bucket.rs", "use super::PathOram;\n"),
        ("lab/tests/body.rs", "use x::PathOram;\n"),
    ];
    files.extend(own);
    assert_eq!(places(&tree(&files), "protocol-names"), [""; 0]);
    files.push(("lab/src/one_more.rs", "/// As a Path ORAM does.\n"));
    assert_eq!(places(&tree(&files), "protocol-names"), ["path_oram"]);
    let mut listed = tree(&files);
    listed.exceptions.protocol_files.insert("path_oram".into(), NAMING_FILES_MAX + 1);
    assert_eq!(places(&listed, "protocol-names"), [""; 0]);
    listed.exceptions.protocol_files.insert("path_oram".into(), NAMING_FILES_MAX + 2);
    assert_eq!(places(&listed, "protocol-names"), ["path_oram"], "a limit that could be lower");
}

#[test]
fn a_clock_or_randomness_of_its_own_is_found() {
    let text = "use std::time::Instant;\nuse tokio::time::Instant as Virtual;\nfn f() { rand::rng(); }\n// rand::rng\n\
        #[cfg(test)]\nmod tests {\n    fn g() { rand::rng(); }\n}\n";
    let files = [
        ("trusted/engine/src/a.rs", text),
        ("trusted/engine/src/aside.rs", "fn f() { tokio::task::spawn_blocking(g); }\n"),
        ("trusted/engine/src/tests.rs", text),
        ("trusted/schemes/src/b.rs", "fn f() { tokio::task::spawn_blocking(g); }\n"),
        ("trusted/mongo/src/c.rs", text),
    ];
    let expected = ["trusted/engine/src/a.rs:1", "trusted/engine/src/a.rs:3", "trusted/schemes/src/b.rs:1"];
    assert_eq!(places(&tree(&files), "own-sources"), expected);
}
