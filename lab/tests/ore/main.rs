//! The order-preserving and order-revealing schemes, keyed and keyless halves together: one test body for all, then
//! for each its known answers and what its ciphertexts tell.

mod bclo;
mod body;
mod cloz;
mod clww;
mod fh_ope;
mod lewi_wu;
mod statistics;
mod vectors;
