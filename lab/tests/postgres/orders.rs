//! Orders by ciphertexts that no tree is kept for: the same statements on a database in plaintext and through the proxy, what the
//! tables then hold, and what is refused.

mod bclo;
mod clww;
mod fh_ope;
mod lewi_wu;

use crate::pair::Pair;
