//! Reads the known-answer vectors in `kat/`: cases are separated by empty lines, fields are `name: value`,
//! values are hexadecimal unless said otherwise, a field may come several times, `#` starts a comment line.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

pub(crate) struct Case {
    fields: Vec<(String, String)>,
}

impl Case {
    pub(crate) fn text(&self, field: &str) -> &str {
        let mut values = self.fields.iter().filter(|(name, _)| name == field);
        let value = values.next().unwrap_or_else(|| panic!("no field {field}"));
        assert!(values.next().is_none(), "several fields {field}");
        &value.1
    }

    pub(crate) fn bytes(&self, field: &str) -> Vec<u8> {
        unhex(self.text(field))
    }

    pub(crate) fn array<const N: usize>(&self, field: &str) -> [u8; N] {
        self.bytes(field).try_into().unwrap()
    }

    pub(crate) fn number(&self, field: &str) -> u64 {
        self.text(field).parse().unwrap()
    }

    pub(crate) fn list(&self, field: &str) -> Vec<Vec<u8>> {
        self.fields.iter().filter(|(name, _)| name == field).map(|(_, value)| unhex(value)).collect()
    }

    pub(crate) fn name(&self) -> &str {
        self.text("name")
    }

    pub(crate) fn must_pass(&self) -> bool {
        match self.text("expect") {
            "pass" => true,
            "fail" => false,
            other => panic!("expect is pass or fail, not {other}"),
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.is_ascii() && text.len().is_multiple_of(2), "not hexadecimal: {text}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// The cases of a file in `kat/`, at least one.
pub(crate) fn read(file: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kat").join(file);
    let text = fs::read_to_string(path).unwrap();
    let cases: Vec<Case> = text
        .split("\n\n")
        .map(|paragraph| {
            paragraph.lines().filter(|line| !line.starts_with('#')).map(field).collect::<Vec<_>>()
        })
        .filter(|fields| !fields.is_empty())
        .map(|fields| Case { fields })
        .collect();
    assert!(!cases.is_empty(), "no cases in {file}");
    cases
}

fn field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap();
    (name.to_string(), value.trim().to_string())
}
