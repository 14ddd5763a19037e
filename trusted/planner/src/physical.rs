//! The encrypted indexes there are to choose from, and the contract of what each can serve.

use crate::keys::KeyLayout;
use crate::kinds::{self, IndexKind, OrderProtocol, Shape, Tuning};
use crate::schema::FieldType;
use arras_protocol::leakage::Leakage;
use arras_protocol::limits::KEY_BYTES_MAX;
use std::fmt;

/// Bytes of a range key that tell equal keys of different documents apart.
pub const TIE_BREAK_BYTES: usize = 4;

/// Width of a range key over one field. A compound key has one part of this width a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyWidth {
    /// A part of 4 bytes: the type's tag and 3 bytes of the value.
    Bits32,
    /// A part of 8 bytes: the type's tag and 7 bytes of the value; holds 32-bit integers exactly.
    Bits64,
    /// A part of 12 bytes: the type's tag and 11 bytes of the value, which with the tie-break make 16 bytes;
    /// holds 64-bit integers, doubles and dates exactly.
    Bits128,
}

impl KeyWidth {
    /// The width of so many bits, if there is one.
    #[must_use]
    pub fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            32 => Some(Self::Bits32),
            64 => Some(Self::Bits64),
            128 => Some(Self::Bits128),
            _ => None,
        }
    }

    /// Its bits, as schemas and catalogs name it.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::Bits32 => 32,
            Self::Bits64 => 64,
            Self::Bits128 => 128,
        }
    }

    /// Bytes of one field's part of a key, its type tag included.
    #[must_use]
    pub fn component_bytes(self) -> u8 {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
            Self::Bits128 => 12,
        }
    }

    fn narrower(self) -> Option<Self> {
        match self {
            Self::Bits32 => None,
            Self::Bits64 => Some(Self::Bits32),
            Self::Bits128 => Some(Self::Bits64),
        }
    }
}

/// An encrypted index over one collection.
///
/// What each serves:
/// * `Unique` and `Eq`: equality (`$in`, null) on *all* their fields together; nothing on some of them only,
///   because they match completely (Arx §7.1).
/// * `Range`: like a regular index on its fields in order: equality on any prefix, then a range or the order of
///   the field after it, by one of the protocols of [`crate::kinds`]. The compound key is the fields' parts, one after the other (Arx §7.1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhysicalIndex {
    /// EQunique: at most one document for each tuple of values.
    Unique {
        /// Its fields, in order.
        fields: Vec<String>,
    },
    /// ArxEq.
    Eq {
        /// Its fields, in order.
        fields: Vec<String>,
    },
    /// An index of an order.
    Range {
        /// Which protocol gives it.
        protocol: OrderProtocol,
        /// Leading fields.
        equal: Vec<String>,
        /// The last field.
        range: String,
        /// Width of the key.
        width: KeyWidth,
        /// The declared type of its field, if keys hold values of that type without a tag.
        typed: Option<FieldType>,
        /// Sealed partial aggregates: none, or the count and the sums of these fields.
        aggregates: Option<Vec<String>>,
    },
}

impl PhysicalIndex {
    /// An ArxRange index on fields in order. Narrows the parts, then drops last fields, until the key fits
    /// [`KEY_BYTES_MAX`]: a dropped field is left to the proxy's re-check.
    ///
    /// Returns `None` for no fields.
    #[must_use]
    pub fn range(fields: &[String], width: KeyWidth, aggregates: Option<Vec<String>>) -> Option<Self> {
        let parts_bytes = KEY_BYTES_MAX - TIE_BREAK_BYTES;
        let fits = |width: KeyWidth| fields.len() * usize::from(width.component_bytes()) <= parts_bytes;
        let mut width = width;
        // A part of 4 bytes holds too little to narrow a search by, so that width is never chosen for a user.
        while !fits(width) && width.narrower().is_some_and(|narrower| narrower > KeyWidth::Bits32) {
            width = width.narrower()?;
        }
        let kept = fields.len().min(parts_bytes / usize::from(width.component_bytes()));
        let (range, equal) = fields.get(..kept)?.split_last()?;
        let (protocol, typed) = (OrderProtocol::default(), None);
        Some(Self::Range { protocol, equal: equal.to_vec(), range: range.clone(), width, typed, aggregates })
    }

    /// Its fields, in order.
    #[must_use]
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Self::Unique { fields } | Self::Eq { fields } => fields.iter().map(String::as_str).collect(),
            Self::Range { equal, range, .. } => equal.iter().chain([range]).map(String::as_str).collect(),
        }
    }

    /// The row of its kind.
    #[must_use]
    pub fn kind(&self) -> &'static IndexKind {
        match self {
            Self::Unique { .. } => &kinds::UNIQUE,
            Self::Eq { .. } => &kinds::ARX_EQ,
            Self::Range { protocol, .. } => protocol.kind(),
        }
    }

    /// What its leakage and its costs depend on.
    #[must_use]
    pub fn shape(&self, tuning: Tuning) -> Shape {
        Shape { key_bytes: self.key_bytes().unwrap_or(0), tuning }
    }

    /// What it leaks.
    #[must_use]
    pub fn leakage(&self, tuning: Tuning) -> Leakage {
        (self.kind().leakage)(&self.shape(tuning))
    }

    /// How values become parts of a range key; none for other indexes, which hash values whole.
    #[must_use]
    pub fn layout(&self) -> Option<KeyLayout> {
        match self {
            Self::Range { width, typed, .. } => {
                Some(KeyLayout { part_bytes: usize::from(width.component_bytes()), typed: *typed })
            }
            Self::Unique { .. } | Self::Eq { .. } => None,
        }
    }

    /// Bytes of a whole range key, without its tie-break.
    #[must_use]
    pub fn key_bytes(&self) -> Option<usize> {
        Some(self.layout()?.part_bytes * self.fields().len())
    }

    /// Would `self` serve everything `other` serves, as cheaply in the asymptotic sense? A range index stands
    /// for those on its leading fields; nothing but itself (in any order of fields) stands for an equality index.
    #[must_use]
    pub fn implies(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unique { fields: own }, Self::Eq { fields }) => same_fields(own, fields),
            (Self::Unique { fields: own }, Self::Unique { fields })
            | (Self::Eq { fields: own }, Self::Eq { fields }) => same_fields(own, fields),
            (
                Self::Range {
                    protocol: own,
                    width: own_width,
                    typed: own_typed,
                    aggregates: own_aggregates,
                    ..
                },
                Self::Range { protocol, width, typed, aggregates, .. },
            ) => {
                let aggregated = match (own_aggregates, aggregates) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some(own), Some(fields)) => fields.iter().all(|field| own.contains(field)),
                };
                let keyed = own_width >= width && own_typed == typed;
                own == protocol && aggregated && keyed && self.fields().starts_with(&other.fields())
            }
            _ => false,
        }
    }
}

fn same_fields(left: &[String], right: &[String]) -> bool {
    left.len() == right.len() && left.iter().all(|field| right.contains(field))
}

/// The indexes without those that others imply.
#[must_use]
pub fn minimise(indexes: Vec<PhysicalIndex>) -> Vec<PhysicalIndex> {
    let mut kept: Vec<PhysicalIndex> = Vec::with_capacity(indexes.len());
    for index in indexes {
        if kept.iter().any(|other| other.implies(&index)) {
            continue;
        }
        kept.retain(|other| !index.implies(other));
        kept.push(index);
    }
    kept
}

impl fmt::Display for PhysicalIndex {
    /// In the notation of Arx: `ArxEq(a, b)`, `ArxRange(x, y)`; the alternate form (`{:#}`) adds what partial
    /// aggregates a range index carries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.kind().title, self.fields().join(", "))?;
        match self {
            Self::Range { aggregates: Some(sums), .. } if f.alternate() && sums.is_empty() => {
                write!(f, " with counts")
            }
            Self::Range { aggregates: Some(sums), .. } if f.alternate() => {
                write!(f, " with counts and sums of {}", sums.join(", "))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
