//! The time that `$$NOW` and `$currentDate` stand for, where whoever parses gives none.

use bson::DateTime;

/// Read as an expression or update is parsed: what runs it reads no clock.
pub(crate) fn now() -> DateTime {
    DateTime::now()
}
