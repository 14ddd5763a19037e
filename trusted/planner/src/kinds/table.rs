//! The rows.

use super::costs;
use super::{Availability, IndexKind, OrderedKeys, Serves};
use crate::physical::{KeyWidth, TIE_BREAK_BYTES};
use arras_protocol::leakage::{self, bplus, mope};
use arras_protocol::limits::KEY_BYTES_MAX;
use arras_protocol::table::index;

use Availability::{Asked, Available, Refused};

/// Keys of the protocols over integers of 32 or 64 bits.
const INTEGERS: OrderedKeys = OrderedKeys {
    widths: &[KeyWidth::Bits32, KeyWidth::Bits64],
    bytes_max: 8,
    fields_max: 1,
    typed: true,
    aggregates: false,
};

/// Keys of ArxRange, which garbles a comparison of any width.
pub(super) const ARX_RANGE_KEYS: OrderedKeys = OrderedKeys {
    widths: &[KeyWidth::Bits32, KeyWidth::Bits64, KeyWidth::Bits128],
    bytes_max: KEY_BYTES_MAX - TIE_BREAK_BYTES,
    fields_max: usize::MAX,
    typed: false,
    aggregates: true,
};

/// EQunique.
pub(crate) static UNIQUE: IndexKind = IndexKind {
    name: index::UNIQUE,
    title: "EQunique",
    serves: Serves::Unique,
    leakage: |_| leakage::UNIQUE,
    cost: costs::unique,
    insertion: costs::hashed_insertion,
    availability: Available,
};

/// ArxEq.
pub(crate) static ARX_EQ: IndexKind = IndexKind {
    name: index::ARX_EQ,
    title: "ArxEq",
    serves: Serves::Equality,
    leakage: |_| leakage::arx_eq::ARX_EQ,
    cost: costs::arx_eq,
    insertion: costs::hashed_insertion,
    availability: Available,
};

/// ArxRange.
pub(super) static ARX_RANGE: IndexKind = IndexKind {
    name: index::ARX_RANGE,
    title: "ArxRange",
    serves: Serves::Order(ARX_RANGE_KEYS),
    leakage: |_| leakage::arx_range::ARX_RANGE,
    cost: costs::arx_range,
    insertion: costs::arx_range_insertion,
    availability: Available,
};

static POPE: IndexKind = IndexKind {
    name: index::POPE,
    title: "POPE",
    serves: Serves::Order(INTEGERS),
    leakage: |_| leakage::pope::POPE,
    cost: costs::buffer_tree,
    insertion: costs::buffer_tree_insertion,
    availability: Available,
};

static MOPE: IndexKind = IndexKind {
    name: index::MOPE,
    title: "mOPE",
    serves: Serves::Order(INTEGERS),
    leakage: |_| mope::MOPE,
    cost: costs::walked_tree,
    insertion: |shape, statistics| costs::walked_tree_insertion(shape, statistics, false),
    availability: Available,
};

static STOPE: IndexKind = IndexKind {
    name: index::STOPE,
    title: "stOPE",
    serves: Serves::Order(INTEGERS),
    leakage: |_| mope::STOPE,
    cost: costs::walked_tree,
    insertion: |shape, statistics| costs::walked_tree_insertion(shape, statistics, true),
    availability: Available,
};

/// The row of a B+ tree over a scheme, by the bytes of a stored and of a query ciphertext.
macro_rules! bplus {
    ($name:path, $title:literal, $leakage:path, $stored:expr, $query:expr, $availability:expr) => {
        IndexKind {
            name: $name,
            title: $title,
            serves: Serves::Order(INTEGERS),
            leakage: |_| $leakage,
            cost: |shape, _, search| {
                const QUERY: fn(usize) -> usize = $query;
                costs::bplus(QUERY(shape.key_bytes), search)
            },
            insertion: |shape, _| {
                const STORED: fn(usize) -> usize = $stored;
                const QUERY: fn(usize) -> usize = $query;
                costs::bplus_insertion(QUERY(shape.key_bytes), STORED(shape.key_bytes))
            },
            availability: $availability,
        }
    };
    ($name:path, $title:literal, $leakage:path, $stored:expr, $query:expr) => {
        bplus!($name, $title, $leakage, $stored, $query, Available)
    };
}

/// A scheme that brings a library with it is there in builds that ask for it.
const fn in_build(is_built: bool, refusal: &'static str) -> Availability {
    if is_built { Asked } else { Refused(refusal) }
}

static BPLUS_BCLO: IndexKind = bplus!(
    index::BPLUS_BCLO,
    "B+ tree over BCLO",
    bplus::BPLUS_BCLO,
    |key| 2 * key,
    |key| 2 * key,
    in_build(cfg!(feature = "bclo"), "this proxy was built without BCLO (`cargo build --features bclo`)")
);
static BPLUS_CLWW: IndexKind =
    bplus!(index::BPLUS_CLWW, "B+ tree over CLWW", bplus::BPLUS_CLWW, |key| 2 * key, |key| 2 * key);
static BPLUS_LEWI_WU: IndexKind =
    bplus!(index::BPLUS_LEWI_WU, "B+ tree over Lewi-Wu", bplus::BPLUS_LEWI_WU, |key| 16 + 64 * key, |key| 17
        * key);
static BPLUS_CLOZ: IndexKind = bplus!(
    index::BPLUS_CLOZ,
    "B+ tree over CLOZ",
    bplus::BPLUS_CLOZ,
    |key| (8 * key + 1) * 48 + 28 + key,
    |key| (16 * key + 1) * 96,
    in_build(
        cfg!(feature = "cloz"),
        "this proxy was built without CLOZ and its pairings (`cargo build --features cloz`, the server too)"
    )
);
static BPLUS_FH_OPE: IndexKind =
    bplus!(index::BPLUS_FH_OPE, "B+ tree over FH-OPE", bplus::BPLUS_FH_OPE, |_| 8, |_| 8);

static LOGARITHMIC_BRC: IndexKind = IndexKind {
    name: index::LOGARITHMIC_BRC,
    title: "Logarithmic-BRC",
    serves: Serves::Order(INTEGERS),
    leakage: |_| leakage::logarithmic_brc::LOGARITHMIC_BRC,
    cost: costs::covered_lists,
    insertion: costs::covered_lists_insertion,
    availability: Refused(
        "it is for fields that are loaded in bulk and mostly read: a merge of large instances would stop writes for seconds",
    ),
};

static PATH_ORAM: IndexKind = IndexKind {
    name: index::PATH_ORAM,
    title: "Path ORAM with a B+ tree",
    serves: Serves::Order(INTEGERS),
    leakage: |_| leakage::path_oram::PATH_ORAM,
    cost: costs::oram_tree,
    insertion: costs::oram_tree_insertion,
    availability: Refused(
        "nothing of it can be in the transaction of a document: a change is in the client's pool, and buckets travel with later \
         requests",
    ),
};

static KERSCHBAUM_TUENO: IndexKind = IndexKind {
    name: index::KERSCHBAUM_TUENO,
    title: "Kerschbaum-Tueno",
    serves: Serves::Order(INTEGERS),
    leakage: |_| leakage::kerschbaum_tueno::KERSCHBAUM_TUENO,
    cost: costs::rotated_array,
    insertion: costs::rotated_array_insertion,
    availability: Refused(
        "every insertion rewrites its array and ends every search under way: beyond some 10,000 entries nothing else gets done",
    ),
};

/// All kinds. One more is one more row.
pub static ALL: [&IndexKind; 14] = [
    &UNIQUE,
    &ARX_EQ,
    &ARX_RANGE,
    &POPE,
    &MOPE,
    &STOPE,
    &BPLUS_BCLO,
    &BPLUS_CLWW,
    &BPLUS_LEWI_WU,
    &BPLUS_CLOZ,
    &BPLUS_FH_OPE,
    &LOGARITHMIC_BRC,
    &PATH_ORAM,
    &KERSCHBAUM_TUENO,
];
