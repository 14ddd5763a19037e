//! Table 4: how many primitives a scheme calls, and how large it makes things.

use super::CompareArguments;
use super::cell::{Band, Cell, Reasons, explain};
use crate::datasets::{Dataset, NumberType};
use crate::schemes::{self, SchemeEntry};
use crate::seed;
use arras_primitives::meter::{Primitive, Reading, reading};
use arras_protocol::ore::Width;
use arras_schemes::ore::End;
use arras_server::ore::compare;
use std::cmp::Ordering;

/// Data points of the paper's simulation.
const POINTS: usize = 1000;

/// A cell's column, its paper's value, and ours from what was measured.
type Column = (&'static str, f64, fn(&Measured) -> f64);

/// Primitive calls of one operation, in the mean, and sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    encryptions: f64,
    encryption: Reading,
    comparisons: f64,
    comparison: Reading,
    ciphertext_bytes: f64,
    state_bytes: f64,
}

impl Measured {
    fn encryption(&self, primitive: Primitive) -> f64 {
        self.encryption.of(primitive) as f64 / self.encryptions.max(1.0)
    }

    fn comparison(&self, primitive: Primitive) -> f64 {
        self.comparison.of(primitive) as f64 / self.comparisons.max(1.0)
    }
}

const SIZE: &str = "size, bytes";

/// The table: the scheme's name here, its name in the paper, its columns. The paper has sizes in bits.
const ROWS: [(&str, &str, &[Column]); 5] = [
    (
        "bclo",
        "BCLO",
        &[
            ("encryption: HG samples", 41.0, |m| m.encryption(Primitive::HypergeometricSample)),
            (SIZE, 8.0, |m| m.ciphertext_bytes),
        ],
    ),
    (
        "clww",
        "CLWW",
        &[("encryption: PRF", 32.0, |m| m.encryption(Primitive::Prf)), (SIZE, 8.0, |m| m.ciphertext_bytes)],
    ),
    (
        "lewi_wu_2",
        "Lewi-Wu",
        &[
            ("encryption: PRP", 32.0, |m| m.encryption(Primitive::Prp)),
            ("encryption: PRF", 160.0, |m| m.encryption(Primitive::Prf)),
            ("encryption: hash", 64.0, |m| m.encryption(Primitive::Hash)),
            ("comparison: hash", 9.0, |m| m.comparison(Primitive::Hash)),
            (SIZE, 352.0, |m| m.ciphertext_bytes),
        ],
    ),
    (
        "cloz",
        "CLOZ",
        &[
            ("encryption: PRF", 32.0, |m| m.encryption(Primitive::Prf)),
            ("encryption: PPH", 32.0, |m| m.encryption(Primitive::PphHash)),
            ("encryption: PRP", 1.0, |m| m.encryption(Primitive::Prp)),
            ("comparison: PPH tests", 1046.0, |m| m.comparison(Primitive::PphTest)),
            (SIZE, 512.0, |m| m.ciphertext_bytes),
        ],
    ),
    (
        "fh_ope",
        "FH-OPE",
        &[
            ("encryption: traversals", 1.0, |m| m.encryption(Primitive::Traversal)),
            ("comparison: traversals", 1.0, |m| m.comparison(Primitive::Traversal)),
            ("state of 1,000 values, bytes", 86_842.0 / 8.0, |m| m.state_bytes),
        ],
    ),
];

/// Why cells are outside the band.
pub(super) const REASONS: Reasons = &[
    (
        "BCLO",
        "encryption: HG samples",
        Band::Below,
        "samples of upper steps, which many encryptions have in common, are kept; cold, there are 33.3 in the mean",
    ),
    ("Lewi-Wu", SIZE, Band::Below, "the right ciphertext alone is stored, and a trit takes two bits"),
    (
        "CLOZ",
        SIZE,
        Band::Above,
        "hashes are points of a real pairing curve, 48 bytes each, and the value is sealed beside them to be decrypted",
    ),
    (
        "FH-OPE",
        "comparison: traversals",
        Band::Below,
        "a query's ends are looked up once, when it is asked; comparing is comparing numbers",
    ),
];

/// The table, the mean over the data sets. Comparisons are between the ciphertexts of neighbouring points.
#[must_use]
pub fn table4(arguments: &CompareArguments) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (name, row, columns) in ROWS {
        let measured = schemes::named(name).map(|scheme| measure(scheme, arguments.seed));
        for (column, paper, ours) in columns {
            let mut cell = Cell {
                table: 4,
                dataset: None,
                row: row.to_owned(),
                column: (*column).to_owned(),
                paper: *paper,
                ours: measured.as_ref().map(ours),
                reason: None,
            };
            explain(&mut cell, REASONS);
            cells.push(cell);
        }
    }
    cells
}

/// Encrypts points of each data set and compares each point's ciphertexts with the next one's: less, less or equal,
/// equal, greater or equal, greater are one comparison each here as in the paper.
fn measure(entry: &SchemeEntry, seed: u64) -> Measured {
    let mut measured = Measured::default();
    let points = (POINTS / entry.slowness).max(4);
    for dataset in super::DATASETS {
        measure_on(entry, dataset, points, seed, &mut measured);
    }
    measured.state_bytes /= super::DATASETS.len() as f64;
    measured
}

fn measure_on(entry: &SchemeEntry, dataset: Dataset, points: usize, seed: u64, measured: &mut Measured) {
    let domain = NumberType::I32.domain();
    let values: Vec<u64> = dataset
        .values(points, seed)
        .into_iter()
        .filter_map(|value| domain.plaintext(i128::from(value)))
        .collect();
    let mut scheme = entry.make(&seed::key(seed, "table 4"), Width::Bits32);
    let mut prg = seed::prg(seed, "table 4");
    let public = scheme.scheme();
    let before = reading();
    for value in &values {
        // The domain holds every point, and no scheme is full of a thousand.
        let _ = scheme.encrypt(*value, &mut prg);
    }
    measured.encryption = measured.encryption + (reading() - before);
    measured.encryptions += values.len() as f64;
    measured.ciphertext_bytes = public.stored_bytes().unwrap_or(0) as f64;
    measured.state_bytes += scheme.state_bytes() as f64;
    let stored: Vec<Vec<u8>> =
        values.iter().filter_map(|value| Some(scheme.encrypt(*value, &mut prg).ok()?.stored)).collect();
    for (value, stored) in values.iter().zip(stored.iter().skip(1)) {
        let Ok(query) = scheme.bound(*value, End::Lower, &mut prg) else { continue };
        let before = reading();
        // One comparison answers all five questions; the paper asks each anew, and counts each.
        let _: Result<Ordering, _> = compare(public, &query, stored);
        measured.comparison = measured.comparison + (reading() - before);
        measured.comparisons += 1.0;
    }
}
