//! Delivery (TPC-C clause 2.7), of all districts in one transaction.

use super::TpccError;
use super::schema::DISTRICTS;
use super::statements::Statement;
use super::terminal::{Outcome, Terminal};

impl Terminal {
    pub(super) async fn delivery(&mut self) -> Result<Outcome, TpccError> {
        let warehouse = self.warehouse;
        let carrier = self.random.between(1, 10);
        let delivered = self.now();
        for district in 1..=DISTRICTS {
            let Some(oldest) = self.rows(Statement::OldestNewOrder, &[&warehouse, &district]).await?.pop()
            else {
                continue;
            };
            let order: i32 = oldest.get(0);
            let place: super::terminal::Parameters<'_> = &[&warehouse, &district, &order];
            self.change(Statement::DeleteNewOrder, place, Some(1)).await?;
            let customer: i32 = self.row(Statement::OrderCustomer, place).await?.get(0);
            self.change(Statement::SetCarrier, &[&warehouse, &district, &order, &carrier], Some(1)).await?;
            self.change(Statement::SetDelivered, &[&warehouse, &district, &order, &delivered], None).await?;
            let amount = self.order_amount(warehouse, district, order).await?;
            self.change(Statement::DeliverToCustomer, &[&warehouse, &district, &customer, &amount], Some(1))
                .await?;
        }
        Ok(Outcome::Committed)
    }

    /// The sum of an order's lines. A sum of `bigint` is `numeric`, which the driver reads as text.
    async fn order_amount(&self, warehouse: i32, district: i32, order: i32) -> Result<i64, TpccError> {
        let row = self.row(Statement::OrderAmount, &[&warehouse, &district, &order]).await?;
        row.try_get::<_, super::numeric::Whole>(0)
            .map(|sum| sum.0)
            .map_err(TpccError::of("reading the sum of an order's lines"))
    }
}
