//! How numbers become plaintexts of the schemes: unsigned, order preserved.

use arras_protocol::ore::Width;

/// Which numbers a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    /// Bits of a number.
    pub width: Width,
    /// Whether there are negative ones, in two's complement.
    pub signed: bool,
}

impl Domain {
    /// Unsigned, 32 bits.
    pub const U32: Self = Self { width: Width::Bits32, signed: false };
    /// Signed, 32 bits.
    pub const I32: Self = Self { width: Width::Bits32, signed: true };
    /// Unsigned, 64 bits.
    pub const U64: Self = Self { width: Width::Bits64, signed: false };
    /// Signed, 64 bits.
    pub const I64: Self = Self { width: Width::Bits64, signed: true };

    /// The smallest and the greatest number.
    #[must_use]
    pub const fn limits(self) -> (i128, i128) {
        let greatest = self.width.greatest() as i128;
        if self.signed { (-(greatest / 2) - 1, greatest / 2) } else { (0, greatest) }
    }

    /// The plaintext of a number; `None` outside the limits.
    #[must_use]
    pub fn plaintext(self, number: i128) -> Option<u64> {
        let (least, greatest) = self.limits();
        if number < least || number > greatest { None } else { u64::try_from(number - least).ok() }
    }

    /// The number of a plaintext; `None` if it is outside the domain.
    #[must_use]
    pub fn number(self, plaintext: u64) -> Option<i128> {
        (plaintext <= self.width.greatest()).then(|| i128::from(plaintext) + self.limits().0)
    }

    /// The key of a plaintext in a range index: big endian, [`Width::bytes`] long.
    #[must_use]
    pub fn key(self, plaintext: u64) -> Vec<u8> {
        plaintext_key(self.width, plaintext)
    }
}

/// The key of a plaintext in a range index: big endian, [`Width::bytes`] long.
#[must_use]
pub fn plaintext_key(width: Width, plaintext: u64) -> Vec<u8> {
    width.key(plaintext)
}

/// The plaintext of a range index's key; `None` if its length is not the width's.
#[must_use]
pub fn key_plaintext(width: Width, encoded: &[u8]) -> Option<u64> {
    width.plaintext(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_preserved_and_limits_are_kept() {
        for domain in [Domain::U32, Domain::I32, Domain::U64, Domain::I64] {
            let (least, greatest) = domain.limits();
            assert_eq!(domain.plaintext(least), Some(0));
            assert_eq!(domain.plaintext(greatest), Some(domain.width.greatest()));
            assert_eq!(domain.plaintext(least - 1), None);
            assert_eq!(domain.plaintext(greatest + 1), None);
            for number in [least, least + 1, greatest - 1, greatest, 0, 1] {
                let plaintext = domain.plaintext(number).expect("within the limits");
                assert_eq!(domain.number(plaintext), Some(number));
                let key = domain.key(plaintext);
                assert_eq!(key_plaintext(domain.width, &key), Some(plaintext));
            }
        }
        assert_eq!(Domain::U32.number(1 << 32), None);
        assert!(Domain::I32.key(Domain::I32.plaintext(-1).unwrap_or(0)) < Domain::I32.key(1 << 31));
    }
}
