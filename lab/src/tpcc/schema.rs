//! The nine tables (TPC-C clause 1.3), and how much of them there is (clause 1.2).

/// How much data, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses, at least 1.
    pub warehouses: i32,
    /// Items in the catalogue; 100,000 in the specification.
    pub items: i32,
    /// Customers of a district; 3,000 in the specification.
    pub customers: i32,
    /// Orders of a district before the first transaction; as many as customers in the specification.
    pub orders: i32,
}

/// Districts of a warehouse.
pub const DISTRICTS: i32 = 10;

impl Scale {
    /// The specification's, for so many warehouses.
    #[must_use]
    pub const fn full(warehouses: i32) -> Self {
        Self { warehouses, items: 100_000, customers: 3_000, orders: 3_000 }
    }

    /// A hundredth of it, for tests.
    #[must_use]
    pub const fn small() -> Self {
        Self { warehouses: 1, items: 200, customers: 30, orders: 30 }
    }

    /// The newest of the initial orders are not yet delivered: 900 of 3,000.
    #[must_use]
    pub const fn undelivered(self) -> i32 {
        self.orders * 3 / 10
    }
}

/// Makes the tables, and the indexes that the transactions need.
pub const CREATE: [&str; 11] = [
    "CREATE TABLE warehouse (w_id integer PRIMARY KEY, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), \
     w_city varchar(20), w_state varchar(2), w_zip varchar(9), w_tax integer, w_ytd bigint)",
    "CREATE TABLE district (d_id integer, d_w_id integer, d_name varchar(10), d_street_1 varchar(20), d_street_2 varchar(20), \
     d_city varchar(20), d_state varchar(2), d_zip varchar(9), d_tax integer, d_ytd bigint, d_next_o_id integer, \
     PRIMARY KEY (d_w_id, d_id))",
    "CREATE TABLE customer (c_id integer, c_d_id integer, c_w_id integer, c_first varchar(16), c_middle varchar(2), \
     c_last varchar(16), c_street_1 varchar(20), c_street_2 varchar(20), c_city varchar(20), c_state varchar(2), c_zip varchar(9), \
     c_phone varchar(16), c_since timestamp, c_credit varchar(2), c_credit_lim bigint, c_discount integer, c_balance bigint, \
     c_ytd_payment bigint, c_payment_cnt integer, c_delivery_cnt integer, c_data varchar(500), PRIMARY KEY (c_w_id, c_d_id, c_id))",
    "CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last)",
    "CREATE TABLE history (h_c_id integer, h_c_d_id integer, h_c_w_id integer, h_d_id integer, h_w_id integer, h_date timestamp, \
     h_amount bigint, h_data varchar(24))",
    "CREATE TABLE new_order (no_o_id integer, no_d_id integer, no_w_id integer, PRIMARY KEY (no_w_id, no_d_id, no_o_id))",
    "CREATE TABLE orders (o_id integer, o_d_id integer, o_w_id integer, o_c_id integer, o_entry_d timestamp, o_carrier_id integer, \
     o_ol_cnt integer, o_all_local integer, PRIMARY KEY (o_w_id, o_d_id, o_id))",
    "CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
    "CREATE TABLE order_line (ol_o_id integer, ol_d_id integer, ol_w_id integer, ol_number integer, ol_i_id integer, \
     ol_supply_w_id integer, ol_delivery_d timestamp, ol_quantity integer, ol_amount bigint, ol_dist_info varchar(24), \
     PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
    "CREATE TABLE item (i_id integer PRIMARY KEY, i_im_id integer, i_name varchar(24), i_price bigint, i_data varchar(50))",
    "CREATE TABLE stock (s_i_id integer, s_w_id integer, s_quantity integer, s_dist_01 varchar(24), s_dist_02 varchar(24), \
     s_dist_03 varchar(24), s_dist_04 varchar(24), s_dist_05 varchar(24), s_dist_06 varchar(24), s_dist_07 varchar(24), \
     s_dist_08 varchar(24), s_dist_09 varchar(24), s_dist_10 varchar(24), s_ytd bigint, s_order_cnt integer, \
     s_remote_cnt integer, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id))",
];

/// The tables, in an order in which they may be emptied, each with the columns that order its rows for a comparison.
pub const TABLES: [(&str, &str); 9] = [
    ("warehouse", "w_id"),
    ("district", "d_w_id, d_id"),
    ("customer", "c_w_id, c_d_id, c_id"),
    ("history", "h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_date"),
    ("new_order", "no_w_id, no_d_id, no_o_id"),
    ("orders", "o_w_id, o_d_id, o_id"),
    ("order_line", "ol_w_id, ol_d_id, ol_o_id, ol_number"),
    ("item", "i_id"),
    ("stock", "s_w_id, s_i_id"),
];

/// Takes away the indexes of terms for which the tables have none in plaintext: the proxy makes one of each term. No values of
/// these orders come after loading, so that no labels change.
pub const AS_IN_PLAINTEXT: &str =
    "DROP INDEX arras_70c0000000000301_order, arras_70c0000000000303_equality, arras_70c0000000000701_order";

/// The sensitive columns, as the proxy's schema declares them: who customers are, what they owe and buy, prices, stock.
pub const SENSITIVE: &str = r#"
[tables."public.warehouse"]
w_tax = { id = "70c0000000000101", type = "integer" }
w_ytd = { id = "70c0000000000102", type = "bigint", operations = ["sum"] }

[tables."public.district"]
d_tax = { id = "70c0000000000201", type = "integer" }
d_ytd = { id = "70c0000000000202", type = "bigint", operations = ["sum"] }

[tables."public.customer"]
c_first = { id = "70c0000000000301", type = "varchar(16)", operations = ["order"], max_bytes = 16 }
c_middle = { id = "70c0000000000302", type = "varchar(2)" }
c_last = { id = "70c0000000000303", type = "varchar(16)", operations = ["equality"] }
c_street_1 = { id = "70c0000000000304", type = "varchar(20)" }
c_street_2 = { id = "70c0000000000305", type = "varchar(20)" }
c_phone = { id = "70c0000000000306", type = "varchar(16)" }
c_credit = { id = "70c0000000000307", type = "varchar(2)" }
c_credit_lim = { id = "70c0000000000308", type = "bigint" }
c_discount = { id = "70c0000000000309", type = "integer" }
c_balance = { id = "70c000000000030a", type = "bigint", operations = ["sum"] }
c_ytd_payment = { id = "70c000000000030b", type = "bigint", operations = ["sum"] }
c_data = { id = "70c000000000030c", type = "varchar(500)" }

[tables."public.history"]
h_amount = { id = "70c0000000000401", type = "bigint", operations = ["sum"] }
h_data = { id = "70c0000000000402", type = "varchar(24)" }

[tables."public.order_line"]
ol_amount = { id = "70c0000000000501", type = "bigint", operations = ["sum"] }
ol_dist_info = { id = "70c0000000000502", type = "varchar(24)" }

[tables."public.item"]
i_price = { id = "70c0000000000601", type = "bigint" }
i_name = { id = "70c0000000000602", type = "varchar(24)" }

[tables."public.stock"]
s_quantity = { id = "70c0000000000701", type = "integer", operations = ["order"] }
s_ytd = { id = "70c0000000000702", type = "bigint", operations = ["sum"] }
"#;
