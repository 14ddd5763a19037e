//! Keyed half of cloz.
