//! The table of protocols: of each its number on the wire, its name, its limits and what indexes over its messages are called.
//!
//! Everyone else takes them from here: the messages ([`crate::Protocol`]), the server's halves, the planner's kinds of index, the
//! laboratory, statements of leakage. Rows are made in this module alone, so that no protocol is without one.

use crate::channel::ProtocolId;
use crate::codec::EXPANSION;

/// A protocol.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    id: ProtocolId,
    name: &'static str,
    request_expansion: usize,
    laboratory: bool,
    indexes: &'static [&'static str],
}

impl Row {
    /// The byte of every frame that says whose the body is.
    #[must_use]
    pub const fn id(&self) -> ProtocolId {
        self.id
    }

    /// What logs, refusals and reports call it. Where indexes over its messages are of one kind, the kind has this name too.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// How many times its size the lists of a request may take in memory: [`crate::codec::memory_max`].
    #[must_use]
    pub const fn request_expansion(&self) -> usize {
        self.request_expansion
    }

    /// Whether only builds of the laboratory have its messages and halves: no field may have an index of it.
    #[must_use]
    pub const fn is_laboratory(&self) -> bool {
        self.laboratory
    }

    /// The kinds of index over its messages, as [`index`] names them; none where it serves no index of its own.
    #[must_use]
    pub const fn indexes(&self) -> &'static [&'static str] {
        self.indexes
    }
}

/// The row of the protocol of a number, whether or not this build has its messages.
#[must_use]
pub fn of(id: ProtocolId) -> Option<&'static Row> {
    ALL.iter().find(|row| row.id == id)
}

/// What a row does not say.
const USUAL: Row =
    Row { id: ProtocolId(0), name: "", request_expansion: EXPANSION, laboratory: false, indexes: &[] };

macro_rules! table {
    ($($id:literal $row:ident $name:literal
        $(, $limit:ident: $value:expr)*
        $(=> [$($index:ident $called:literal),+ $(,)?])?;
    )+) => {
        $(
            #[doc = concat!("The row of `", $name, "`.")]
            pub const $row: Row = Row {
                id: ProtocolId($id),
                name: $name,
                $($limit: $value,)*
                $(indexes: &[$($called),+],)?
                ..USUAL
            };
        )+

        /// All rows, by their numbers.
        pub const ALL: &[Row] = &[$($row),+];

        /// What indexes are called by `arras lab run`, in schemas (`order = "..."`), `createIndexes`, catalogs and documentation.
        pub mod index {
            $($($(
                #[doc = concat!("An index over the messages of `", $name, "`.")]
                pub const $index: &str = $called;
            )+)?)+
        }
    };
}

// A number is never used for another protocol.
table! {
    1 HELLO "hello";
    2 DOCUMENTS "documents";
    // Every step takes the memory of the largest, a circuit's; a removal is a fifth of that as bytes.
    3 WRITE "write", request_expansion: 8;
    4 UNIQUE "eq_unique" => [UNIQUE "eq_unique"];
    5 ARX_EQ "arx_eq" => [ARX_EQ "arx_eq"];
    6 ARX_RANGE "arx_range" => [ARX_RANGE "arx_range"];
    7 BPLUS "bplus" => [
        PLAIN "plain",
        BPLUS_BCLO "bplus_bclo",
        BPLUS_CLWW "bplus_clww",
        BPLUS_LEWI_WU "bplus_lewi_wu",
        BPLUS_CLOZ "bplus_cloz",
        BPLUS_FH_OPE "bplus_fh_ope",
    ];
    8 KERSCHBAUM_TUENO "kerschbaum_tueno", laboratory: true => [KERSCHBAUM_TUENO "kerschbaum_tueno"];
    9 POPE "pope" => [POPE "pope"];
    10 LOGARITHMIC_BRC "logarithmic_brc", laboratory: true => [LOGARITHMIC_BRC "logarithmic_brc"];
    11 PATH_ORAM "path_oram", laboratory: true => [PATH_ORAM "path_oram"];
    12 ARX_EQ_ENTRIES "arx_eq_entries";
    13 MOPE "mope" => [MOPE "mope", STOPE "stope"];
}

#[cfg(test)]
mod tests;
