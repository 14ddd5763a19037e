//! Every range index against a sorted list, with both halves in one process.
//!
//! One test body ([`body`]) for all protocols. To put one through it, add a file here that says how an empty index
//! is made ([`body::Subject`]) and lists what to try:
//!
//! ```ignore
//! struct Mine(Width);
//! impl Subject for Mine {
//!     type Index<S: Storage> = MyIndex<Wire<S>>;
//!     fn width(&self) -> Width { self.0 }
//!     async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
//!         MyIndex::create(wire, INDEX, &key(), self.0, prg(1)).await
//!     }
//!     fn tampering(&self) -> Tampering { Tampering::Detected }
//! }
//! range_tests!(of_32_bits, Mine(Width::Bits32));
//! range_tests!(of_64_bits, Mine(Width::Bits64));
//! ```
//!
//! What only this protocol does is tested in the same file beside it.

#[macro_use]
mod body;
mod arx_range;
mod bplus;
mod channels;
mod crossing;
mod field;
mod hostile;
mod kerschbaum_tueno;
mod logarithmic_brc;
mod mope;
mod path_oram;
mod pope;
mod sorted_list;
mod world;
