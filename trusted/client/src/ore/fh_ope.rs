//! Keyed half of fh_ope.
