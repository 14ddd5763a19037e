//! What `doctor` finds of encrypted columns in PostgreSQL.

use super::{Report, keeping};
use crate::cli::Failure;
use crate::postgres::examining::{Examining, Wrongs, schema};
use crate::postgres::{Alone, Postgres};
use arras_keys::Keyring;
use arras_postgres::Catalog;
use std::path::Path;

/// Checks a proxy that serves PostgreSQL alone.
///
/// # Errors
/// Nothing can be run at all.
pub(super) fn alone(alone: &Alone, path: &Path, deep: bool, report: &mut Report) -> Result<(), Failure> {
    report.add("configuration", Ok(((), path.display().to_string())));
    let Some(keyring) = report.add("keyring", keeping::open_keyring(&alone.keyring)) else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(check(&alone.postgres, &keyring, deep, report));
    Ok(())
}

/// Checks the database behind a listener.
pub(super) async fn check(postgres: &Postgres, keyring: &Keyring, deep: bool, report: &mut Report) {
    let read = schema(postgres).map(|read| {
        let line = read.as_ref().map_or_else(
            || "none: nothing is encrypted".to_owned(),
            |(schema, path)| format!("{}, {} columns", path.display(), schema.columns().count()),
        );
        (read, line)
    });
    let Some(Some((schema, _))) = report.add("tables' schema", read) else { return };
    let began = Examining::begin(postgres, schema, keyring).await;
    let began = began.map(|began| {
        let line = began.upstream.to_string();
        (began, line)
    });
    let Some(examining) = report.add("database", began) else { return };
    let tables = examining.tables().await.map(|catalog| {
        let count = catalog.tables().filter(|table| table.is_encrypted()).count();
        (catalog, format!("{count} with encrypted columns fit the schema"))
    });
    let Some(catalog) = report.add("tables", tables) else { return };
    if !is_installed(&examining, &catalog, report).await {
        return;
    }
    lines("places of labels", examining.lacking_in_places(&catalog).await, report);
    lines("owners of tables", examining.not_trusted(&catalog).await, report);
    let marked = examining.mark().map(|mark| {
        let seen = mark.map(|mark| format!("mark {mark} of this proxy, not set back"));
        ((), seen.unwrap_or_else(|| "not seen by this proxy yet".into()))
    });
    report.add("history", marked);
    for (column, protocol) in examining.ordered() {
        let name = format!("order of {}", column.label);
        let standing = examining.standing(&column).await.map(|line| ((), line));
        report.add(&name, standing);
        if deep {
            let compared = examining.order(&column, protocol, keyring).await;
            told(
                &name,
                compared.map(|(values, wrongs)| (format!("{values} values: tree and table agree"), wrongs)),
                report,
            );
        }
    }
    if deep {
        match examining.rows(&catalog, keyring).await {
            Ok(tables) => {
                for (table, rows, wrongs) in tables {
                    told(
                        &format!("table {table}"),
                        Ok((format!("{rows} rows open and agree with their terms"), wrongs)),
                        report,
                    );
                }
            }
            Err(error) => {
                report.add::<()>("rows", Err(error));
            }
        }
    }
}

/// Is what the rest is read by there, as this version installs it?
async fn is_installed(examining: &Examining, catalog: &Catalog, report: &mut Report) -> bool {
    match examining.lacking().await {
        Ok(None) => {
            let nothing = !catalog.tables().any(|table| table.is_encrypted());
            let lost =
                "not there, and tables have encrypted columns: restore it from a backup, with the tables";
            let found = if nothing {
                Ok(((), "not there yet, the first start of the proxy makes it".into()))
            } else {
                Err(Failure::Check(lost.into()))
            };
            report.add("schema arras", found);
            false
        }
        Ok(Some(wrong)) if wrong.is_empty() => {
            report.add("schema arras", Ok(((), "functions are those of this version".into())));
            true
        }
        Ok(Some(wrong)) => {
            for line in wrong {
                report.add::<()>("schema arras", Err(Failure::Check(line)));
            }
            // What the rest is read by is not there.
            false
        }
        Err(error) => {
            report.add::<()>("schema arras", Err(error));
            false
        }
    }
}

/// Prints a line for each thing that is wrong.
fn lines(name: &str, found: Result<Vec<String>, Failure>, report: &mut Report) {
    match found {
        Ok(wrong) => wrong.into_iter().for_each(|line| {
            report.add::<()>(name, Err(Failure::Check(line)));
        }),
        Err(error) => {
            report.add::<()>(name, Err(error));
        }
    }
}

/// Prints one line if all is well, else one for each thing that is wrong.
fn told(name: &str, found: Result<(String, Wrongs), Failure>, report: &mut Report) {
    let (line, wrongs) = match found {
        Ok(found) => found,
        Err(error) => {
            report.add::<()>(name, Err(error));
            return;
        }
    };
    let mut well = true;
    for wrong in wrongs.lines() {
        well = false;
        report.add::<()>(name, Err(Failure::Check(wrong)));
    }
    if well {
        report.add(name, Ok(((), line)));
    }
}
