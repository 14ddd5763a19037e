//! Keyed half of: POPE (Roche, Apon, Choi, Yerukhimovich, CCS 2016), a buffer tree sorted by queries.
