//! Fills the tables (TPC-C clause 4.3.3), many rows a statement.

use super::schema::{CREATE, DISTRICTS, Scale};
use super::terminal::date;
use super::{Random, TpccError, random};
use std::fmt::Write as _;
use tokio_postgres::Client;

/// Rows of one statement.
const ROWS: usize = 200;

/// Makes the tables and fills them, from a seed.
///
/// # Errors
/// [`TpccError::Database`].
pub async fn load(client: &Client, scale: Scale, seed: u64) -> Result<(), TpccError> {
    for statement in CREATE {
        client.batch_execute(statement).await.map_err(TpccError::of(statement))?;
    }
    let mut loader = Loader { client, scale, random: Random::new(seed, seed) };
    loader.items().await?;
    for warehouse in 1..=scale.warehouses {
        loader.warehouse(warehouse).await?;
        loader.stock(warehouse).await?;
        for district in 1..=DISTRICTS {
            loader.district(warehouse, district).await?;
            loader.customers(warehouse, district).await?;
            loader.orders(warehouse, district).await?;
        }
    }
    Ok(())
}

struct Loader<'a> {
    client: &'a Client,
    scale: Scale,
    random: Random,
}

/// Rows on their way to one table.
struct Rows<'a> {
    client: &'a Client,
    table: &'static str,
    text: String,
    count: usize,
}

impl<'a> Rows<'a> {
    fn of(client: &'a Client, table: &'static str) -> Self {
        Self { client, table, text: String::new(), count: 0 }
    }

    /// Adds a row: values as SQL has them. No text of the loader's has a quote in it.
    async fn add(&mut self, values: std::fmt::Arguments<'_>) -> Result<(), TpccError> {
        let begins = if self.count == 0 { "INSERT INTO " } else { ", (" };
        if self.count == 0 {
            // Writing to a string does not fail.
            let _ = write!(self.text, "{begins}{} VALUES (", self.table);
        } else {
            self.text.push_str(begins);
        }
        let _ = write!(self.text, "{values})");
        self.count += 1;
        if self.count == ROWS { self.send().await } else { Ok(()) }
    }

    async fn send(&mut self) -> Result<(), TpccError> {
        if self.count > 0 {
            self.client.batch_execute(&self.text).await.map_err(TpccError::of(self.table))?;
            self.text.clear();
            self.count = 0;
        }
        Ok(())
    }
}

impl Loader<'_> {
    async fn items(&mut self) -> Result<(), TpccError> {
        let mut rows = Rows::of(self.client, "item");
        for item in 1..=self.scale.items {
            let (image, name) = (self.random.between(1, 10_000), self.random.text(14, 24));
            let (price, data) = (self.random.between(100, 10_000), self.random.data());
            rows.add(format_args!("{item}, {image}, '{name}', {price}, '{data}'")).await?;
        }
        rows.send().await
    }

    /// Street, street, city, state and zip.
    fn address(&mut self) -> String {
        let random = &mut self.random;
        let [one, two, city] = [(); 3].map(|()| random.text(10, 20));
        format!("'{one}', '{two}', '{city}', '{}', '{}'", random.text(2, 2), random.zip())
    }

    async fn warehouse(&mut self, warehouse: i32) -> Result<(), TpccError> {
        let mut rows = Rows::of(self.client, "warehouse");
        let (name, address) = (self.random.text(6, 10), self.address());
        let tax = self.random.between(0, 2_000);
        // What its districts took: so the sums agree at a smaller scale, too.
        let ytd = i64::from(DISTRICTS) * 3_000_000;
        rows.add(format_args!("{warehouse}, '{name}', {address}, {tax}, {ytd}")).await?;
        rows.send().await
    }

    async fn stock(&mut self, warehouse: i32) -> Result<(), TpccError> {
        let mut rows = Rows::of(self.client, "stock");
        for item in 1..=self.scale.items {
            let quantity = self.random.between(10, 100);
            let info: Vec<String> =
                (0..DISTRICTS).map(|_| format!("'{}'", self.random.text(24, 24))).collect();
            let (info, data) = (info.join(", "), self.random.data());
            rows.add(format_args!("{item}, {warehouse}, {quantity}, {info}, 0, 0, 0, '{data}'")).await?;
        }
        rows.send().await
    }

    async fn district(&mut self, warehouse: i32, district: i32) -> Result<(), TpccError> {
        let mut rows = Rows::of(self.client, "district");
        let (name, address) = (self.random.text(6, 10), self.address());
        let (tax, next) = (self.random.between(0, 2_000), self.scale.orders + 1);
        rows.add(format_args!("{district}, {warehouse}, '{name}', {address}, {tax}, 3000000, {next}"))
            .await?;
        rows.send().await
    }

    async fn customers(&mut self, warehouse: i32, district: i32) -> Result<(), TpccError> {
        let mut rows = Rows::of(self.client, "customer");
        let mut history = Rows::of(self.client, "history");
        for customer in 1..=self.scale.customers {
            let random = &mut self.random;
            let last = match customer {
                1..=1_000 => random::last_name(customer - 1),
                _ => random.last_name(self.scale.customers),
            };
            let (first, phone) = (random.text(8, 16), random.digits(16));
            let credit = if random.percent(10) { "BC" } else { "GC" };
            let (discount, data) = (random.between(0, 5_000), random.text(300, 500));
            let (address, since) = (self.address(), date(0));
            rows.add(format_args!(
                "{customer}, {district}, {warehouse}, '{first}', 'OE', '{last}', {address}, '{phone}', '{since}', '{credit}', \
                 5000000, {discount}, -1000, 1000, 1, 0, '{data}'"
            ))
            .await?;
            let note = self.random.text(12, 24);
            history
                .add(format_args!(
                    "{customer}, {district}, {warehouse}, {district}, {warehouse}, '{since}', 1000, '{note}'"
                ))
                .await?;
        }
        rows.send().await?;
        history.send().await
    }

    async fn orders(&mut self, warehouse: i32, district: i32) -> Result<(), TpccError> {
        let mut orders = Rows::of(self.client, "orders");
        let mut lines = Rows::of(self.client, "order_line");
        let mut new = Rows::of(self.client, "new_order");
        let customers = self.random.permutation(self.scale.customers);
        for order in 1..=self.scale.orders {
            let customer = customers[(usize::try_from(order).unwrap_or(1) - 1) % customers.len()];
            let is_new = order > self.scale.orders - self.scale.undelivered();
            let carrier = if is_new { "NULL".into() } else { self.random.between(1, 10).to_string() };
            let (count, entered) = (self.random.between(5, 15), date(i64::from(order)));
            orders
                .add(format_args!(
                    "{order}, {district}, {warehouse}, {customer}, '{entered}', {carrier}, {count}, 1"
                ))
                .await?;
            if is_new {
                new.add(format_args!("{order}, {district}, {warehouse}")).await?;
            }
            for number in 1..=count {
                let (item, info) = (self.random.between(1, self.scale.items), self.random.text(24, 24));
                let amount = if is_new { self.random.between(1, 999_999) } else { 0 };
                let delivered = if is_new { "NULL".into() } else { format!("'{entered}'") };
                lines
                    .add(format_args!(
                        "{order}, {district}, {warehouse}, {number}, {item}, {warehouse}, {delivered}, 5, {amount}, '{info}'"
                    ))
                    .await?;
            }
        }
        orders.send().await?;
        new.send().await?;
        lines.send().await
    }
}
