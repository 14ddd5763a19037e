//! What a statement compares a column's labels with.

use super::labels::to_database;
use arras_protocol::mope::Label;

/// A label, and the epoch of labels that it was learned in: good for a transaction that sees no later epoch, though it may be
/// too old to see the label's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// What the value is ordered by in the database, in that epoch.
    pub label: Label,
    /// How often labels of the column had changed.
    pub epoch: i64,
}

/// The labels of ciphertexts, learned together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedLabels {
    /// In the order in which they were asked for; none of one that is not stored.
    pub of: Vec<Option<Learned>>,
    /// How often labels of the column had changed.
    pub epoch: i64,
}

/// The end of a range of labels, as `arras.mope_bound` takes it: never a label alone, which a relabelling may change before
/// the statement runs, but a ciphertext whose label the statement's own snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound<'a> {
    /// Below every label. Equal to none, too.
    Least,
    /// Above every label. Equal to none, too.
    Greatest,
    /// The label of a stored ciphertext.
    At(&'a [u8], Option<Learned>),
    /// A number below that, and above the label before it or equal to that: `>` becomes "not less".
    JustBelow(&'a [u8], Option<Learned>),
    /// A number above that, and below the label after it or equal to that: `<` becomes "not greater".
    JustAbove(&'a [u8], Option<Learned>),
}

impl Learned {
    /// The label, as the functions take it.
    #[must_use]
    pub fn label_bytes(&self) -> [u8; 8] {
        to_database(self.label).to_be_bytes()
    }

    /// The label and its epoch, as the functions take them.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [self.label_bytes(), self.epoch.to_be_bytes()].concat()
    }
}

impl Bound<'_> {
    /// The bytes that the function takes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, ciphertext, learned) = match self {
            Self::Least => return vec![0],
            Self::Greatest => return vec![1],
            Self::At(ciphertext, learned) => (2, ciphertext, learned),
            Self::JustBelow(ciphertext, learned) => (3, ciphertext, learned),
            Self::JustAbove(ciphertext, learned) => (4, ciphertext, learned),
        };
        let Some(learned) = learned else {
            return [&[kind], *ciphertext].concat();
        };
        [&[kind + 16], &learned.encode()[..], ciphertext].concat()
    }

    /// The bytes of a bound that is good only for who sees the epoch that it was learned in: where keys leave, another may see
    /// rows between the bound and its neighbour. `None` if its label was not learned.
    #[must_use]
    pub fn encode_of_epoch(&self, epoch: i64) -> Option<Vec<u8>> {
        let mut bytes = self.encode();
        let kind = bytes.first_mut()?;
        match self {
            Self::Least | Self::Greatest => {
                *kind += 48;
                bytes.extend([[0; 8], epoch.to_be_bytes()].concat());
            }
            Self::At(_, learned) | Self::JustBelow(_, learned) | Self::JustAbove(_, learned) => {
                (*learned)?;
                *kind += 32;
            }
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_that_the_function_reads() {
        assert_eq!((Bound::Least.encode(), Bound::Greatest.encode()), (vec![0], vec![1]));
        assert_eq!(Bound::At(b"ab", None).encode(), b"\x02ab");
        let learned = Some(Learned { label: 1 << 63 | 7, epoch: 258 });
        assert_eq!(
            Bound::JustBelow(b"ab", learned).encode(),
            b"\x13\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\x01\x02ab"
        );
        assert_eq!(Bound::JustAbove(b"ab", learned).encode()[0], 20);
        let of_epoch = |bound: Bound<'_>| bound.encode_of_epoch(258);
        assert_eq!(of_epoch(Bound::Greatest), Some(b"\x31\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02".to_vec()));
        assert_eq!(of_epoch(Bound::At(b"ab", learned)).map(|bytes| bytes[0]), Some(50));
        assert_eq!(of_epoch(Bound::At(b"ab", None)), None);
    }
}
