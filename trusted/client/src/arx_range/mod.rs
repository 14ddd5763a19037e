//! Keyed half of ArxRange.
