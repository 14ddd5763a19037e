//! `arras-search` as a person runs it, with host and enclave as processes that it starts.

use crate::process::{Ended, PATIENCE, command, executable, run};
use arras_attestation::authority::{Authority, certificate, private, serial};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// `arras-search` with arguments, on the store of a folder.
pub(crate) fn search(folder: &Path, verb: &str, arguments: &[&str]) -> Command {
    // It starts these.
    executable("arras-host");
    executable("arras-enclave");
    let mut search = command("arras-search", "warn");
    search.arg(verb).arg("--store").arg(folder.join("store")).args(arguments);
    search
}

pub(crate) fn index(folder: &Path, arguments: &[&str]) -> Ended {
    let texts = folder.join("texts");
    run(search(folder, "index", &[&[texts.to_str().unwrap()], arguments].concat()))
}

/// What a query finds: the lines of its output as JSON.
pub(crate) fn found(folder: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let ended = run(search(folder, "query", &[&["--json"], arguments].concat()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The names of the files that a query finds.
pub(crate) fn names(folder: &Path, query: &str) -> Vec<String> {
    let name = |line: &serde_json::Value| {
        Path::new(line["path"].as_str().unwrap()).file_name().unwrap().to_str().unwrap().to_owned()
    };
    let mut names: Vec<String> = found(folder, &["--", query]).iter().map(name).collect();
    names.sort();
    names
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join("texts").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_folder_and_a_mailbox_are_indexed_searched_and_kept_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "moby.txt", "Call me Ishmael.\nThe white whales swam by the ship.\n");
    write(folder, "notes/captain.md", "The old captain and his ship: ship, ship.");
    write(
        folder,
        "inbox",
        "From a@b Mon\nFrom: Alice <alice@example.com>\nSubject: whale\n\nsee you\n\n\
        From c@d Tue\nSubject: other\n\nnothing\n",
    );
    let first = index(folder, &[]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(
        first.stderr.contains("4 documents put in") && first.stderr.contains("pairs/s"),
        "{}",
        first.stderr
    );
    assert_eq!(names(folder, "(whale OR ship) AND NOT captain"), ["inbox", "moby.txt"]);
    assert_eq!(names(folder, "\"white whale\""), ["moby.txt"]);
    assert_eq!(names(folder, "from:alice type:mail"), ["inbox"]);
    assert_eq!(names(folder, "-whale -type:mail"), ["captain.md"]);
    let ranked = found(folder, &["--top", "1", "ship"]);
    assert_eq!(ranked.len(), 1);
    assert!(ranked[0]["path"].as_str().unwrap().ends_with("captain.md"));
    assert!(ranked[0]["score"].as_f64().unwrap() > 0.0);
    let shown = run(search(folder, "query", &["\"white whale\""]));
    assert!(
        shown.stdout.ends_with("moby.txt\n     2: The white whales swam by the ship.\n"),
        "{}",
        shown.stdout
    );
    assert!(shown.stderr.contains("1 document matches"), "{}", shown.stderr);
    for (padding, count) in [("power-of-two", 2), ("64", 2), ("1", 1)] {
        assert_eq!(found(folder, &["--padding", padding, "whale"]).len(), count, "{padding}");
    }
    for padding in ["0", "much"] {
        assert_eq!(run(search(folder, "query", &["--padding", padding, "whale"])).code, Some(2), "{padding}");
    }
    let again = index(folder, &[]);
    assert!(again.stderr.contains("0 documents put in, 0 taken out, 3 files unchanged"), "{}", again.stderr);
    write(folder, "moby.txt", "a harpoon");
    fs::remove_file(folder.join("texts/notes/captain.md")).unwrap();
    let changed = index(folder, &[]);
    assert!(changed.stderr.contains("1 document put in, 1 taken out"), "{}", changed.stderr);
    assert_eq!(names(folder, "ship"), [""; 0]);
    assert_eq!(names(folder, "harpoon"), ["moby.txt"]);
    let removed = index(folder, &["--remove"]);
    assert!(removed.stderr.contains("3 taken out"), "{}", removed.stderr);
    assert_eq!(names(folder, "-zebra"), [""; 0]);
}

#[test]
fn what_cannot_be_asked_is_said_with_its_place_and_a_code() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let none = run(search(folder, "query", &["whale"]));
    assert_eq!(none.code, Some(4), "{}", none.stderr);
    assert!(none.stderr.contains("arras search index --store"), "{}", none.stderr);
    let missing = index(folder, &[]);
    assert_eq!(missing.code, Some(4), "{}", missing.stderr);
    assert!(!folder.join("store").exists());
    write(folder, "a.txt", "whale");
    assert_eq!(index(folder, &["--language", "german"]).code, Some(0));
    for (query, said) in [
        ("whale AND (ship", "column 11: this parenthesis is never closed\nwhale AND (ship\n          ^\n"),
        ("und OR der", "one of those that say nothing in german"),
        ("whale OR size:>5", "size:6.. must hold for the whole query"),
    ] {
        let wrong = run(search(folder, "query", &[query]));
        assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
        assert!(wrong.stderr.contains(said), "{}", wrong.stderr);
    }
    let other = index(folder, &["--language", "english"]);
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("in german, not in english"), "{}", other.stderr);
    // Of a store that is there, its own language is taken.
    assert_eq!(index(folder, &[]).code, Some(0));
    assert_eq!(run(search(folder, "query", &["--language", "english", "whale"])).code, Some(2));
    assert_eq!(names(folder, "whale"), ["a.txt"]);
}

/// Killed, and stopped by ctrl-C, at any point: host and enclave end with it, and what was acknowledged is not done again.
#[test]
fn a_run_that_is_killed_or_stopped_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for file in 0..24 {
        let words: String = (0..3000).map(|word| format!("w{} ", file * 1000 + word)).collect();
        write(folder, &format!("{file}.txt"), &words);
    }
    let journal = folder.join("store/client/journal");
    let mut beyond = 0;
    for signal in ["-KILL", "-INT"] {
        let texts = folder.join("texts");
        let mut indexing = search(folder, "index", &[texts.to_str().unwrap()]);
        let mut child = indexing.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + PATIENCE;
        // Something more is recorded than before.
        while fs::metadata(&journal).map_or(0, |file| file.len()) <= beyond + 200 {
            assert!(Instant::now() < end, "nothing is indexed");
            if child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // It may have come to its end before.
        let _ = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        child.wait().unwrap();
        beyond = fs::metadata(&journal).unwrap().len();
    }
    let last = index(folder, &[]);
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    assert!(last.stderr.contains("24 files in the index"), "{}", last.stderr);
    assert!(!last.stderr.contains(" 0 files unchanged"), "{}", last.stderr);
    assert_eq!(names(folder, "w0"), ["0.txt"]);
    assert_eq!(names(folder, "w25999"), ["23.txt"]);
    assert_eq!(names(folder, "w5000").len(), 3);
}

#[test]
fn certificates_for_clients_are_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let certify = |name: &str| {
        let mut certify = command("arras-search", "warn");
        certify.arg("certify").arg("--authority").arg(folder.path().join("authority")).arg(name);
        run(certify)
    };
    let (ada, bob, again) = (certify("ada"), certify("bob"), certify("ada"));
    assert_eq!((ada.code, bob.code, again.code), (Some(0), Some(0), Some(4)), "{}", again.stderr);
    let read = |name: &str| fs::read_to_string(folder.path().join("authority").join(name)).unwrap();
    let authority = Authority::read(&read("ca.pem"), &read("ca.key")).unwrap();
    assert_eq!(authority.certificate(), read("ca.pem"));
    for (name, ended) in [("ada", &ada), ("bob", &bob)] {
        let (_, serial) = serial(&certificate(&read(&format!("{name}.pem"))).unwrap()).unwrap();
        assert!(ended.stdout.contains(&serial), "{}", ended.stdout);
        private(&read(&format!("{name}.key"))).unwrap();
    }
    for wrong in ["", "ca", "a/b", ".."] {
        assert_ne!(certify(wrong).code, Some(0), "{wrong}");
    }
}

/// Copies a folder with all that is below it, in place of what is there.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[test]
fn a_store_whose_servers_part_is_of_a_day_ago_is_not_searched() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "a.txt", "whale");
    assert_eq!(index(folder, &[]).code, Some(0));
    let (server, old) = (folder.join("store/server"), folder.join("old"));
    copy(&server, &old);
    write(folder, "b.txt", "whale");
    assert_eq!(index(folder, &[]).code, Some(0));
    assert_eq!(names(folder, "whale"), ["a.txt", "b.txt"]);
    // All of it: entries, state and counter.
    copy(&server, &folder.join("new"));
    copy(&old, &server);
    let refused = run(search(folder, "query", &["whale"]));
    assert_eq!(refused.code, Some(5), "{}", refused.stderr);
    assert!(refused.stderr.contains("was set back"), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
    let refused = index(folder, &[]);
    assert_eq!(refused.code, Some(5), "{}", refused.stderr);
    assert!(refused.stderr.contains("was set back"), "{}", refused.stderr);
    copy(&folder.join("new"), &server);
    assert_eq!(names(folder, "whale"), ["a.txt", "b.txt"]);
}

/// A store that was changed or cut: one line at the end says why, at once, and nothing is left out in silence.
#[test]
fn a_store_that_is_damaged_is_said_to_be_in_the_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for file in 0..30 {
        write(folder, &format!("{file}.txt"), "whale");
    }
    assert_eq!(index(folder, &[]).code, Some(0));
    let (store, whole) = (folder.join("store"), folder.join("whole"));
    copy(&store, &whole);
    let said = |ended: &Ended| ended.stderr.lines().last().unwrap_or_default().to_owned();
    let damages: [(&str, &dyn Fn()); 4] = [
        ("arras.redb", &|| fs::remove_file(store.join("server/arras.redb")).unwrap()),
        ("enclave-key", &|| fs::write(store.join("enclave-key"), "x").unwrap()),
        ("put all of it back", &|| fs::write(store.join("enclave-key"), [7; 32]).unwrap()),
        ("development-root", &|| fs::write(store.join("development-root"), "x").unwrap()),
    ];
    for (part, damage) in damages {
        damage();
        let refused = run(search(folder, "query", &["whale"]));
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{}", refused.stderr);
        assert!(said(&refused).contains(part), "{part}: {}", refused.stderr);
        assert_eq!(refused.stderr.matches("did not start").count().max(1), 1, "{}", refused.stderr);
        copy(&whole, &store);
    }
    // A record that was cut, or is not there, has none of the documents.
    let journal = store.join("client/journal");
    for length in [0, 200] {
        fs::File::options().write(true).open(&journal).unwrap().set_len(length).unwrap();
        let partial = run(search(folder, "query", &["--json", "whale"]));
        assert_eq!(partial.code, Some(4), "{}", partial.stderr);
        assert!(
            said(&partial).contains("30 of the documents that match are not in the record"),
            "{}",
            partial.stderr
        );
        assert_eq!(index(folder, &[]).code, Some(0));
        assert_eq!(names(folder, "whale").len(), 30);
        copy(&whole, &store);
    }
}

#[test]
fn entries_of_what_was_replaced_are_removed_when_they_are_many() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = |round: u32| (0..2000).map(|word| format!("w{} ", word + round)).collect::<String>();
    write(folder, "a.txt", &text(0));
    assert!(!index(folder, &[]).stderr.contains("are removed"));
    write(folder, "a.txt", &text(1));
    let second = index(folder, &[]);
    assert!(
        second.stderr.contains("entries of documents that are gone or were replaced are removed"),
        "{}",
        second.stderr
    );
    assert_eq!(names(folder, "w0"), [""; 0]);
    assert_eq!(names(folder, "w2000"), ["a.txt"]);
    // The last run left nothing to do.
    assert!(!index(folder, &[]).stderr.contains("are removed"));
    assert_eq!(names(folder, "w1 AND w1999"), ["a.txt"]);
}

/// A path is taken out by whatever name leads there, and one that is not in the index is told; a store's own files are no texts.
#[test]
fn what_is_taken_out_is_named_as_a_person_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "below/a.txt", "the whale");
    write(folder, "b.txt", "the ship");
    // The store lies among the texts.
    let whole = |arguments: &[&str]| run(search(folder, "index", arguments));
    let all = whole(&[folder.to_str().unwrap()]);
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    let again = whole(&[folder.to_str().unwrap()]);
    assert!(!again.stdout.contains("client/"), "{}", again.stdout);
    let listed = found(folder, &["--", "NOT nothing"]);
    assert_eq!(listed.len(), 2, "{listed:?}");
    let link = folder.join("texts/link");
    std::os::unix::fs::symlink(folder.join("texts/below"), &link).unwrap();
    let gone = whole(&["--remove", folder.join("texts/c.txt").to_str().unwrap()]);
    assert_ne!(gone.code, Some(0));
    assert!(gone.stderr.contains("nothing of it is in the index"), "{}", gone.stderr);
    let other_way = folder.join("texts/below/../link/a.txt");
    let removed = whole(&["--remove", other_way.to_str().unwrap()]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert_eq!(names(folder, "whale"), [""; 0]);
    assert_eq!(names(folder, "ship"), ["b.txt"]);
}
