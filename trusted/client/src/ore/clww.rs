//! Keyed half of clww.
