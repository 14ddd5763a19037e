//! Queries of boolean search, in both grammars.
#![no_main]

use arras_fuzz::seed;
use arras_search::condition::Condition;
use arras_search::grammar::{parse, text_search};
use arras_search::language::Language;
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    [
        "(whale OR ship) AND NOT \"old captain\"",
        "from:alice subject:\"white whale\" -date:2001-01..2001-06 size:>=10k",
        "whale \"white whale\" -captain -\"old man\"",
        "date:2001-01-01T00:00:00.. size:..5M",
    ]
    .map(|query| query.as_bytes().to_vec())
    .to_vec()
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Ok(query) = std::str::from_utf8(bytes) else { return };
    for (read, is_printed) in [(parse(query).map(Some), true), (text_search(query), false)] {
        match read {
            Ok(None) => {}
            Ok(Some(formula)) => {
                let printed = formula.to_string();
                assert!(!is_printed || parse(&printed).as_ref() == Ok(&formula), "{printed}");
                let _ = Condition::new(&formula, Language::English);
            }
            Err(error) => {
                assert!(query.get(error.place.clone()).is_some(), "{error}");
                let _ = error.pointer(query);
            }
        }
    }
});
