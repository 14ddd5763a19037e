//! Order-Status (TPC-C clause 2.6).

use super::TpccError;
use super::statements::Statement;
use super::terminal::{Outcome, Terminal};

impl Terminal {
    pub(super) async fn order_status(&mut self) -> Result<Outcome, TpccError> {
        let (warehouse, district) = (self.warehouse, self.district());
        let customer = self.named_customer(warehouse, district).await?;
        self.row(Statement::Customer, &[&warehouse, &district, &customer]).await?;
        if let Some(order) = self.rows(Statement::LastOrder, &[&warehouse, &district, &customer]).await?.pop()
        {
            let order: i32 = order.get(0);
            let lines = self.rows(Statement::OrderLines, &[&warehouse, &district, &order]).await?;
            if !(5..=15).contains(&lines.len()) {
                return Err(TpccError::Inconsistent(format!("order {order} has {} lines", lines.len())));
            }
        }
        Ok(Outcome::Committed)
    }
}
