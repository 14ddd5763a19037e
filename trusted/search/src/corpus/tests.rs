use super::{About, Counts, IndexError, Journal, Ledger, Look, MessageId, Progress, Reread, Summary};
use super::{index, remove, reread, reread_mailbox};
use crate::condition::Condition;
use crate::grammar::parse;
use crate::language::Language;
use crate::oracle::Oracle;
use crate::profile::Profile;
use crate::search::{Wanted, request};
use crate::service::{Collection, ServiceError};
use arras_schemes::bisen::DocumentName;
use arras_schemes::bisen::query::{Padding, Ranking};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
struct Pieces(Vec<Vec<u8>>);

impl Journal for Pieces {
    fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        self.0.push(piece.to_vec());
        Ok(())
    }
}

#[derive(Default)]
struct Heard {
    begun: (u64, u64),
    last: Counts,
    stop: Arc<AtomicBool>,
    stops: Stops,
}

/// When a run is asked to stop.
#[derive(Default, Eq, PartialEq)]
enum Stops {
    #[default]
    Never,
    /// Before files are looked for.
    AtOnce,
    /// Before the first file is read.
    AtBegin,
    /// When something is done.
    AtAdvance,
}

impl Progress for Heard {
    fn begin(&mut self, files: u64, bytes: u64) {
        self.begun = (files, bytes);
        if self.stops == Stops::AtBegin {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn advance(&mut self, done: &Counts) {
        self.last = *done;
        if self.stops == Stops::AtAdvance {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

/// A folder, its index and the client's state.
struct Archive {
    folder: tempfile::TempDir,
    oracle: Oracle,
    ledger: Ledger,
    journal: Pieces,
    heard: Heard,
}

impl Archive {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (oracle, ledger) = (Oracle::default(), Ledger::default());
        Self { folder, oracle, ledger, journal: Pieces::default(), heard: Heard::default() }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn index(&mut self) -> Result<Summary, IndexError> {
        self.index_at("")
    }

    /// Indexes what is at a path below the folder.
    fn index_at(&mut self, path: &str) -> Result<Summary, IndexError> {
        let root = self.folder.path().join(path);
        self.heard.stop.store(self.heard.stops == Stops::AtOnce, Ordering::Relaxed);
        let mut collection =
            Collection::create(&mut self.oracle, "files", Profile::new(Language::English)).unwrap();
        index(&mut collection, &mut self.ledger, &[root], &mut self.journal, &mut self.heard)
    }

    /// What a query finds, by the names below the folder; what it shows of each is in the text again.
    fn found(&mut self, query: &str) -> Vec<String> {
        let mut collection = Collection::existing(&mut self.oracle, "files").unwrap();
        let condition = Condition::new(&parse(query).unwrap(), Language::English).unwrap();
        let wanted = Wanted { ranking: Ranking::None, top: 0, padding: Padding::None };
        let search =
            request(&condition, collection.opened.collection, &collection.opened.salt, wanted).unwrap();
        let results = collection.search(search).unwrap();
        let hits: Vec<DocumentName> = results.hits.into_iter().map(|hit| hit.name).collect();
        let places = self.ledger.find(&hits.iter().copied().collect());
        assert_eq!(places.len(), hits.len());
        let root = self.folder.path().canonicalize().unwrap();
        let mut names: Vec<String> = places
            .values()
            .map(|place| {
                let mut text = String::new();
                assert_eq!(
                    reread(place, &mut |piece: &str| text.push_str(piece)),
                    Reread::Whole,
                    "{place:?}"
                );
                Path::new(&place.name).strip_prefix(&root).unwrap().to_str().unwrap().to_owned()
            })
            .collect();
        names.sort();
        names
    }

    /// The ledger that a client has who starts again.
    fn restart(&mut self) {
        let mut ledger = Ledger::default();
        self.journal.0.iter().for_each(|piece| ledger.replay(piece).unwrap());
        let mut short = Ledger::default();
        ledger.pieces().for_each(|piece| short.replay(&piece).unwrap());
        assert_eq!(ledger, short);
        self.ledger = ledger;
    }
}

const MESSAGE: &str = "From: Alice Liddell <alice@example.com>\nTo: bob@example.org\nCc: Carol\n\
    Subject: =?utf-8?Q?Wei=C3=9Fe?= whales\nDate: Mon, 5 Feb 2001 10:00:00 +0000\n\n\
    The ship sails.\n";

#[test]
fn files_of_all_kinds_are_found_by_what_is_in_them() {
    let mut archive = Archive::new();
    archive.write("a.txt", "White whales");
    archive.write("sub/b.md", b"caf\xe9 whale");
    archive.write(
        "page.html",
        "<html><head><style>captain</style></head><p>white &amp; <b>wh</b>ale</p></html>",
    );
    archive.write("letter.eml", MESSAGE);
    archive.write("program.bin", b"\x7fELF\0whale");
    archive.write(".hidden", "whale");
    archive.write(".git/config", "whale");
    let summary = archive.index().unwrap();
    let counts = (summary.done.files, summary.done.documents, summary.done.binary, summary.problem_count);
    assert_eq!(counts, (5, 4, 1, 0));
    assert_eq!(archive.heard.begun.0, 5);
    assert_eq!(archive.heard.last, summary.done);
    assert_eq!(archive.heard.last.bytes, archive.heard.begun.1);
    assert_eq!(archive.found("whale"), ["a.txt", "letter.eml", "page.html", "sub/b.md"]);
    assert_eq!(archive.found("captain"), [""; 0]);
    assert_eq!(archive.found("cafe"), ["sub/b.md"]);
    assert_eq!(archive.found("\"white whale\""), ["a.txt", "page.html"]);
    assert_eq!(archive.found("path:sub type:md"), ["sub/b.md"]);
    for query in [
        "from:alice",
        "from:\"Alice Liddell\"",
        "to:bob@example.org",
        "cc:carol",
        "subject:weiße",
        "date:2001-02",
        "type:mail",
    ] {
        assert_eq!(archive.found(query), ["letter.eml"], "{query}");
    }
    assert_eq!(archive.found("ship from:bob"), [""; 0]);
    assert_eq!(archive.found("size:10..12"), ["a.txt", "sub/b.md"]);
}

/// Blocks and cells keep words apart, however little is written between them; what is inline does not.
#[test]
fn words_of_html_end_with_their_blocks_and_not_with_their_tags() {
    let pages = [
        ("blocks", "<h2>boldword</h2><p>alpha</p>"),
        ("divs", "<div>boldword</div><div>alpha</div>"),
        ("cells", "<table><tr><td>boldword</td><td>alpha</td></tr></table>"),
        ("items", "<ul><li>boldword</li><li>alpha</li></ul>"),
        ("space", "<b>boldword</b> alpha"),
        ("inline", "<body><i>bold</i>word <b>al</b><!-- -->pha</body>"),
        ("title", "<html><head><title>boldword</title><script src=x>captain</script></head><body>alpha"),
        ("entities", "<p>bold&#119;ord&nbsp;alpha &lt;captain's"),
    ];
    let mut archive = Archive::new();
    for (name, page) in pages {
        archive.write(&format!("{name}/a.html"), page);
        archive.write(&format!("{name}/b.eml"), format!("From: a@b\nContent-Type: text/html\n\n{page}\n"));
        let attached = "Content-Type: text/html\nContent-Disposition: attachment; filename=a.html\n\n";
        let parts = format!("--x\nContent-Type: text/plain\n\ntext\n--x\n{attached}{page}\n--x--\n");
        let mail = format!("From: a@b\nContent-Type: multipart/mixed; boundary=x\n\n{parts}");
        archive.write(&format!("{name}/c.eml"), mail);
    }
    archive.index().unwrap();
    for (name, _) in pages {
        let all = ["a.html", "b.eml", "c.eml"].map(|file| format!("{name}/{file}"));
        assert_eq!(archive.found(&format!("boldword alpha path:{name}")), all, "{name}");
    }
    assert_eq!(archive.found("boldwordalpha"), [""; 0]);
    assert_eq!(archive.found("captain path:title"), [""; 0]);
    assert_eq!(archive.found("captain").len(), 3);
}

#[test]
fn what_changed_or_is_gone_is_noticed_and_nothing_else_is_read() {
    let mut archive = Archive::new();
    let kept = archive.write("kept.txt", "whale");
    let changed = archive.write("changed.txt", "whale");
    let gone = archive.write("sub/gone.txt", "whale");
    archive.index().unwrap();
    let again = archive.index().unwrap();
    assert_eq!((again.unchanged, again.done), (3, Counts::default()));
    let updates = archive.oracle.updates;
    archive.restart();
    fs::write(&changed, "a ship").unwrap();
    fs::remove_file(&gone).unwrap();
    // Touched within its second, and the same: read, and not sent.
    let modified = fs::metadata(&kept).unwrap().modified().unwrap();
    let second = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let within = std::time::UNIX_EPOCH + std::time::Duration::from_secs(second);
    fs::write(&kept, "whale").unwrap();
    let touch =
        |path, moment| fs::File::options().write(true).open(path).unwrap().set_modified(moment).unwrap();
    touch(&kept, within + std::time::Duration::from_nanos(7));
    let third = archive.index().unwrap();
    assert_eq!((third.done.files, third.done.documents, third.done.removed), (2, 1, 1));
    assert_eq!(archive.oracle.updates, updates + 1);
    assert_eq!(archive.found("whale"), ["kept.txt"]);
    assert_eq!(archive.found("ship"), ["changed.txt"]);
    // Its date is that of its last change.
    touch(&kept, std::time::UNIX_EPOCH + std::time::Duration::from_secs(915_148_800));
    assert_eq!(archive.index().unwrap().done.documents, 1);
    assert_eq!(archive.found("date:1999"), ["kept.txt"]);
    // What became something else is no longer what it was.
    fs::write(&changed, b"\0\0").unwrap();
    archive.index().unwrap();
    assert_eq!(archive.found("ship"), [""; 0]);
    assert_eq!(archive.ledger.len(), 1);
    // A text that is not there any more, or another, is not shown for the one that was found.
    let place = archive
        .ledger
        .find(&[crate::update::document_name(kept.canonicalize().unwrap().to_str().unwrap())].into());
    let place = place.into_values().next().unwrap();
    fs::write(&kept, "whales").unwrap();
    assert_eq!(reread(&place, &mut |_: &str| {}), Reread::Changed);
    fs::remove_file(&kept).unwrap();
    assert_eq!(reread(&place, &mut |_: &str| {}), Reread::Gone);
    // What cannot be read is not said to have changed.
    std::os::unix::fs::symlink(&kept, &kept).unwrap();
    let unreadable = reread(&place, &mut |_: &str| {});
    assert!(matches!(&unreadable, Reread::Unreadable(why) if why.contains("symbolic links")), "{unreadable}");
    assert!(unreadable.to_string().starts_with("cannot be read: "), "{unreadable}");
}

/// What a message says of itself, and its text.
#[derive(Default)]
struct Seen(About, String);

impl Look for Seen {
    fn feed(&mut self, piece: &str) {
        self.1.push_str(piece);
    }

    fn about(&mut self, about: About) {
        self.0 = about;
    }
}

#[test]
fn messages_of_a_mailbox_are_read_in_one_pass_with_what_they_say_of_themselves() {
    let mut archive = Archive::new();
    let lone = "Date: Mon, 5 Feb 2001 10:00:00 +0000\n\nnobody's\n";
    let two = MESSAGE
        .replace("From: Alice", "From: <eve@example.com>, \"\" <>, Bob,\n Alice")
        .replace("whales", "ships");
    let inbox = archive.write("inbox", format!("From a@b\n{MESSAGE}\nFrom c@d\n{lone}\nFrom e@f\n{two}"));
    archive.index().unwrap();
    let places = archive.ledger.find(&archive.oracle.published.keys().copied().collect());
    let absent = MessageId([7; 16]);
    let wanted = places.values().filter_map(|place| place.message).chain([absent]).collect();
    let read = reread_mailbox(&inbox, &wanted, Seen::default);
    assert_eq!((read.len(), &read[&absent].1), (4, &Reread::Gone));
    let mut told: Vec<_> = read
        .values()
        .map(|(seen, _)| (seen.0.from.as_str(), seen.0.subject.as_str(), seen.0.date()))
        .collect();
    told.sort();
    let date = Some("2001-02-05T10:00:00Z".to_owned());
    let senders = "eve@example.com, Bob, Alice Liddell <alice@example.com>";
    assert_eq!(
        told,
        [
            ("", "", None),
            ("", "", date.clone()),
            ("Alice Liddell <alice@example.com>", "Weiße whales", date.clone()),
            (senders, "Weiße ships", date),
        ]
    );
    assert!(read.values().any(|(seen, outcome)| *outcome == Reread::Whole && seen.1.contains("nobody's")));
    fs::write(&inbox, "no mailbox").unwrap();
    let read = reread_mailbox(&inbox, &wanted, Seen::default);
    assert!(read.len() == 4 && read.values().all(|(_, outcome)| *outcome == Reread::Changed));
}

#[test]
fn a_message_that_has_left_its_mailbox_is_gone() {
    let mut archive = Archive::new();
    let inbox = archive.write("inbox", mailbox(&["whale", "ship"]));
    archive.index().unwrap();
    let places = archive.ledger.find(&archive.oracle.published.keys().copied().collect());
    fs::write(&inbox, mailbox(&["ship"])).unwrap();
    let mut outcomes: Vec<String> =
        places.values().map(|place| reread(place, &mut |_: &str| {}).to_string()).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["", "is gone"]);
    fs::write(&inbox, "no mailbox any more").unwrap();
    assert!(places.values().all(|place| reread(place, &mut |_: &str| {}) == Reread::Changed));
    fs::remove_file(&inbox).unwrap();
    assert!(places.values().all(|place| reread(place, &mut |_: &str| {}) == Reread::Gone));
}

fn mailbox(messages: &[&str]) -> String {
    messages.iter().map(|body| format!("From a@b Mon\nSubject: {body}\nX: 1\n\nbody of {body}\n\n")).collect()
}

#[test]
fn messages_of_a_mailbox_are_documents_of_their_own() {
    let mut archive = Archive::new();
    let inbox = archive.write("inbox", mailbox(&["whale", "ship", "whale", "captain"]));
    let first = archive.index().unwrap();
    // The same message twice is one.
    assert_eq!(first.done.documents, 3);
    assert_eq!(archive.found("whale"), ["inbox"]);
    assert_eq!(archive.found("subject:ship -captain"), ["inbox"]);
    assert_eq!(archive.found("whale captain"), [""; 0]);
    fs::write(&inbox, mailbox(&["whale", "captain", "harpoon"])).unwrap();
    archive.restart();
    let second = archive.index().unwrap();
    assert_eq!((second.done.documents, second.done.removed), (1, 1));
    assert_eq!(archive.found("ship"), [""; 0]);
    assert_eq!(archive.found("harpoon").len() + archive.found("whale").len(), 2);
    // It becomes a text, and a mailbox again.
    fs::write(&inbox, "whale and ship, a text").unwrap();
    archive.index().unwrap();
    assert_eq!(archive.oracle.published.len(), 1);
    fs::write(&inbox, mailbox(&["whale", "ship"])).unwrap();
    archive.index().unwrap();
    assert_eq!(archive.oracle.published.len(), 2);
    fs::remove_file(&inbox).unwrap();
    archive.index().unwrap();
    assert_eq!((archive.oracle.published.len(), archive.ledger.len()), (0, 0));
}

/// A message is what it is, whatever is behind it: another, nothing, or not even the end of its line.
#[test]
fn a_message_has_one_name_at_the_end_of_its_mailbox_and_before_another() {
    let one = "From a@b Mon\nSubject: whale\n\nbody\n";
    let two = "From c@d Tue\nSubject: ship\n\nother\n";
    for (end, begin) in [("\n", "\n"), ("", "\n"), ("\r\n", "\r\n")] {
        let mut archive = Archive::new();
        // The first one again as the last, without the empty line that ends it where another follows.
        let inbox = archive.write("inbox", format!("{one}{begin}{two}{begin}{one}"));
        assert_eq!(archive.index().unwrap().done.documents, 2);
        fs::write(&inbox, format!("{one}{begin}{two}{end}")).unwrap();
        assert_eq!(
            archive.index().unwrap().done,
            Counts { files: 1, bytes: archive.heard.begun.1, ..Counts::default() }
        );
        let third = "From e@f Wed\nSubject: captain\n\nthird";
        fs::write(&inbox, format!("{one}{begin}{two}{begin}{third}")).unwrap();
        let added = archive.index().unwrap();
        assert_eq!((added.done.documents, added.done.removed), (1, 0));
        fs::write(&inbox, format!("{one}{begin}{two}{begin}{third}\n{begin}{one}")).unwrap();
        assert_eq!(archive.index().unwrap().done.documents, 0);
        assert_eq!(archive.found("ship").len(), 1);
    }
}

#[test]
fn a_message_that_a_maildir_moves_and_flags_is_the_same() {
    let mut archive = Archive::new();
    let new = archive.write("Mail/new/17.host", MESSAGE);
    archive.write("Mail/.Sent/cur/18.host:2,S", MESSAGE.replace("ship", "harpoon"));
    for folder in ["Mail/cur", "Mail/tmp", "Mail/.Sent/new", "Mail/.Sent/tmp"] {
        fs::create_dir_all(archive.folder.path().join(folder)).unwrap();
    }
    archive.write("Mail/tmp/19.host", "whale");
    archive.index().unwrap();
    assert_eq!(archive.found("whale"), ["Mail/.Sent/18.host", "Mail/17.host"]);
    fs::rename(&new, archive.folder.path().join("Mail/cur/17.host:2,RS")).unwrap();
    let updates = archive.oracle.updates;
    archive.index().unwrap();
    assert_eq!(archive.oracle.updates, updates);
    // It is found where it is now.
    assert_eq!(archive.found("ship"), ["Mail/17.host"]);
}

#[test]
fn a_run_that_is_killed_or_stopped_is_taken_up_where_it_was() {
    let mut archive = Archive::new();
    let words = |from: usize| (from..from + 9000).map(|number| format!("w{number} ")).collect::<String>();
    for number in 0..12 {
        archive.write(&format!("{number:02}.txt"), words(number * 100));
    }
    let messages: Vec<String> = (0..5000).map(|number| format!("m{number} common")).collect();
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    archive.write("zz.mbox", mailbox(&messages));
    archive.oracle.dies_after = Some(2);
    let error = archive.index().unwrap_err();
    assert!(matches!(error, IndexError::Service(ServiceError::Unreachable(_))), "{error}");
    let done = archive.ledger.len();
    assert!((2..12).contains(&done), "{done}");
    archive.restart();
    assert_eq!(archive.ledger.len(), done);
    archive.oracle.dies_after = None;
    // Stopped with one update done at each run, until nothing is left to do.
    archive.heard.stops = Stops::AtAdvance;
    let mut runs = 0;
    while archive.index().unwrap().stopped {
        archive.restart();
        runs += 1;
        assert!(runs < 50);
    }
    // What waits to be sent is less than what was left.
    assert!(runs > 0);
    assert_eq!(archive.ledger.len(), 13);
    assert_eq!(archive.oracle.published.len(), 5012);
    assert_eq!(archive.found("w1105").len(), 12);
    archive.heard.stops = Stops::Never;
    let last = archive.index().unwrap();
    assert_eq!((last.unchanged, last.done.documents), (13, 0));
}

/// Between two files, however little there is to send, and while files are looked for.
#[test]
fn a_run_stops_before_the_next_file() {
    let mut archive = Archive::new();
    for number in 0..20 {
        archive.write(&format!("{number}.txt"), "whale");
    }
    archive.heard.stops = Stops::AtBegin;
    let stopped = archive.index().unwrap();
    assert_eq!((stopped.stopped, stopped.done.files, archive.heard.begun.0), (true, 0, 20));
    archive.heard.stops = Stops::Never;
    assert!(!archive.index().unwrap().stopped);
    archive.heard.stops = Stops::AtOnce;
    archive.heard.begun = (0, 0);
    let stopped = archive.index().unwrap();
    // Nothing that was not looked for is gone.
    assert_eq!((stopped.stopped, stopped.unchanged, archive.heard.begun), (true, 0, (0, 0)));
    assert_eq!(archive.ledger.len(), 20);
}

/// Nobody writes into the pipe: opening it, or reading, would never end.
#[test]
fn what_is_no_file_is_not_opened() {
    let mut archive = Archive::new();
    archive.write("a.txt", "whale");
    let pipe = archive.folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let named = archive.index_at("pipe").unwrap();
    assert_eq!((named.problem_count, named.done.files), (1, 0));
    assert_eq!(named.problems[0].what, "it is no regular file");
    let below = archive.index().unwrap();
    assert_eq!((below.problem_count, below.done.files), (0, 1));
    // Nor where a file was that was found.
    let places = archive.ledger.find(&archive.oracle.published.keys().copied().collect());
    fs::rename(&pipe, archive.folder.path().join("a.txt")).unwrap();
    for place in places.values() {
        assert_eq!(reread(place, &mut |_: &str| {}).to_string(), "cannot be read: it is no regular file");
    }
}

/// A store that is made in a folder of texts takes none of them away.
#[test]
fn of_a_folder_with_a_store_only_the_stores_own_files_are_left_out() {
    let mut archive = Archive::new();
    archive.write("a.txt", "whale");
    archive.write("sub/b.txt", "whale");
    assert_eq!(archive.index().unwrap().done.documents, 2);
    for own in
        ["client/keyring.key", "client/ca.pem", "server/texts", "enclave-key", "development-root.public"]
    {
        archive.write(&format!("sub/{own}"), "whale");
    }
    archive.write("sub/client.txt", "whale");
    archive.write("server/c.txt", "whale");
    let again = archive.index().unwrap();
    assert_eq!((again.done.documents, again.done.removed, again.problem_count), (2, 0, 0));
    assert_eq!(again.left_out.len(), 1);
    assert!(again.left_out[0].path.ends_with("sub"), "{again:?}");
    assert!(again.left_out[0].what.starts_with("the index's own files (client, "), "{again:?}");
    assert_eq!(archive.found("whale"), ["a.txt", "server/c.txt", "sub/b.txt", "sub/client.txt"]);
    for own in ["sub/client", "sub/server/texts"] {
        let named = archive.index_at(own).unwrap();
        assert_eq!((named.problem_count, named.done.documents), (1, 0), "{own}");
    }
}

#[test]
fn what_cannot_be_read_is_named_and_stays_as_it_was() {
    let mut archive = Archive::new();
    archive.write("a.txt", "whale");
    let link = archive.folder.path().join("link.txt");
    std::os::unix::fs::symlink("/nowhere", &link).unwrap();
    let summary = archive.index().unwrap();
    // Links are not followed.
    assert_eq!((summary.done.files, summary.problem_count), (1, 0));
    let missing = archive.folder.path().join("missing");
    let mut collection = Collection::existing(&mut archive.oracle, "files").unwrap();
    let error = index(
        &mut collection,
        &mut archive.ledger,
        std::slice::from_ref(&missing),
        &mut archive.journal,
        &mut archive.heard,
    )
    .unwrap_err();
    assert!(error.to_string().starts_with(&missing.display().to_string()), "{error}");
    // To be taken out it need not be there.
    let folder = archive.folder.path().canonicalize().unwrap();
    fs::remove_file(folder.join("a.txt")).unwrap();
    let mut collection = Collection::existing(&mut archive.oracle, "files").unwrap();
    let removed =
        remove(&mut collection, &mut archive.ledger, &[folder], &mut archive.journal, &mut archive.heard)
            .unwrap();
    assert_eq!(removed.done.removed, 1);
    assert!(archive.ledger.is_empty() && archive.oracle.published.is_empty());
}
