//! New-Order (TPC-C clause 2.4).

use super::TpccError;
use super::statements::Statement;
use super::terminal::{Outcome, Terminal};

/// A line of the order as the customer asks for it.
struct Line {
    item: i32,
    warehouse: i32,
    quantity: i32,
}

impl Terminal {
    /// Five to fifteen lines; in one of a hundred orders the last names an item that does not exist. Sorted by item, so that
    /// two orders lock stock in one order.
    fn lines(&mut self) -> Vec<Line> {
        let count = self.random.between(5, 15);
        let is_wrong = self.random.percent(1);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| {
                let item = self.random.item(self.scale.items);
                let is_remote = self.random.percent(1);
                let warehouse = if is_remote { self.other_warehouse() } else { self.warehouse };
                Line { item, warehouse, quantity: self.random.between(1, 10) }
            })
            .collect();
        lines.sort_by_key(|line| (line.warehouse, line.item));
        // Two lines of one item are two updates of one row, which the specification allows.
        if let Some(last) = lines.last_mut().filter(|_| is_wrong) {
            last.item = self.scale.items + 1;
        }
        lines
    }

    pub(super) async fn new_order(&mut self) -> Result<Outcome, TpccError> {
        let (warehouse, district) = (self.warehouse, self.district());
        let customer = self.random.customer(self.scale.customers);
        let lines = self.lines();
        let entered = self.now();
        self.row(Statement::CustomerAndWarehouse, &[&warehouse, &district, &customer]).await?;
        let order: i32 = self.row(Statement::NextOrder, &[&warehouse, &district]).await?.get(0);
        self.change(Statement::RaiseNextOrder, &[&warehouse, &district, &(order + 1)], Some(1)).await?;
        let count = i32::try_from(lines.len()).unwrap_or(0);
        let is_local = i32::from(lines.iter().all(|line| line.warehouse == warehouse));
        self.change(
            Statement::InsertOrder,
            &[&order, &district, &warehouse, &customer, &entered, &count, &is_local],
            Some(1),
        )
        .await?;
        self.change(Statement::InsertNewOrder, &[&order, &district, &warehouse], Some(1)).await?;
        for (number, line) in (1..).zip(&lines) {
            let Some(item) = self.rows(Statement::Item, &[&line.item]).await?.pop() else {
                return Ok(Outcome::RolledBack);
            };
            let price: i64 = item.get(0);
            self.order_line((order, district, number), line, price).await?;
        }
        Ok(Outcome::Committed)
    }

    async fn order_line(&self, place: (i32, i32, i32), line: &Line, price: i64) -> Result<(), TpccError> {
        let (order, district, number) = place;
        let stock = self.row(Statement::Stock, &[&line.warehouse, &line.item]).await?;
        let (quantity, ytd): (i32, i64) = (stock.get(0), stock.get(12));
        let info: String = stock.get(usize::try_from(district).unwrap_or(1) + 1);
        let left = quantity - line.quantity;
        let left = if left >= 10 { left } else { left + 91 };
        let is_remote = i32::from(line.warehouse != self.warehouse);
        let sold = ytd + i64::from(line.quantity);
        self.change(
            Statement::UpdateStock,
            &[&line.warehouse, &line.item, &left, &sold, &is_remote],
            Some(1),
        )
        .await?;
        let amount = i64::from(line.quantity) * price;
        self.change(
            Statement::InsertOrderLine,
            &[
                &order,
                &district,
                &self.warehouse,
                &number,
                &line.item,
                &line.warehouse,
                &line.quantity,
                &amount,
                &info,
            ],
            Some(1),
        )
        .await
    }
}
