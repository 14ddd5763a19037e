//! The protocols that can be measured: a row of [`ALL`] each.

mod driven;
mod make;
mod watched;

pub use driven::{Answer, Driven, DrivenFuture};
pub use watched::{SchemeCalls, SchemeTally, Watched};

use crate::channel::LabChannel;
use crate::plain_scheme::PlainScheme;
use crate::seed;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::IndexId;
use arras_protocol::kerschbaum_tueno::ENTRY_BYTES;
use arras_protocol::leakage::{self, Leakage};
use arras_protocol::ore::{Scheme, Width};
use arras_schemes::error::IndexError;
use arras_schemes::ore::bclo::Bclo;
use arras_schemes::ore::cloz::Cloz;
use arras_schemes::ore::clww::Clww;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What an index is made of.
#[derive(Debug)]
pub struct Making {
    /// The way to the server.
    pub channel: Arc<LabChannel>,
    /// Bits of a key.
    pub width: Width,
    /// Size of a page, in bytes: what nodes, buckets and blocks are to fit.
    pub page_bytes: usize,
    /// How many records there will be.
    pub records: usize,
    /// Everything random comes from it.
    pub seed: u64,
}

impl Making {
    /// The index's name on the server.
    #[must_use]
    pub fn index(&self) -> IndexId {
        IndexId([1; 8])
    }

    /// The index's key.
    #[must_use]
    pub fn key(&self) -> Key {
        seed::key(self.seed, "index")
    }

    /// The client half's randomness.
    #[must_use]
    pub fn prg(&self) -> Prg {
        seed::prg(self.seed, "client half")
    }
}

/// Says how large a state is.
pub type StateBytes = Box<dyn Fn() -> Pin<Box<dyn Future<Output = u64> + Send>> + Send + Sync>;

/// An index, ready to be measured.
pub struct Made {
    /// The client half.
    pub index: Box<dyn Driven>,
    /// Calls of its scheme, if it is over one.
    pub scheme: Option<SchemeTally>,
    /// Bytes of a stored ciphertext, if it is over a scheme.
    pub ciphertext_bytes: Option<u64>,
    /// Bytes of state the client half keeps besides its keys.
    pub state_bytes: StateBytes,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made(..)")
    }
}

/// How an index comes to its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Construction {
    /// All at once: one operation.
    Bulk,
    /// Each by an insertion of its own.
    OneByOne,
}

type MakeFuture = Pin<Box<dyn Future<Output = Result<Made, IndexError>> + Send>>;

/// A protocol that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolEntry {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// Its name in tables and plots.
    pub title: &'static str,
    /// What it leaks.
    pub leakage: fn(Width) -> Leakage,
    /// How it comes to its records.
    pub construction: Construction,
    /// Whether `all` means it, too. Not if a comparison takes most of a second.
    pub in_all: bool,
    /// Bytes of the smallest page it works with.
    pub page_bytes_min: fn(Width) -> usize,
    make: fn(Making) -> MakeFuture,
}

impl ProtocolEntry {
    /// Makes an empty index.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn make(&self, making: Making) -> Result<Made, IndexError> {
        (self.make)(making).await
    }
}

/// The row of a B+ tree over a scheme; `asked` if `all` does not mean it.
macro_rules! bplus {
    ($name:literal, $title:literal, $public:expr, $keyed:expr) => {
        bplus!($name, $title, $public, $keyed, true)
    };
    ($name:literal, $title:literal, $public:expr, $keyed:expr, asked) => {
        bplus!($name, $title, $public, $keyed, false)
    };
    ($name:literal, $title:literal, $public:expr, $keyed:expr, $in_all:literal) => {
        ProtocolEntry {
            name: $name,
            title: $title,
            leakage: |width| *leakage::bplus::bplus($public(width)),
            construction: Construction::OneByOne,
            in_all: $in_all,
            page_bytes_min: |width| make::bplus_page_bytes_min($public(width)),
            make: |making| make::bplus($keyed(&making), making),
        }
    };
}

/// All protocols, in the order of the tables. One more is one more row.
pub const ALL: &[ProtocolEntry] = &[
    bplus!("plain", "No encryption", Scheme::Plain, |making: &Making| PlainScheme(making.width)),
    bplus!("bplus_bclo", "B+ tree, BCLO", Scheme::Bclo, |making: &Making| Bclo::new(
        &making.key(),
        making.width
    )),
    bplus!("bplus_clww", "B+ tree, CLWW", Scheme::Clww, |making: &Making| Clww::new(
        &making.key(),
        making.width
    )),
    bplus!(
        "bplus_lewi_wu",
        "B+ tree, Lewi-Wu",
        |width| Scheme::LewiWu { width, block_bits: BlockBits::Eight.bits() },
        |making: &Making| LewiWu::new(&making.key(), making.width, BlockBits::Eight)
    ),
    bplus!(
        "bplus_cloz",
        "B+ tree, CLOZ",
        Scheme::Cloz,
        |making: &Making| Cloz::new(&making.key(), making.width),
        asked
    ),
    ProtocolEntry {
        name: "bplus_fh_ope",
        title: "B+ tree, FH-OPE",
        leakage: |width| *leakage::bplus::bplus(Scheme::FhOpe(width)),
        construction: Construction::OneByOne,
        in_all: true,
        page_bytes_min: |width| make::bplus_page_bytes_min(Scheme::FhOpe(width)),
        make: |making| make::stateful_bplus(FhOpe::new(making.width), making),
    },
    ProtocolEntry {
        name: "kerschbaum_tueno",
        title: "Kerschbaum-Tueno",
        leakage: |_| leakage::KERSCHBAUM_TUENO,
        construction: Construction::OneByOne,
        in_all: true,
        page_bytes_min: |_| ENTRY_BYTES,
        make: make::kerschbaum_tueno,
    },
    ProtocolEntry {
        name: "pope",
        title: "POPE",
        leakage: |_| leakage::POPE,
        construction: Construction::OneByOne,
        in_all: true,
        page_bytes_min: arras_schemes::pope::page_bytes_min,
        make: make::pope,
    },
    ProtocolEntry {
        name: "logarithmic_brc",
        title: "Logarithmic-BRC",
        leakage: |_| leakage::LOGARITHMIC_BRC,
        construction: Construction::Bulk,
        in_all: true,
        page_bytes_min: |_| 256,
        make: make::logarithmic_brc,
    },
    ProtocolEntry {
        name: "path_oram",
        title: "Path ORAM",
        leakage: |_| leakage::PATH_ORAM,
        construction: Construction::OneByOne,
        in_all: true,
        page_bytes_min: |_| 256,
        make: make::path_oram,
    },
    ProtocolEntry {
        name: "arx_range",
        title: "ArxRange",
        leakage: |_| leakage::ARX_RANGE,
        construction: Construction::OneByOne,
        in_all: true,
        page_bytes_min: |_| 64,
        make: make::arx_range,
    },
];

/// The protocol of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static ProtocolEntry> {
    ALL.iter().find(|protocol| protocol.name == name)
}

/// The names of all protocols, for messages.
#[must_use]
pub fn names() -> String {
    ALL.iter().map(|protocol| protocol.name).collect::<Vec<_>>().join(", ")
}
