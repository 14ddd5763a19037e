//! Reads `kat/*.json` of the schemes: an object with `cases`, byte strings in hexadecimal, 64-bit numbers in decimal
//! as strings (not all are exact as JSON numbers).

use arras_keys::Key;
use arras_protocol::ore::Width;
use serde_json::Value;

pub(crate) struct Case(Value);

impl Case {
    pub(crate) fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_else(|| panic!("no field {field} in {}", self.0))
    }

    pub(crate) fn bytes(&self, field: &str) -> Vec<u8> {
        let text = self.text(field);
        assert!(text.is_ascii() && text.len().is_multiple_of(2), "{text}");
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal"))
            .collect()
    }

    pub(crate) fn number(&self, field: &str) -> u64 {
        self.text(field).parse().expect("a number")
    }

    pub(crate) fn name(&self) -> &str {
        self.text("name")
    }

    pub(crate) fn index_key(&self) -> Key {
        Key::take_from(&mut self.bytes("index_key").try_into().expect("32 bytes"))
    }

    pub(crate) fn width(&self) -> Width {
        match self.number("width_bits") {
            32 => Width::Bits32,
            64 => Width::Bits64,
            other => panic!("a width of {other}"),
        }
    }

    pub(crate) fn must_pass(&self) -> bool {
        match self.text("expect") {
            "pass" => true,
            "fail" => false,
            other => panic!("expect is pass or fail, not {other}"),
        }
    }
}

/// The cases of a file in `kat/`, at least one.
pub(crate) fn read(file: &str) -> Vec<Case> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../kat").join(file);
    let text = std::fs::read_to_string(path).expect("the file is there");
    let mut file: Value = serde_json::from_str(&text).expect("JSON");
    let Value::Array(cases) = file["cases"].take() else { panic!("no cases") };
    assert!(!cases.is_empty());
    cases.into_iter().map(Case).collect()
}
