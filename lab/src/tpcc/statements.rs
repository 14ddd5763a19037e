//! The 31 statements of the five transactions (TPC-C clauses 2.4 to 2.8).

use super::TpccError;
use tokio_postgres::Client;

/// A statement of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Statement {
    /// Of New-Order.
    CustomerAndWarehouse,
    /// Of New-Order.
    NextOrder,
    /// Of New-Order.
    RaiseNextOrder,
    /// Of New-Order.
    InsertOrder,
    /// Of New-Order.
    InsertNewOrder,
    /// Of New-Order.
    Item,
    /// Of New-Order.
    Stock,
    /// Of New-Order.
    UpdateStock,
    /// Of New-Order.
    InsertOrderLine,
    /// Of Payment.
    PayWarehouse,
    /// Of Payment.
    WarehouseAddress,
    /// Of Payment.
    PayDistrict,
    /// Of Payment.
    DistrictAddress,
    /// Of Payment and Order-Status.
    CountByName,
    /// Of Payment and Order-Status.
    CustomersByName,
    /// Of Payment and Order-Status.
    Customer,
    /// Of Payment.
    CustomerData,
    /// Of Payment, for a customer with bad credit.
    PayCustomerWithData,
    /// Of Payment.
    PayCustomer,
    /// Of Payment.
    InsertHistory,
    /// Of Order-Status.
    LastOrder,
    /// Of Order-Status.
    OrderLines,
    /// Of Delivery.
    OldestNewOrder,
    /// Of Delivery.
    DeleteNewOrder,
    /// Of Delivery.
    OrderCustomer,
    /// Of Delivery.
    SetCarrier,
    /// Of Delivery.
    SetDelivered,
    /// Of Delivery.
    OrderAmount,
    /// Of Delivery.
    DeliverToCustomer,
    /// Of Stock-Level.
    DistrictNextOrder,
    /// Of Stock-Level.
    LowStock,
}

use Statement::*;

/// Each statement with its text, in the order of the enumeration.
pub const STATEMENTS: [(Statement, &str); 31] = [
    (
        CustomerAndWarehouse,
        "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse \
         WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = $3",
    ),
    (NextOrder, "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE"),
    (RaiseNextOrder, "UPDATE district SET d_next_o_id = $3 WHERE d_w_id = $1 AND d_id = $2"),
    (
        InsertOrder,
        "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
         VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)",
    ),
    (InsertNewOrder, "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)"),
    (Item, "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1"),
    (
        Stock,
        "SELECT s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, \
         s_dist_09, s_dist_10, s_ytd FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE",
    ),
    (
        UpdateStock,
        "UPDATE stock SET s_quantity = $3, s_ytd = $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 \
         WHERE s_w_id = $1 AND s_i_id = $2",
    ),
    (
        InsertOrderLine,
        "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, \
         ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    ),
    (PayWarehouse, "UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1"),
    (
        WarehouseAddress,
        "SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name FROM warehouse WHERE w_id = $1",
    ),
    (PayDistrict, "UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2"),
    (
        DistrictAddress,
        "SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name FROM district WHERE d_w_id = $1 AND d_id = $2",
    ),
    (CountByName, "SELECT count(c_id) FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3"),
    (
        CustomersByName,
        "SELECT c_id, c_first FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first",
    ),
    (
        Customer,
        "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, c_credit_lim, \
         c_discount, c_balance, c_since FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE",
    ),
    (CustomerData, "SELECT c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"),
    (
        PayCustomerWithData,
        "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, \
         c_payment_cnt = c_payment_cnt + 1, c_data = $5 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    ),
    (
        PayCustomer,
        "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, \
         c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    ),
    (
        InsertHistory,
        "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    ),
    (
        LastOrder,
        "SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
         ORDER BY o_id DESC LIMIT 1",
    ),
    (
        OrderLines,
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
         WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 ORDER BY ol_number",
    ),
    (
        OldestNewOrder,
        "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1 FOR UPDATE",
    ),
    (DeleteNewOrder, "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3"),
    (OrderCustomer, "SELECT o_c_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3"),
    (SetCarrier, "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3"),
    (
        SetDelivered,
        "UPDATE order_line SET ol_delivery_d = $4 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
    ),
    (
        OrderAmount,
        "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
    ),
    (
        DeliverToCustomer,
        "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 \
         WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    ),
    (DistrictNextOrder, "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2"),
    (
        LowStock,
        "SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 \
         AND ol_o_id >= $4 AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $5",
    ),
];

/// The statements, prepared on one connection.
pub(super) struct Prepared(Vec<tokio_postgres::Statement>);

impl Prepared {
    /// Prepares them.
    pub(super) async fn on(client: &Client) -> Result<Self, TpccError> {
        let mut prepared = Vec::with_capacity(STATEMENTS.len());
        for (_, text) in STATEMENTS {
            prepared.push(client.prepare(text).await.map_err(TpccError::of(text))?);
        }
        Ok(Self(prepared))
    }

    /// One of them, and its text.
    pub(super) fn get(&self, statement: Statement) -> (&tokio_postgres::Statement, &'static str) {
        let place = statement as usize;
        (&self.0[place], STATEMENTS[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_is_in_its_place() {
        assert!(STATEMENTS.iter().enumerate().all(|(place, (statement, _))| *statement as usize == place));
    }
}
