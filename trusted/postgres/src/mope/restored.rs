//! Tables that came past the proxy, as where one is restored alone from a dump: the labels in them are of another time than the
//! order is now, and no change of labels is made there. What their rows have sealed is as it was, so their labels are set anew from it.
//!
//! Rows are kept from changing by a lock of the table. Their labels are kept in a table beside it first, which stores labels as any other:
//! they change there with all, keys that rows have do not leave, and transactions that store labels are held up only while the
//! rows get theirs, in one transaction.

use super::connections::{Connections, failure};
use super::installed::Stored;
use crate::catalog::{ASK_PLACES, Encryption, declared_places, not_known};
use crate::codec::Datum;
use crate::schema::Schema;
use crate::text::quoted;
use arras_protocol::ChannelError;
use arras_service::columns::Columns;
use std::sync::Arc;
use tokio_postgres::{Client, Error, Row};

/// Rows that are read at a time.
const ROWS: usize = 512;
/// Rows after which it is told how far this is: those of some seconds.
const TOLD_EVERY: usize = 100_000;
/// How long others who lock the table are waited for, and who changes labels.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '10s'";
/// Proxies set labels anew one after the other.
const LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock(7034525412735283923)";

/// Behind [`ASK_PLACES`], so that other tables, however many, are not looked at.
const OF_TABLES: &str = " WHERE relation = ANY (ARRAY(SELECT c.oid FROM pg_catalog.pg_class c \
                         WHERE c.relname = ANY ($1::pg_catalog.text[]::pg_catalog.name[])))";

/// The places that are declared to store labels, and there, and not known to.
///
/// # Errors
/// PostgreSQL's.
pub(crate) async fn not_known_there(client: &Client, schema: &Schema) -> Result<Vec<Stored>, Error> {
    let row = |row: Row| -> Result<[String; 4], Error> {
        Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?])
    };
    let declared = declared_places(schema);
    let names: Vec<&str> = declared.iter().map(|stored| stored.place[1].as_str()).collect();
    let rows = client.query(&format!("{ASK_PLACES}{OF_TABLES}"), &[&names]).await?;
    let there: Vec<_> = rows.into_iter().map(row).collect::<Result<_, _>>()?;
    Ok(not_known(declared, &there))
}

/// A table's column of labels that are to be set anew.
struct Labels<'a> {
    encryption: &'a Arc<Encryption>,
    number: i64,
    place: &'a [String; 3],
    relation: String,
    sealed: String,
    /// The table that stores labels meanwhile.
    beside: String,
}

impl<'a> Labels<'a> {
    fn of(stored: &'a Stored, encryption: &'a Arc<Encryption>, name: &str) -> Self {
        let [schema, table, _] = &stored.place;
        Self {
            encryption,
            number: stored.column.number(),
            relation: format!("{}.{}", quoted(schema), quoted(table)),
            sealed: quoted(name),
            place: &stored.place,
            beside: format!("arras.restored_{}", stored.column),
        }
    }

    /// The table's name as a constant of SQL.
    fn regclass(&self) -> String {
        format!("'{}'::pg_catalog.regclass", self.relation.replace('\'', "''"))
    }
}

/// Sets the labels of a place anew, and has it known to store them. Returns how many rows have labels; none if it is known meanwhile.
///
/// # Errors
/// The database's, or a value does not open; nothing was changed.
pub(crate) async fn set_anew(
    connections: &Connections,
    schema: &Schema,
    columns: &dyn Columns,
    stored: &Stored,
) -> Result<Option<usize>, ChannelError> {
    let [in_schema, table, attribute] = &stored.place;
    let name = attribute.strip_suffix(crate::catalog::ORDER_SUFFIX).unwrap_or(attribute);
    let Some(encryption) = schema.column(in_schema, table, name) else { return Ok(None) };
    let labels = Labels::of(stored, encryption, name);
    let (keeper, writer) = (connections.open().await?, connections.open().await?);
    keeper
        .batch_execute(&format!("BEGIN; {LOCK_TIMEOUT}; SET LOCAL row_security = off; {LOCK}"))
        .await
        .map_err(|error| failure(&error))?;
    let set = labels.set(&keeper, &writer, columns).await;
    if matches!(set, Ok(Some(_))) {
        return set;
    }
    let taken_away = labels.take_away(&writer).await;
    // Why it was not done tells more than why what was begun is still there; the next attempt takes that away.
    let set = set?;
    taken_away.map_err(|error| failure(&error))?;
    Ok(set)
}

impl Labels<'_> {
    async fn set(
        &self,
        keeper: &Client,
        writer: &Client,
        columns: &dyn Columns,
    ) -> Result<Option<usize>, ChannelError> {
        let lost = |error: Error| failure(&error);
        let (number, relation) = (self.number, self.regclass());
        let lock = format!("SELECT arras.trusted_table({relation}, 'SHARE ROW EXCLUSIVE')");
        keeper.batch_execute(&lock).await.map_err(lost)?;
        let [in_schema, table, attribute] = self.place;
        let known = "SELECT EXISTS (SELECT FROM arras.stored_labels WHERE column_id = $1 AND in_schema = $2 AND in_table = $3 \
                     AND attribute = $4)";
        let known = keeper.query_one(known, &[&number, in_schema, table, attribute]).await.map_err(lost)?;
        if known.try_get(0).map_err(lost)? {
            return Ok(None);
        }
        self.take_away(writer).await.map_err(lost)?;
        let beside = &self.beside;
        // Whoever changes labels does not wait for the table, which is locked: all of its labels are written in the end.
        let make = format!(
            "CREATE TABLE {beside} (part oid, place tid, label bigint NOT NULL); CREATE INDEX ON {beside} (label); \
             INSERT INTO arras.mope_place VALUES ({number}, '{beside}', 'label'); \
             INSERT INTO arras.mope_doubt (column_id, relation, attribute) SELECT p.column_id, p.relation, p.attribute \
             FROM arras.mope_place p WHERE (p.column_id, p.relation, p.attribute) = ({number}, {relation}, '{attribute}') AND NOT EXISTS \
             (SELECT FROM arras.mope_doubt d WHERE (d.column_id, d.relation, d.attribute) = (p.column_id, p.relation, p.attribute))",
            attribute = attribute.replace('\'', "''")
        );
        writer.batch_execute(&make).await.map_err(lost)?;
        let rows = self.collect(keeper, writer, columns).await?;
        if rows >= TOLD_EVERY {
            tracing::info!(place = %self.place.join("."), rows, "labels are there, and are given to the rows");
        }
        keeper.batch_execute(&self.finish()).await.map_err(lost)?;
        Ok(Some(rows))
    }

    /// Reads the table, and puts the label of each row beside it.
    async fn collect(
        &self,
        keeper: &Client,
        writer: &Client,
        columns: &dyn Columns,
    ) -> Result<usize, ChannelError> {
        let lost = |error: Error| failure(&error);
        let sealed = &self.sealed;
        let open = format!(
            "DECLARE arras_restored NO SCROLL CURSOR FOR SELECT t.tableoid, t.ctid::pg_catalog.text, t.{sealed} \
             FROM {} AS t WHERE t.{sealed} IS NOT NULL",
            self.relation
        );
        keeper.batch_execute(&open).await.map_err(lost)?;
        let add = format!(
            "INSERT INTO {} SELECT u.part, u.place::tid, arras.mope_order($1, u.ciphertext) FROM ROWS FROM \
             (unnest($2::oid[]), unnest($3::text[]), unnest($4::bytea[])) AS u (part, place, ciphertext)",
            self.beside
        );
        let fetch = format!("FETCH FORWARD {ROWS} FROM arras_restored");
        let mut count = 0;
        loop {
            let rows = keeper.query(&fetch, &[]).await.map_err(lost)?;
            if rows.is_empty() {
                return Ok(count);
            }
            count += rows.len();
            let (mut parts, mut places, mut keys) = (Vec::new(), Vec::new(), Vec::new());
            for row in &rows {
                let (part, place): (u32, String) =
                    (row.try_get(0).map_err(lost)?, row.try_get(1).map_err(lost)?);
                let Some(key) = self.key(row.try_get(2).map_err(lost)?, columns) else {
                    return Err(self.not_opened(keeper, part, &place).await);
                };
                parts.push(part);
                places.push(place);
                keys.push(key);
            }
            let encoder = columns.encoder(self.encryption.id);
            let encoder = encoder.ok_or_else(|| {
                ChannelError::Halted(format!("there are no keys for the labels of {}", self.relation))
            })?;
            let ciphertexts = encoder.encode(&keys, None).await;
            let ciphertexts = ciphertexts.map_err(|error| ChannelError::Halted(error.to_string()))?;
            let hold = format!("BEGIN; SELECT arras.mope_hold({})", self.number);
            writer.batch_execute(&hold).await.map_err(lost)?;
            writer.execute(&add, &[&self.number, &parts, &places, &ciphertexts]).await.map_err(lost)?;
            writer.batch_execute("COMMIT").await.map_err(lost)?;
            if count / TOLD_EVERY > (count - rows.len()) / TOLD_EVERY {
                tracing::info!(place = %self.place.join("."), rows = count, "labels are being set anew");
            }
        }
    }

    /// The order key of a sealed value, if that opens as one of the column.
    fn key(&self, sealed: &[u8], columns: &dyn Columns) -> Option<Vec<u8>> {
        let opened = columns.keys(self.encryption.id)?.open(sealed).ok()?;
        Datum::from_stored(self.encryption.kind, &opened).ok()?.order_key(self.encryption).ok()
    }

    /// Which row has a value that does not open. Of a table with parts, the part, too: each numbers its rows for itself.
    async fn not_opened(&self, keeper: &Client, part: u32, place: &str) -> ChannelError {
        let part = keeper.query_one("SELECT $1::oid::pg_catalog.regclass::pg_catalog.text", &[&part]).await;
        let part = part.and_then(|row| row.try_get::<_, String>(0)).unwrap_or_default();
        ChannelError::Halted(format!(
            "a value of {} does not open as one of its column, in the row of ctid {place} in {part}",
            self.relation
        ))
    }

    /// Gives the rows their labels, and has them known. What triggers of applications name they find as in any UPDATE by the proxy's role.
    fn finish(&self) -> String {
        let Self { number, place: [.., label], relation, sealed, beside, .. } = self;
        let (regclass, text, label) = (self.regclass(), label.replace('\'', "''"), quoted(label));
        format!(
            "CLOSE arras_restored; SELECT arras.mope_hold({number}); \
             SELECT set_config('arras.relabelling', 'on', true), \
             set_config('search_path', coalesce(current_setting('arras.search_path', true), 'pg_catalog, pg_temp'), true); \
             UPDATE {relation} AS t SET {label} = s.label FROM {beside} AS s \
             WHERE s.part OPERATOR(pg_catalog.=) t.tableoid AND s.place OPERATOR(pg_catalog.=) t.ctid \
             AND (t.{label} IS NULL OR t.{label} OPERATOR(pg_catalog.<>) s.label); \
             UPDATE {relation} AS t SET {label} = NULL WHERE t.{sealed} IS NULL AND t.{label} IS NOT NULL; \
             SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), \
             arras.mope_are_anew({number}, {regclass}, '{text}'); \
             DELETE FROM arras.mope_place WHERE relation = '{beside}'::regclass; DROP TABLE {beside}; COMMIT"
        )
    }

    /// Takes away what is beside the table.
    async fn take_away(&self, writer: &Client) -> Result<(), Error> {
        let beside = &self.beside;
        let gone = format!(
            "ROLLBACK; DELETE FROM arras.mope_place WHERE relation = to_regclass('{beside}'); DROP TABLE IF EXISTS {beside}"
        );
        writer.batch_execute(&gone).await
    }
}
