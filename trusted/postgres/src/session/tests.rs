//! What tests of a session's parts go by.
#![allow(clippy::unwrap_used)]

use crate::rewriting::Rewriting;
use crate::schema::Schema;
use arras_service::columns::{ColumnKeys, Columns, OrderEncoder, OrderTerms};
use std::sync::Arc;

/// Nothing is encrypted.
struct NoColumns;

impl Columns for NoColumns {
    fn keys(&self, _: [u8; 8]) -> Option<Arc<dyn ColumnKeys>> {
        None
    }

    fn encoder(&self, _: [u8; 8]) -> Option<Arc<dyn OrderEncoder>> {
        None
    }

    fn order_terms(&self, _: [u8; 8]) -> Option<Arc<dyn OrderTerms>> {
        None
    }
}

/// What sessions share, with nothing declared.
pub(super) fn rewriting() -> Rewriting {
    Rewriting::new(Arc::new(Schema::parse("", "empty").unwrap()), Arc::new(NoColumns), 0)
}
