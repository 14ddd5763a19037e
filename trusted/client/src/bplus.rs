//! Keyed half of: B+ tree over any OPE or ORE scheme.
