//! Texts of the table whose words are not entered.

use super::sweep::reading;
use super::tables::refused;
use super::{ColumnWords, Registered, opened};
use crate::text::quoted;
use arras_service::columns::Columns;
use arras_service::words::{TextName, WordsError};
use std::collections::HashSet;
use tokio_postgres::Client;

/// Rows that are read at a time.
const ROWS: u32 = 500;

/// What mending came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Texts that the table has.
    pub texts: u64,
    /// Those of them that were entered now.
    pub entered: u64,
    /// Values that have no name, or do not open.
    pub odd: u64,
}

impl ColumnWords {
    /// Enters the texts of the table that are not, or with other words: all of them where the store finds others than it did. From then
    /// on searches are answered.
    ///
    /// # Errors
    /// The store or the database cannot be asked, or the proxy's role may not read the table.
    pub async fn mend(&self, columns: &dyn Columns, registered: Registered) -> Result<Mended, WordsError> {
        let client = self.tables.open().await?;
        let mut mended = Mended::default();
        if self.is_there(&client).await? {
            let known: HashSet<TextName> = match registered {
                Registered::Otherwise => HashSet::new(),
                Registered::New | Registered::Same => self.store.all().await?.into_iter().collect(),
            };
            mended = self.enter_missing(&client, &known, columns).await?;
        }
        if registered == Registered::Otherwise {
            let statement = "UPDATE arras.text_column SET fingerprint = $2 WHERE id = $1";
            let fingerprint = self.store.fingerprint();
            let noted = client.execute(statement, &[&self.number(), &&fingerprint[..]]).await;
            noted.map_err(|error| refused(&error))?;
        }
        self.is_whole.send_replace(true);
        Ok(mended)
    }

    /// Reads the table, and enters what is not known.
    async fn enter_missing(
        &self,
        client: &Client,
        known: &HashSet<TextName>,
        columns: &dyn Columns,
    ) -> Result<Mended, WordsError> {
        let begin = format!(
            "{}; DECLARE arras_texts NO SCROLL CURSOR FOR SELECT t.{}, t.{} FROM {} AS t WHERE t.{} IS NOT NULL",
            reading(&self.relation()),
            quoted(&self.name_column()),
            quoted(&self.place.column),
            self.relation(),
            quoted(&self.place.column),
        );
        client.batch_execute(&begin).await.map_err(|error| refused(&error))?;
        let fetch = client.prepare(&format!("FETCH {ROWS} FROM arras_texts")).await;
        let fetch = fetch.map_err(|error| refused(&error))?;
        let mut mended = Mended::default();
        loop {
            let rows = client.query(&fetch, &[]).await.map_err(|error| refused(&error))?;
            if rows.is_empty() {
                break;
            }
            let mut missing = Vec::new();
            for row in &rows {
                let read = |at| row.try_get::<_, Option<&[u8]>>(at).map_err(|error| refused(&error));
                let (name, sealed) = (read(0)?, read(1)?.unwrap_or_default());
                let name: Option<TextName> = name.and_then(|name| name.try_into().ok());
                mended.texts += 1;
                match name.map(|name| (name, known.contains(&name))) {
                    Some((_, true)) => {}
                    Some((name, false)) => match opened(&self.encryption, sealed, columns) {
                        Some(text) => missing.push((name, text)),
                        None => mended.odd += 1,
                    },
                    None => mended.odd += 1,
                }
            }
            mended.entered += u64::try_from(missing.len()).unwrap_or(u64::MAX);
            if !missing.is_empty() {
                self.store.enter(missing).await?;
            }
        }
        client.batch_execute("COMMIT").await.map_err(|error| refused(&error))?;
        Ok(mended)
    }
}
