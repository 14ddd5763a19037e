use super::texts::{DOCUMENT_BYTES, Texts};
use super::updates::Loading;
use arras_protocol::Blob;
use arras_schemes::bisen::Salt;
use arras_schemes::bisen::message::{Opened, Settings};
use arras_schemes::bisen::query::Padding;
use arras_schemes::bisen::update::Update;
use std::convert::Infallible;
use std::fs;

fn opened() -> Opened {
    let settings = Settings { fields: 2, padding: Padding::None, profile: Blob::default() };
    Opened {
        collection: 0,
        salt: Salt([7; 16]),
        settings,
        documents: 0,
        entries: 0,
        live_entries: 0,
        revision: 0,
    }
}

/// Texts in which `whale` is in every document, `half` in half of them.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..64 {
        let own: String = (0..60).map(|word| format!("own{file}x{word} ")).collect();
        let half = if file / 8 % 2 == 0 { "half" } else { "other" };
        fs::write(folder.path().join(format!("{file:02}.txt")), format!("whale {half} {own}")).unwrap();
    }
    fs::write(folder.path().join("image"), [0xff, 0xfe, 0]).unwrap();
    folder
}

#[test]
fn texts_are_cut_and_their_keywords_counted() {
    let folder = folder();
    fs::write(folder.path().join("long"), "whale ".repeat(DOCUMENT_BYTES)).unwrap();
    // Every eighth document is counted: eight files, less than the thousand keywords that are wanted.
    assert!(matches!(Texts::read(folder.path()), Err(super::BisenError::Texts(_))));
    for file in 0..64 {
        // One document each.
        let own: String = (0..140).map(|word| format!("more{file}x{word} ")).collect();
        fs::write(folder.path().join(format!("{file:02}.txt")), format!("whale {own}")).unwrap();
    }
    let texts = Texts::read(folder.path()).unwrap();
    assert!(texts.documents.len() >= 64 + 5);
    assert!(texts.documents.iter().all(|text| text.len() <= DOCUMENT_BYTES));
    assert_eq!(texts.popular(1), ["whale"]);
    assert!(texts.nearest(1.0).1 > 0.9);
}

#[test]
fn documents_are_taken_again_under_other_names_until_there_are_enough_pairs() {
    let folder = folder();
    for file in 0..32 {
        let own: String = (0..200).map(|word| format!("more{file}x{word} ")).collect();
        fs::write(folder.path().join(format!("b{file:02}.txt")), own).unwrap();
    }
    let texts = Texts::read(folder.path()).unwrap();
    let mut loading = Loading::new(&texts);
    let mut entries = 0;
    for until in [100, 40_000] {
        let filled = loading.fill(&opened(), until, |update: Update| {
            entries += update.pair_count() as u64;
            Ok::<(), Infallible>(())
        });
        let Ok(()) = filled;
        assert!((until..until + 1000).contains(&loading.pairs()));
        assert_eq!(loading.pairs(), entries, "each word is there once: an entry a pair");
    }
}
