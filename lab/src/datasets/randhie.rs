//! Incomes of the RAND Health Insurance Experiment, in the public domain; `trusted/proxy/data/README.md` has the
//! source.

use std::io::Read;
use std::sync::OnceLock;

const TABLE: &[u8] = include_bytes!("../../../trusted/proxy/data/randhie.csv.gz");

/// Income of each person-year, in dollars, cents cut off.
pub(super) fn incomes() -> Vec<i64> {
    static INCOMES: OnceLock<Vec<i64>> = OnceLock::new();
    INCOMES.get_or_init(read).clone()
}

fn read() -> Vec<i64> {
    let mut text = String::new();
    if flate2::read::GzDecoder::new(TABLE).read_to_string(&mut text).is_err() {
        return Vec::new();
    }
    let mut lines = text.lines();
    let at = lines.next().and_then(|header| header.split(',').position(|name| name == "income"));
    let income = |line: &str| line.split(',').nth(at?)?.parse::<f64>().ok().map(|income| income as i64);
    lines.filter_map(income).collect()
}
