//! Order-preserving encodings kept in PostgreSQL: trees, OPE tables and heads of columns are ordinary tables of the schema
//! `arras` in the application's own database, and SQL functions installed beside them resolve ciphertexts to labels (Popa, Li
//! and Zeldovich, S&P 2013, section VIII). `docs/mope.md` says why it is safe beside other transactions.
//!
//! [`install`] makes tables and functions; [`TreeTables`] is one column's [`arras_protocol::mope::TreeStore`] over
//! [`Connections`]; [`Watched`] notices a database that was set back; [`Bound`] is what a statement compares labels with.

mod bound;
mod connections;
mod encoding;
mod examination;
mod freshness;
mod head_files;
mod heads;
mod installation;
mod installed;
mod labels;
mod recent;
mod restored;
mod statements;
mod strangers;
mod summaries;
mod tables;
mod watched;

pub use bound::{Bound, Learned, LearnedLabels};
pub(crate) use connections::failure;
pub use connections::{Connections, Dial, Dialled, Duplex, Settings, lacks_room};
pub use encoding::EncodingTurn;
pub use examination::{Examination, Snapshot};
pub(crate) use freshness::Question;
pub use freshness::{Freshness, FreshnessError, SetBack};
pub use head_files::FileHeads;
pub use heads::{Heads, Watched};
pub use installation::{INSTALL_LOCK, InstallError, Protocol, forget, install, register, store_in};
pub use installed::{Stored, lacking, lacking_in_places, not_trusted};
pub use recent::Recent;
pub(crate) use restored::{not_known_there, set_anew};
pub(crate) use statements::{hold_statement, is_holding, is_named_in};
pub(crate) use strangers::of_table as stranger_of_table;
pub use tables::{Reach, TreeTables};
pub use watched::{NotWatched, watch_older};

/// A column, by the eight bytes that the schema gave it, as the tables have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Column(i64);

impl Column {
    /// The number by which SQL knows it.
    #[must_use]
    pub fn number(self) -> i64 {
        self.0
    }
}

impl From<[u8; 8]> for Column {
    fn from(id: [u8; 8]) -> Self {
        Self(i64::from_be_bytes(id))
    }
}

impl std::fmt::Display for Column {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:x}", self.0)
    }
}
