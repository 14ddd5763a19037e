//! Time zones, as far as the server's rules were found to be the proxy's.

use crate::codec::Zone;
use chrono_tz::Tz;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// What is known of zones, for all sessions. It is asked once: rules that are changed at a server while the process runs are not heard of.
#[derive(Debug, Default)]
pub(crate) struct Zones(Mutex<HashMap<Tz, Zone>>);

impl Zones {
    /// A zone whose rules were compared.
    pub(crate) fn get(&self, rules: Tz) -> Option<Zone> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&rules).copied()
    }

    /// A zone's rules were compared.
    pub(crate) fn learned(&self, rules: Tz, zone: Zone) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(rules, zone);
    }
}
