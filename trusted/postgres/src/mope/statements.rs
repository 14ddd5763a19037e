//! What statements say to the functions that are installed.

/// What such a statement begins with.
const HOLD: &str = "SELECT arras.mope_hold(";

/// The statement that has the labels of columns held to the end of its transaction, if there are any.
pub(crate) fn hold_statement(columns: impl IntoIterator<Item = [u8; 8]>) -> Option<String> {
    let numbers: Vec<String> =
        columns.into_iter().map(|column| i64::from_be_bytes(column).to_string()).collect();
    (!numbers.is_empty()).then(|| format!("{HOLD}{})", numbers.join(", ")))
}

/// Is it a statement that has labels held?
pub(crate) fn is_holding(statement: &str) -> bool {
    statement.starts_with(HOLD)
}

/// Does a statement call one of them?
pub(crate) fn is_named_in(statement: &str) -> bool {
    statement.contains("arras.mope_")
}
