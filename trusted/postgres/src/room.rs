//! Memory that sessions share: of what comes, of what goes out, and of what is kept.

mod kept;

pub(crate) use arras_transport::room::{
    BEGINNING_BYTES, MessageRoom, PERMIT_BYTES, Room, Share, UNCOUNTED_BYTES,
};
pub(crate) use kept::{ConnectionPart, KeptRoom, KeptShare};

use crate::error::SqlError;
use arras_transport::room::Refused;

/// 53200.
impl From<Refused> for SqlError {
    fn from(refused: Refused) -> Self {
        let error = Self::new("53200", refused.to_string());
        match refused {
            Refused::Full => error.hint("Try again."),
            Refused::GivenUp => error,
        }
    }
}
