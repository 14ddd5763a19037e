//! One terminal: a connection that runs transactions.

use super::schema::{DISTRICTS, Scale};
use super::statements::{Prepared, Statement};
use super::{Random, TpccError};
use chrono::{NaiveDate, NaiveDateTime, TimeDelta};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// Which of the five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Clause 2.4.
    NewOrder,
    /// Clause 2.5.
    Payment,
    /// Clause 2.6.
    OrderStatus,
    /// Clause 2.7.
    Delivery,
    /// Clause 2.8.
    StockLevel,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// One, by the mix of clause 5.2.3: 45, 43, 4, 4 and 4 of a hundred.
    fn drawn(random: &mut Random) -> Self {
        match random.between(1, 100) {
            1..=45 => Self::NewOrder,
            46..=88 => Self::Payment,
            89..=92 => Self::OrderStatus,
            93..=96 => Self::Delivery,
            _ => Self::StockLevel,
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Committed.
    Committed,
    /// A New-Order with an unused item: rolled back, as clause 2.4.1.4 asks for in one of a hundred.
    RolledBack,
}

/// Parameters of a statement.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A terminal of one warehouse.
pub struct Terminal {
    client: Client,
    prepared: Prepared,
    pub(super) scale: Scale,
    pub(super) warehouse: i32,
    pub(super) random: Random,
    /// Seconds of its own calendar: a run of one seed writes the same dates.
    seconds: i64,
    /// Transactions that met another one and were run again.
    pub conflicts: u64,
}

/// When the data begins.
pub(super) fn date(seconds: i64) -> NaiveDateTime {
    NaiveDate::from_ymd_opt(2026, 1, 1)
        .and_then(|day| day.and_hms_opt(0, 0, 0))
        .and_then(|start| start.checked_add_signed(TimeDelta::seconds(seconds)))
        .unwrap_or_default()
}

impl Terminal {
    /// Prepares the statements on a connection.
    ///
    /// # Errors
    /// [`TpccError::Database`].
    pub async fn new(
        client: Client,
        scale: Scale,
        warehouse: i32,
        random: Random,
    ) -> Result<Self, TpccError> {
        let prepared = Prepared::on(&client).await?;
        Ok(Self { client, prepared, scale, warehouse, random, seconds: 0, conflicts: 0 })
    }

    /// Runs one transaction of the mix, and again if another one was in its way.
    ///
    /// # Errors
    /// [`TpccError`].
    pub async fn run(&mut self) -> Result<(Kind, Outcome), TpccError> {
        let kind = Kind::drawn(&mut self.random);
        Ok((kind, self.run_kind(kind).await?))
    }

    /// Runs one transaction of a kind.
    ///
    /// # Errors
    /// [`TpccError`].
    pub async fn run_kind(&mut self, kind: Kind) -> Result<Outcome, TpccError> {
        loop {
            self.control("BEGIN").await?;
            let result = match kind {
                Kind::NewOrder => self.new_order().await,
                Kind::Payment => self.payment().await,
                Kind::OrderStatus => self.order_status().await,
                Kind::Delivery => self.delivery().await,
                Kind::StockLevel => self.stock_level().await,
            };
            match result {
                Ok(Outcome::Committed) => {
                    self.control("COMMIT").await?;
                    return Ok(Outcome::Committed);
                }
                Ok(Outcome::RolledBack) => {
                    self.control("ROLLBACK").await?;
                    return Ok(Outcome::RolledBack);
                }
                Err(error) if error.is_conflict() => {
                    self.conflicts += 1;
                    self.control("ROLLBACK").await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn control(&self, text: &'static str) -> Result<(), TpccError> {
        self.client.batch_execute(text).await.map_err(TpccError::of(text))
    }

    /// All rows of a statement.
    pub(super) async fn rows(
        &self,
        statement: Statement,
        given: Parameters<'_>,
    ) -> Result<Vec<Row>, TpccError> {
        let (prepared, text) = self.prepared.get(statement);
        self.client.query(prepared, given).await.map_err(TpccError::of(text))
    }

    /// The one row of a statement.
    pub(super) async fn row(&self, statement: Statement, given: Parameters<'_>) -> Result<Row, TpccError> {
        let (prepared, text) = self.prepared.get(statement);
        self.client.query_one(prepared, given).await.map_err(TpccError::of(text))
    }

    /// A change of exactly so many rows.
    pub(super) async fn change(
        &self,
        statement: Statement,
        given: Parameters<'_>,
        rows: Option<u64>,
    ) -> Result<(), TpccError> {
        let (prepared, text) = self.prepared.get(statement);
        let changed = self.client.execute(prepared, given).await.map_err(TpccError::of(text))?;
        match rows {
            Some(expected) if expected != changed => {
                Err(TpccError::Inconsistent(format!("{changed} rows instead of {expected} changed: {text}")))
            }
            _ => Ok(()),
        }
    }

    /// The time, which goes on by a second each time it is asked for.
    pub(super) fn now(&mut self) -> NaiveDateTime {
        self.seconds += 1;
        date(1_000_000 + self.seconds)
    }

    /// A district of the terminal's warehouse.
    pub(super) fn district(&mut self) -> i32 {
        self.random.between(1, DISTRICTS)
    }

    /// Another warehouse, if there is one.
    pub(super) fn other_warehouse(&mut self) -> i32 {
        if self.scale.warehouses == 1 {
            return self.warehouse;
        }
        let drawn = self.random.between(1, self.scale.warehouses - 1);
        if drawn >= self.warehouse { drawn + 1 } else { drawn }
    }

    /// A customer as Payment and Order-Status name one: in 60 of a hundred cases by last name, and then the one in the middle
    /// by first name.
    pub(super) async fn named_customer(&mut self, warehouse: i32, district: i32) -> Result<i32, TpccError> {
        if !self.random.percent(60) {
            return Ok(self.random.customer(self.scale.customers));
        }
        let last = self.random.last_name(self.scale.customers);
        let place: Parameters<'_> = &[&warehouse, &district, &last];
        let count: i64 = self.row(Statement::CountByName, place).await?.get(0);
        let customers = self.rows(Statement::CustomersByName, place).await?;
        if customers.is_empty() || customers.len() as i64 != count {
            return Err(TpccError::Inconsistent(format!(
                "{count} customers called {last}, {} found",
                customers.len()
            )));
        }
        Ok(customers[(customers.len() - 1) / 2].get(0))
    }
}
