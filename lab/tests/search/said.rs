//! What `arras-search` tells a person: what was left out or not read, what a message is, and how it ends.

use crate::command::{found, index, names, search, write};
use crate::process::{Ended, command, run};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn at(store: &Path, path: &Path) -> Ended {
    let mut index = command("arras-search", "warn");
    index.arg("index").arg("--store").args([store, path]);
    run(index)
}

/// A folder of somebody's does not become a store by a slip, and a store beside texts takes none of them away.
#[test]
fn a_store_is_made_in_a_folder_of_its_own_and_hides_no_texts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "a.txt", "the whale");
    let (texts, store) = (folder.join("texts"), folder.join("store"));
    let refused = at(&texts, &texts);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("texts: the folder is not empty"), "{}", refused.stderr);
    assert_eq!(fs::read_dir(&texts).unwrap().count(), 1);
    // One that is empty, or in which a run had just begun that was killed.
    for begun in ["", "client"] {
        fs::create_dir_all(store.join(begun)).unwrap();
    }
    fs::write(store.join("client/lock"), "").unwrap();
    assert_eq!(at(&store, &texts).code, Some(0));
    fs::write(store.join("b.txt"), "another whale").unwrap();
    let all = at(&store, folder);
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    let said =
        format!("left out: {}: the index's own files (client, ", store.canonicalize().unwrap().display());
    assert!(all.stderr.contains(&said), "{}", all.stderr);
    // All that a store has is known as its own.
    assert_eq!(names(folder, "NOT nothing"), ["a.txt", "b.txt"]);
}

#[test]
fn what_was_not_read_is_counted_and_has_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "a.txt", "the whale");
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let some = index(folder, &[pipe.to_str().unwrap()]);
    assert_eq!(some.code, Some(6), "{}", some.stderr);
    assert!(some.stderr.contains("pipe: it is no regular file\n"), "{}", some.stderr);
    assert!(some.stderr.contains("1 document put in, 0 taken out"), "{}", some.stderr);
    assert!(some.stderr.contains("0 not text, 1 not read;"), "{}", some.stderr);
    assert_eq!(names(folder, "whale"), ["a.txt"]);
    let all = index(folder, &[]);
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    assert!(all.stderr.contains("1 file unchanged, 0 not text, 0 not read;"), "{}", all.stderr);
}

#[test]
fn who_hears_no_more_is_told_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for file in 0..20 {
        write(folder, &format!("{file}.txt"), "the whale");
    }
    assert_eq!(index(folder, &[]).code, Some(0));
    let mut query = search(folder, "query", &["whale"]);
    let mut child = query.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr).matches("Broken pipe").count(), 0);
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn why_a_text_is_not_shown_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for file in ["changed", "gone", "unreadable", "whole"] {
        write(folder, file, "the whale");
    }
    assert_eq!(index(folder, &[]).code, Some(0));
    write(folder, "changed", "the whales");
    for file in ["gone", "unreadable"] {
        fs::remove_file(folder.join("texts").join(file)).unwrap();
    }
    std::os::unix::fs::symlink("unreadable", folder.join("texts/unreadable")).unwrap();
    let shown = run(search(folder, "query", &["whale"])).stdout;
    for said in [
        "changed\n      (changed since it was indexed)\n",
        "gone\n      (is gone)\n",
        "unreadable\n      (cannot be read: ",
        "whole\n     1: the whale\n",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}

#[test]
fn a_message_is_told_by_who_sent_it_when_and_about_what() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mail = "From: Alice \u{1b}[31m Liddell <alice@example.com>\nSubject: =?utf-8?Q?Wei=C3=9Fe?= whales\n\
        Date: Mon, 5 Feb 2001 11:00:00 +0100\n\nthe ship\n";
    write(folder, "inbox", &format!("From a@b Mon\n{mail}\nFrom c@d Tue\nX: y\n\nthe captain\n"));
    write(folder, "letter.eml", &mail.replace("ship", "harpoon"));
    assert_eq!(index(folder, &[]).code, Some(0));
    let told = "      Alice \u{fffd}[31m Liddell <alice@example.com>, 2001-02-05 10:00:00Z: Weiße whales\n";
    let text = |query: &str| run(search(folder, "query", &[query])).stdout;
    let ship = text("ship");
    assert!(ship.contains("inbox message ") && ship.contains(told), "{ship}");
    assert!(ship.ends_with(": the ship\n"), "{ship}");
    let (harpoon, captain) = (text("harpoon"), text("captain"));
    assert!(harpoon.contains(&format!("letter.eml\n{told}")), "{harpoon}");
    assert_eq!(captain.lines().count(), 2, "{captain}");
    for (query, has_message) in [("ship", true), ("harpoon", false)] {
        let one = found(folder, &["--", query]).remove(0);
        assert_eq!(one["from"], "Alice \u{1b}[31m Liddell <alice@example.com>");
        let (subject, date) = (one["subject"].as_str(), one["date"].as_str());
        assert_eq!((subject, date), (Some("Weiße whales"), Some("2001-02-05T10:00:00Z")));
        assert_eq!(one.get("message").is_some(), has_message, "{one}");
    }
    let bare = found(folder, &["captain"]).remove(0);
    assert!(bare.get("from").is_none() && bare.get("message").is_some(), "{bare}");
    fs::remove_file(folder.join("texts/inbox")).unwrap();
    assert!(text("ship").contains("      (is gone)\n"));
    assert_eq!(found(folder, &["ship"]).len(), 1);
}

/// `--json` is for programs: an object a line, of these fields and no others.
#[test]
fn an_object_of_json_has_its_path_and_if_ranked_its_score() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "a.txt", "the whale and the ship\nthe \"whale\"");
    write(folder, "in box", "From a@b Mon\nFrom: Ann <ann@example.com>\nSubject: ship\n\nthe harpoon\n");
    assert_eq!(index(folder, &[]).code, Some(0));
    let fields = |arguments: &[&str]| -> Vec<(String, Vec<String>)> {
        let said = run(search(folder, "query", &[&["--json"], arguments].concat()));
        assert_eq!((said.code, said.stdout.matches('\n').count()), (Some(0), said.stdout.lines().count()));
        let objects = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
        let objects = objects.map(|object: serde_json::Map<String, serde_json::Value>| {
            let path = object["path"].as_str().unwrap();
            assert!(object.get("score").is_none_or(|score| score.as_f64().unwrap() > 0.0), "{object:?}");
            let name = path.strip_prefix(folder.join("texts/").to_str().unwrap());
            let mut fields: Vec<String> = object.keys().cloned().collect();
            fields.sort();
            (name.unwrap().to_owned(), fields)
        });
        objects.collect()
    };
    let has =
        |name: &str, fields: &[&str]| (name.to_owned(), fields.iter().map(|&field| field.into()).collect());
    assert_eq!(fields(&["whale"]), [has("a.txt", &["path"])]);
    assert_eq!(fields(&["--top", "5", "whale"]), [has("a.txt", &["path", "score"])]);
    assert_eq!(fields(&["harpoon"]), [has("in box", &["from", "message", "path", "subject"])]);
    let ranked = ["from", "message", "path", "score", "subject"];
    assert_eq!(fields(&["--top", "5", "harpoon"]), [has("in box", &ranked)]);
    assert_eq!(fields(&["zebra"]), []);
}

#[test]
fn help_is_of_the_command_that_was_called_and_says_what_happens() {
    let help = |arguments: &[&str]| {
        let mut help = command("arras-search", "warn");
        help.args(arguments);
        run(help)
    };
    for verb in ["index", "query", "serve", "certify", "grant", "revoke"] {
        let said = help(&[verb, "--help"]).stdout;
        assert!(said.contains(&format!("Usage: arras search {verb} ")), "{said}");
        let wrong = help(&[verb, "--no-such-thing"]).stderr;
        assert!(wrong.contains(&format!("Usage: arras search {verb} ")), "{wrong}");
    }
    let whole = help(&["--help"]).stdout;
    assert!(whole.contains("0 done, a query that finds nothing too"), "{whole}");
    assert!(whole.contains("6 something could not be read"), "{whole}");
}

#[test]
fn counts_are_said_as_a_person_says_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for file in 0..12 {
        write(folder, &format!("{file}.txt"), "the whale");
    }
    write(folder, "one.txt", "the ship");
    assert_eq!(index(folder, &[]).code, Some(0));
    let stderr = |arguments: &[&str]| run(search(folder, "query", arguments)).stderr;
    assert!(stderr(&["ship"]).ends_with("\n1 document matches\n"));
    let none = run(search(folder, "query", &["captain"]));
    assert_eq!(none.code, Some(0));
    assert!(none.stderr.ends_with("\n0 documents match\n"), "{}", none.stderr);
    let ranked = found(folder, &["--rank", "tf-idf", "whale"]);
    assert!(ranked.len() == 10 && ranked.iter().all(|line| line["score"].as_f64().is_some()), "{ranked:?}");
    let best = stderr(&["--rank", "bm25", "whale"]);
    assert!(best.ends_with("\n12 documents match; the best 10 are shown\n"), "{best}");
}
