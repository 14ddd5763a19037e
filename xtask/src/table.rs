//! The table of protocols, as the rules read it: from its text.

/// Where it is.
pub(crate) const PATH: &str = "shared/protocol/src/table.rs";

/// What a row says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row<'t> {
    pub(crate) name: &'t str,
    /// Only builds of the laboratory have it.
    pub(crate) laboratory: bool,
    /// What its indexes are called.
    pub(crate) indexes: Vec<&'t str>,
}

/// The rows: `NUMBER NAME "name", limit: value => [INDEX "index"];`.
pub(crate) fn rows(text: &str) -> Vec<Row<'_>> {
    let body = text.split_once("\ntable! {\n").and_then(|(_, rest)| rest.split_once("\n}\n"));
    let rows = body.map(|(body, _)| body).unwrap_or_default().split(';');
    rows.filter_map(row).collect()
}

fn row(text: &str) -> Option<Row<'_>> {
    let (own, indexes) = text.split_once("=>").unwrap_or((text, ""));
    Some(Row {
        name: own.split('"').nth(1)?,
        laboratory: own.contains("laboratory: true"),
        indexes: indexes.split('"').skip(1).step_by(2).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_as_it_is_written() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PATH);
        let text = std::fs::read_to_string(path).expect("the table");
        let found = rows(&text);
        assert!(found.len() > 10, "{found:?}");
        let named = |name| found.iter().find(|row| row.name == name);
        let indexes = |name| named(name).map(|row| (row.laboratory, row.indexes.len()));
        assert_eq!(indexes("write"), Some((false, 0)));
        assert_eq!(indexes("bplus"), Some((false, 6)));
        assert!(found.iter().any(|row| row.laboratory && row.indexes == [row.name]));
    }
}
