//! Text to keywords: any text, in any language, cut anywhere.
#![no_main]

use arras_fuzz::seed;
use arras_search::analysis::{Collector, KEYWORD_BYTES_MAX};
use arras_search::language::Language;
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    [
        "\u{3}The white whales' ships sank, didn't they? v1.2",
        "\u{f}IŞIK Straße Σίσυφος caf\u{65}\u{301} 日本語",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn keywords(language: Language, pieces: &[&str]) -> Vec<(String, u32, Vec<u32>)> {
    let mut collector = Collector::new(language);
    collector.begin();
    pieces.iter().for_each(|piece| collector.feed(piece));
    collector.finish().iter().map(|it| (it.text.to_owned(), it.frequency, it.positions.to_vec())).collect()
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let languages: Vec<Language> = Language::all().collect();
    let language = languages[usize::from(*choice) % languages.len()];
    let whole = keywords(language, &[&text]);
    assert!(whole.iter().all(|(keyword, ..)| keyword.len() <= KEYWORD_BYTES_MAX));
    let (one, other) = text.split_at(text.floor_char_boundary(usize::from(*choice)));
    assert_eq!(keywords(language, &[one, other]), whole);
});
