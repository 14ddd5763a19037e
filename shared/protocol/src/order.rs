//! The end that a range is returned from.

use serde::{Deserialize, Serialize};

/// From which end of a range what is found comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// From the lower bound up to the upper one.
    Ascending,
    /// From the upper bound down to the lower one.
    Descending,
}
