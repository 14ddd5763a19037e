//! Keyed half of: Path ORAM (Stefanov et al., CCS 2013), the store of an oblivious B+ tree.
