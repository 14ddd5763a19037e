//! What an enclave has no room for now is asked again.

use crate::service::Unreachable;
use arras_schemes::bisen::message::{Refused, Reply};
use std::hash::{BuildHasher, RandomState};
use std::thread::sleep;
use std::time::Duration;

/// The first pause, at most.
const FIRST: Duration = Duration::from_millis(4);

/// Pauses double until they are so long.
const LONGEST: Duration = Duration::from_millis(500);

/// How long all pauses are together before the refusal is handed on.
const IN_ALL: Duration = Duration::from_secs(120);

/// Asks until the enclave has room, or has had none for two minutes. Each pause is drawn from the upper half of a range that doubles, so that
/// clients that were refused together do not come back together.
pub(crate) fn until_there_is_room(
    mut ask: impl FnMut() -> Result<Reply, Unreachable>,
) -> Result<Reply, Unreachable> {
    let draw = RandomState::new();
    let (mut most, mut waited) = (FIRST, Duration::ZERO);
    loop {
        let reply = ask()?;
        if reply != Reply::Refused(Refused::Busy) || waited >= IN_ALL {
            return Ok(reply);
        }
        let share = 512 + draw.hash_one(waited) % 513;
        let pause = most.mul_f64(share as f64 / 1024.0);
        sleep(pause);
        waited += pause;
        most = (2 * most).min(LONGEST);
    }
}
