//! Mutable order-preserving encoding (mOPE) and its same-time secure form (stOPE): the keyed half (Popa, Li and Zeldovich,
//! S&P 2013).

pub mod store;
