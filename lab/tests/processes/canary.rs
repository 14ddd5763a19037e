//! Canaries: plaintexts and keys that are easy to recognise.
