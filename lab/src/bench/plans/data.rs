//! The data: orders of a shop, with values that are unique, rare, frequent and in ranges.

use bson::{Bson, Document, doc};

/// An index of the application.
#[derive(Clone, Copy, Debug)]
pub(super) struct Index {
    pub(super) fields: &'static [&'static str],
    pub(super) unique: bool,
}

impl Index {
    pub(super) fn name(&self) -> String {
        self.fields.join("_")
    }

    /// As `createIndexes` takes it.
    pub(super) fn request(&self) -> Document {
        let key: Document = self.fields.iter().map(|field| ((*field).to_owned(), Bson::Int32(1))).collect();
        doc! { "key": key, "name": self.name(), "unique": self.unique }
    }
}

pub(super) fn indexes() -> Vec<Index> {
    let regular = |fields| Index { fields, unique: false };
    vec![
        Index { fields: &["email"], unique: true },
        regular(&["country"]),
        regular(&["status"]),
        regular(&["placed"]),
        regular(&["score"]),
        regular(&["customer", "placed"]),
        regular(&["a", "b", "c"]),
    ]
}

/// A number without a pattern (SplitMix64) for each document and purpose.
pub(super) fn mixed(seed: u64, id: u64, purpose: u64) -> u64 {
    let mut mixed =
        seed ^ id.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ purpose.wrapping_mul(0xD1B5_4A32_D192_ED03);
    for factor in [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(factor);
    }
    mixed ^ (mixed >> 31)
}

/// Customers have so many orders each, on average.
const ORDERS_EACH: usize = 33;
/// Times at which orders are placed, for each order.
const TIMES_EACH: u64 = 4;

/// Times at which orders may have been placed.
pub(super) fn times(count: usize) -> i64 {
    (count as u64 * TIMES_EACH) as i64
}

/// So many orders.
pub(super) fn orders(count: usize, seed: u64) -> Vec<Document> {
    let customers = (count / ORDERS_EACH).max(1) as u64;
    let order = |id: u64| {
        let below = |purpose: u64, most: u64| (mixed(seed, id, purpose) % most) as i64;
        let country = if below(1, 100) < 98 { "CH".to_owned() } else { format!("X{}", below(2, 20)) };
        let status = match below(3, 100) {
            0..2 => "failed",
            2..10 => "open",
            _ => "done",
        };
        doc! {
            "_id": id as i64,
            "email": format!("{id}@example.com"),
            "country": country,
            "status": status,
            "placed": below(4, count as u64 * TIMES_EACH),
            "score": below(5, 1000),
            "customer": below(6, customers),
            "a": below(7, 100),
            "b": below(8, 100),
            "c": below(9, 1_000_000),
            "total": below(10, 100_000) as f64 / 100.0,
        }
    };
    (0..count as u64).map(order).collect()
}
