//! Keyed half of lewi_wu.
