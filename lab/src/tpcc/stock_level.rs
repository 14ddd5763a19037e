//! Stock-Level (TPC-C clause 2.8).

use super::TpccError;
use super::statements::Statement;
use super::terminal::{Outcome, Terminal};

/// How many of the newest orders are looked at.
const ORDERS: i32 = 20;

impl Terminal {
    pub(super) async fn stock_level(&mut self) -> Result<Outcome, TpccError> {
        let (warehouse, district) = (self.warehouse, self.district());
        let threshold = self.random.between(10, 20);
        let next: i32 = self.row(Statement::DistrictNextOrder, &[&warehouse, &district]).await?.get(0);
        let first = next - ORDERS;
        let low: i64 =
            self.row(Statement::LowStock, &[&warehouse, &district, &next, &first, &threshold]).await?.get(0);
        if low < 0 {
            return Err(TpccError::Inconsistent("a negative count".into()));
        }
        Ok(Outcome::Committed)
    }
}
