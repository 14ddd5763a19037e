//! Rows of a `COPY` that come when the proxy takes none: PostgreSQL ignores them where it takes none either, so they go on only where
//! a `COPY` that is none of the proxy's may be under way. Clients look at errors when they have sent all rows, and those of an encrypted
//! table are not for the database.

/// What becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LateRows {
    /// They go on.
    Pass,
    /// They are dropped until something is asked that goes on.
    Drop,
    /// The same, and the database passes over everything until the client synchronises.
    DropUntilSync,
}

impl LateRows {
    /// Is a message one of rows, and dropped?
    pub(super) fn drops(self, kind: u8) -> bool {
        self != Self::Pass && matches!(kind, b'd' | b'c' | b'f')
    }

    /// What holds from a message on.
    pub(super) fn before(self, kind: u8) -> Self {
        match (self, kind) {
            (Self::DropUntilSync, b'S') => Self::Drop,
            (Self::Drop, b'Q' | b'P' | b'E') => Self::Pass,
            (other, _) => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LateRows::{self, Drop, DropUntilSync, Pass};

    /// What holds after some messages.
    fn after(start: LateRows, kinds: &[u8]) -> LateRows {
        kinds.iter().fold(start, |state, kind| state.before(*kind))
    }

    #[test]
    fn rows_are_dropped_until_something_is_asked_that_is_not_passed_over() {
        assert_eq!(after(Pass, b"QPBESdc"), Pass);
        assert_eq!(after(Drop, b"ddcS"), Drop);
        assert_eq!(after(Drop, b"ddcQ"), Pass);
        assert_eq!(after(DropUntilSync, b"PBEddc"), DropUntilSync);
        assert_eq!(after(DropUntilSync, b"ddcS"), Drop);
        assert_eq!(after(DropUntilSync, b"ddcSBE"), Pass);
        assert!(Drop.drops(b'd') && DropUntilSync.drops(b'c') && !Drop.drops(b'Q') && !Pass.drops(b'd'));
    }
}
