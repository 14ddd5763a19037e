//! Keyed half of: Logarithmic-BRC (Demertzis et al., SIGMOD 2016), range covers over an encrypted multimap.
