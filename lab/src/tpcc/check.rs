//! The conditions of consistency (TPC-C clause 3.3.2, conditions 1 to 4), worked out here from plain reads, so that they
//! hold against a database that cannot compute on its columns.

use super::TpccError;
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// A district: its warehouse and its number.
type District = (i32, i32);

/// Whether the tables hold what the transactions leave there.
///
/// # Errors
/// [`TpccError::Inconsistent`], with the condition; [`TpccError::Database`].
pub async fn check(client: &Client) -> Result<(), TpccError> {
    let districts = districts(client).await?;
    warehouses_took_what_their_districts_took(client, &districts).await?;
    let greatest = greatest_orders(client).await?;
    for (district, (_, next)) in &districts {
        if greatest.get(district) != Some(&(next - 1)) {
            return Err(wrong(
                2,
                format!("the next order of {district:?} is {next}, the last {:?}", greatest.get(district)),
            ));
        }
    }
    new_orders_are_without_gaps(client, &greatest).await?;
    orders_have_their_lines(client).await
}

fn wrong(condition: u8, what: String) -> TpccError {
    TpccError::Inconsistent(format!("condition {condition}: {what}"))
}

async fn rows(client: &Client, text: &'static str) -> Result<Vec<tokio_postgres::Row>, TpccError> {
    client.query(text, &[]).await.map_err(TpccError::of(text))
}

/// What each district took, and its next order.
async fn districts(client: &Client) -> Result<BTreeMap<District, (i64, i32)>, TpccError> {
    let rows = rows(client, "SELECT d_w_id, d_id, d_ytd, d_next_o_id FROM district").await?;
    Ok(rows.iter().map(|row| ((row.get(0), row.get(1)), (row.get(2), row.get(3)))).collect())
}

/// Condition 1.
async fn warehouses_took_what_their_districts_took(
    client: &Client,
    districts: &BTreeMap<District, (i64, i32)>,
) -> Result<(), TpccError> {
    for row in rows(client, "SELECT w_id, w_ytd FROM warehouse").await? {
        let (warehouse, took): (i32, i64) = (row.get(0), row.get(1));
        let sum: i64 =
            districts.iter().filter(|((of, _), _)| *of == warehouse).map(|(_, (ytd, _))| ytd).sum();
        if took != sum {
            return Err(wrong(1, format!("warehouse {warehouse} took {took}, its districts {sum}")));
        }
    }
    Ok(())
}

/// The greatest order of each district.
async fn greatest_orders(client: &Client) -> Result<BTreeMap<District, i32>, TpccError> {
    let rows = rows(client, "SELECT o_w_id, o_d_id, max(o_id) FROM orders GROUP BY o_w_id, o_d_id").await?;
    Ok(rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect())
}

/// Condition 3, and the half of condition 2 that speaks of new orders.
async fn new_orders_are_without_gaps(
    client: &Client,
    greatest: &BTreeMap<District, i32>,
) -> Result<(), TpccError> {
    let text = "SELECT no_w_id, no_d_id, min(no_o_id), max(no_o_id), count(*) FROM new_order GROUP BY no_w_id, no_d_id";
    for row in rows(client, text).await? {
        let district: District = (row.get(0), row.get(1));
        let (first, last, count): (i32, i32, i64) = (row.get(2), row.get(3), row.get(4));
        if i64::from(last - first + 1) != count || greatest.get(&district) != Some(&last) {
            return Err(wrong(3, format!("{district:?} has {count} new orders from {first} to {last}")));
        }
    }
    Ok(())
}

/// Condition 4, order by order.
async fn orders_have_their_lines(client: &Client) -> Result<(), TpccError> {
    let text = "SELECT o_w_id, o_d_id, o_id, o_ol_cnt FROM orders";
    let mut orders: BTreeMap<(i32, i32, i32), i64> = rows(client, text)
        .await?
        .iter()
        .map(|row| ((row.get(0), row.get(1), row.get(2)), i64::from(row.get::<_, i32>(3))))
        .collect();
    let text =
        "SELECT ol_w_id, ol_d_id, ol_o_id, count(*) FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id";
    for row in rows(client, text).await? {
        let place = (row.get(0), row.get(1), row.get(2));
        let (expected, count) = (orders.remove(&place), row.get::<_, i64>(3));
        if expected != Some(count) {
            return Err(wrong(4, format!("order {place:?} says {expected:?} lines and has {count}")));
        }
    }
    orders
        .first_key_value()
        .map_or(Ok(()), |(place, _)| Err(wrong(4, format!("order {place:?} has no lines"))))
}
