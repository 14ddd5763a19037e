//! Values of encrypted columns: PostgreSQL's text and binary formats, and the bytes that are sealed, compared and ordered.

mod array;

pub(crate) use array::array_members;
