//! Keyed half of bclo.
