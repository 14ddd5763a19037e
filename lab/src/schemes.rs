//! The OPE and ORE schemes that can be measured on their own: a row of [`ALL`] each.

use crate::plain_scheme::PlainScheme;
use arras_keys::Key;
use arras_protocol::ore::Width;
use arras_schemes::ore::OrderScheme;
use arras_schemes::ore::bclo::Bclo;
use arras_schemes::ore::cloz::Cloz;
use arras_schemes::ore::clww::Clww;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu};

/// A scheme that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct SchemeEntry {
    /// Its name in results, with its parameters if there are several of it.
    pub name: &'static str,
    /// Its name in tables and plots.
    pub title: &'static str,
    /// How many times as long an operation takes as one of the others, roughly: fewer are measured then.
    pub slowness: usize,
    make: fn(&Key, Width) -> Box<dyn OrderScheme>,
}

impl SchemeEntry {
    /// The scheme's keyed half, without state.
    #[must_use]
    pub fn make(&self, key: &Key, width: Width) -> Box<dyn OrderScheme> {
        (self.make)(key, width)
    }
}

/// All schemes, in the order of the paper: the least secure first.
pub const ALL: &[SchemeEntry] = &[
    SchemeEntry {
        name: "plain",
        title: "No encryption",
        slowness: 1,
        make: |_, width| Box::new(PlainScheme(width)),
    },
    SchemeEntry {
        name: "bclo",
        title: "BCLO",
        slowness: 1,
        make: |key, width| Box::new(Bclo::new(key, width)),
    },
    SchemeEntry {
        name: "clww",
        title: "CLWW",
        slowness: 1,
        make: |key, width| Box::new(Clww::new(key, width)),
    },
    SchemeEntry {
        name: "lewi_wu_2",
        title: "Lewi-Wu, d = 2",
        slowness: 1,
        make: |key, width| Box::new(LewiWu::new(key, width, BlockBits::Two)),
    },
    SchemeEntry {
        name: "lewi_wu_4",
        title: "Lewi-Wu, d = 4",
        slowness: 1,
        make: |key, width| Box::new(LewiWu::new(key, width, BlockBits::Four)),
    },
    SchemeEntry {
        name: "lewi_wu_8",
        title: "Lewi-Wu, d = 8",
        slowness: 1,
        make: |key, width| Box::new(LewiWu::new(key, width, BlockBits::Eight)),
    },
    SchemeEntry {
        name: "cloz",
        title: "CLOZ",
        slowness: 250,
        make: |key, width| Box::new(Cloz::new(key, width)),
    },
    SchemeEntry {
        name: "fh_ope",
        title: "FH-OPE",
        slowness: 1,
        make: |_, width| Box::new(FhOpe::new(width)),
    },
];

/// The scheme of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static SchemeEntry> {
    ALL.iter().find(|scheme| scheme.name == name)
}
