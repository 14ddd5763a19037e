//! TPC-C (revision 5.11) on PostgreSQL: schema, loader, the five transactions and their mix, and the specification's
//! conditions of consistency, spoken over an ordinary driver. The same code runs against PostgreSQL and against the proxy.
//!
//! *Deviations.* Money is integer cents and rates are ten-thousandths, so that no sum is rounded. Terminals do not think
//! between transactions: what is measured is throughput, and no figure here is a tpmC.

mod check;
mod delivery;
pub mod driver;
mod load;
mod new_order;
mod numeric;
mod order_status;
mod payment;
mod random;
pub mod schema;
pub mod statements;
mod stock_level;
mod terminal;

pub use check::check;
pub use load::load;
pub use random::Random;
pub use schema::Scale;
pub use statements::{STATEMENTS, Statement};
pub use terminal::{Kind, Outcome, Terminal};

/// Why TPC-C could not go on.
#[derive(Debug, thiserror::Error)]
pub enum TpccError {
    /// PostgreSQL's, or the proxy's.
    #[error("{doing}: {source}{}", message(.source))]
    Database {
        /// What was asked.
        doing: &'static str,
        /// Its error.
        source: tokio_postgres::Error,
    },
    /// The tables do not hold what the transactions leave there.
    #[error("the tables are not consistent: {0}")]
    Inconsistent(String),
}

/// The server's own words, which the driver's error leaves out.
fn message(error: &tokio_postgres::Error) -> String {
    error
        .as_db_error()
        .map_or_else(String::new, |said| format!(": {} ({})", said.message(), said.code().code()))
}

impl TpccError {
    /// True if the transaction met another and may be run again.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        use tokio_postgres::error::SqlState;
        let Self::Database { source, .. } = self else { return false };
        source.code().is_some_and(|code| {
            [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
        })
    }

    /// Of a statement.
    fn of(doing: &'static str) -> impl FnOnce(tokio_postgres::Error) -> Self {
        move |source| Self::Database { doing, source }
    }
}
