//! What queries of figure 13 store: values in sequence, and those of TPC-C's INSERTs and UPDATEs.

use crate::tpcc::Random;
use std::collections::VecDeque;

/// A query that stores a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) value: u64,
    /// The row that has it from now on; none: a new one.
    pub(super) row: Option<i32>,
}

/// Queries one after the other.
pub(super) enum Trace {
    /// Each value is the next number.
    Sequential(u64),
    Tpcc(Box<Tpcc>),
}

/// The ordered values of New-Order (clause 2.4) and Payment (2.5), as often as in TPC-C's mix: for each line of an order the UPDATE
/// of the stock's quantity and the INSERT of the line's amount, for each payment the INSERT of its amount. One warehouse.
pub(super) struct Tpcc {
    random: Random,
    /// Of each item.
    prices: Vec<u64>,
    stock: Vec<u64>,
    queries: VecDeque<Query>,
}

/// New-Orders and Payments of a hundred transactions of the mix.
const MIX: (i32, i32) = (45, 43);

impl Tpcc {
    fn new(seed: u64, items: usize) -> Self {
        let mut random = Random::new(seed, seed);
        let items = 0..items;
        let mut of_items = |low: i32, high: i32| {
            items.clone().map(|_| u64::from(random.between(low, high).unsigned_abs())).collect()
        };
        let (prices, stock) = (of_items(100, 10_000), of_items(10, 100));
        Self { random, prices, stock, queries: VecDeque::new() }
    }

    fn transaction(&mut self) {
        if self.random.between(1, MIX.0 + MIX.1) > MIX.0 {
            let value = u64::from(self.random.between(100, 500_000).unsigned_abs());
            return self.queries.push_back(Query { value, row: None });
        }
        for _ in 0..self.random.between(5, 15) {
            let item = self.random.item(self.stock.len() as i32);
            let quantity = u64::from(self.random.between(1, 10).unsigned_abs());
            let at = (item - 1) as usize;
            let stock = &mut self.stock[at];
            *stock = if *stock >= quantity + 10 { *stock - quantity } else { *stock + 91 - quantity };
            self.queries.push_back(Query { value: *stock, row: Some(item) });
            self.queries.push_back(Query { value: quantity * self.prices[at], row: None });
        }
    }
}

impl Trace {
    /// Of a warehouse with so many items.
    pub(super) fn tpcc(seed: u64, items: usize) -> Self {
        Self::Tpcc(Box::new(Tpcc::new(seed, items)))
    }

    /// Values of rows that are there before a query: of row 1, 2, ...
    pub(super) fn rows(&self) -> &[u64] {
        match self {
            Self::Sequential(_) => &[],
            Self::Tpcc(tpcc) => &tpcc.stock,
        }
    }
}

impl Iterator for Trace {
    type Item = Query;

    fn next(&mut self) -> Option<Query> {
        match self {
            Self::Sequential(last) => {
                *last += 1;
                Some(Query { value: *last, row: None })
            }
            Self::Tpcc(tpcc) => {
                while tpcc.queries.is_empty() {
                    tpcc.transaction();
                }
                tpcc.queries.pop_front()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_queries_of_new_orders_are_updates_and_values_come_again() {
        let mut trace = Trace::tpcc(3, 1000);
        let queries: Vec<Query> = trace.by_ref().take(20_000).collect();
        let updates = queries.iter().filter(|query| query.row.is_some()).count();
        assert!((9_000..10_000).contains(&updates), "{updates}");
        let distinct: std::collections::BTreeSet<u64> = queries.iter().map(|query| query.value).collect();
        assert!((5_000..11_000).contains(&distinct.len()), "{}", distinct.len());
        assert!(trace.rows().iter().all(|quantity| (10..=101).contains(quantity)));
        assert_eq!(Trace::Sequential(7).next(), Some(Query { value: 8, row: None }));
    }
}
