//! Text, sizes, links.

use super::{places, tree};
use crate::tidy::text::FILE_BYTES_MAX;

#[test]
fn markers_of_unfinished_work_are_found() {
    let files = [
        ("lab/src/lib.rs", "// TODO: later\nconst METHODOLOGY: u8 = 0;\n"),
        ("docs/a.md", "fine\n\nFIXME\n"),
        ("lab/b.sh", "# XXX\n"),
        ("kat/c.json", "\"XXX\""),
    ];
    assert_eq!(places(&tree(&files), "markers"), ["docs/a.md:3", "lab/b.sh:1", "lab/src/lib.rs:1"]);
}

#[test]
fn paths_of_one_machine_are_found() {
    let files = [
        ("docs/a.md", "See `/root/notes` and\nhttps://example.org/work/of/others\nor /tmp.\n"),
        ("lab/b.sh", "cd /home/alice/arras\nls target/tmp\n"),
        ("lab/c.toml", "path = \"/work/main\"\nother = \"/var/lib/arras\"\n"),
    ];
    assert_eq!(
        places(&tree(&files), "machine-paths"),
        ["docs/a.md:1", "docs/a.md:3", "lab/b.sh:1", "lab/c.toml:1"]
    );
}

#[test]
fn registry_hosts_are_found_also_in_lock_files() {
    let lock = "[[package]]\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
    let mirrored = "source = \"sparse+https://cache.example.org/index/\"\n";
    let files = [
        ("Cargo.lock", lock),
        ("fuzz/Cargo.lock", mirrored),
        ("lab/package-lock.json", "{\"resolved\": \"x\"}"),
        ("lab/.npmrc", "registry=https://registry.npmjs.org/\n"),
        ("lab/pip.conf", "index-url = https://mirror.example.org/simple\n"),
        ("lab/twin/pom.xml", "xmlns=\"http://maven.apache.org/POM/4.0.0\"\n"),
        ("README.md", "published on crates.io\n"),
    ];
    let expected = ["lab/.npmrc:1", "lab/pip.conf:1", "fuzz/Cargo.lock", "lab/package-lock.json"];
    assert_eq!(places(&tree(&files), "registry-hosts"), expected);
}

#[test]
fn large_files_are_found_unless_listed_and_the_list_is_kept() {
    let bulk = "x".repeat(FILE_BYTES_MAX + 1);
    let mut sample = tree(&[("kat/a.json", &bulk), ("kat/b.json", "x")]);
    assert_eq!(places(&sample, "large-files"), ["kat/a.json"]);
    sample.exceptions.large_files = [("kat/a.json".into(), "test vectors as published".into())].into();
    assert_eq!(places(&sample, "large-files"), [""; 0]);
    sample.exceptions.large_files.insert("kat/b.json".into(), "no longer".into());
    assert_eq!(places(&sample, "large-files"), ["kat/b.json"]);
}

#[test]
fn broken_links_and_anchors_are_found() {
    let readme = "# Top\n## Two Words, `code`\n[a](docs/a.md) [top](#top) [two](#two-words-code) [folder](docs)\n\
                  [gone](docs/gone.md)\n[nowhere](#nowhere)\n[web](https://example.org/x)\n`[code](gone.md)`\n\
                  ```\n[fenced](gone.md)\n```\n[ref]: docs/missing.md\n";
    let files = [
        ("README.md", readme),
        ("docs/a.md", "[up](../README.md#top) [bad](../README.md#no)\n[out](../x.md)\n"),
    ];
    let expected = ["README.md:4", "README.md:5", "README.md:11", "docs/a.md:1", "docs/a.md:2"];
    assert_eq!(places(&tree(&files), "links"), expected);
}
