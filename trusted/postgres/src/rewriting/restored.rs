//! The look for tables that came past the proxy, while it runs.

use super::unset::{Failed, Told};
use super::{Checking, Rewriting};
use crate::{Stored, failure, not_known_there, set_anew};
use arras_protocol::ChannelError;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// After one that failed.
const AGAIN: Duration = Duration::from_secs(10);

/// Labels that are being set anew, while others are looked for; which could not be.
type Setting = Pin<Box<dyn Future<Output = Vec<Failed>> + Send>>;

/// Goes on with it for so long; what came of it, if it has ended.
async fn within(setting: &mut Option<Setting>, time: Duration) -> Option<Vec<Failed>> {
    let Some(under_way) = setting else {
        tokio::time::sleep(time).await;
        return None;
    };
    let ended = tokio::time::timeout(time, under_way).await.ok()?;
    *setting = None;
    Some(ended)
}

impl Rewriting {
    /// Looks for tables that came past the proxy, and sets their labels anew, for as long as the process runs. Sessions are told, so
    /// that they read the tables again.
    pub async fn keep_labels(self: Arc<Self>) {
        let Some(Checking { connections, .. }) = &self.checking else { return };
        let mut standing: Option<Client> = None;
        let (mut seen, mut told) = (Vec::new(), Told::default());
        let mut setting: Option<Setting> = None;
        let mut may_begin = Instant::now();
        loop {
            let looked = async {
                let client = match standing.take().filter(|client| !client.is_closed()) {
                    Some(client) => client,
                    None => connections.open().await?,
                };
                let found = not_known_there(&client, &self.schema).await.map_err(|error| failure(&error))?;
                standing = Some(client);
                Ok::<_, ChannelError>(found)
            };
            let pause = match looked.await {
                Ok(found) => {
                    self.unset.keep(|place| found.iter().any(|stored| stored.place == *place));
                    if found != seen {
                        self.changed();
                        seen.clone_from(&found);
                    }
                    if !found.is_empty() && setting.is_none() && may_begin <= Instant::now() {
                        let this = Arc::clone(&self);
                        setting = Some(Box::pin(async move { this.set_all_anew(&found).await }));
                    }
                    told.looked();
                    EVERY
                }
                Err(error) => {
                    seen.clear();
                    told.not_looked(&error);
                    AGAIN
                }
            };
            // Also while no look succeeds: what came of it is told.
            if let Some(failed) = within(&mut setting, pause).await {
                // Whatever is found next is new, the same place among it.
                seen.clear();
                if !failed.is_empty() {
                    may_begin = Instant::now() + AGAIN;
                }
                told.not_set(&failed);
            }
        }
    }

    /// Sets the labels of all of them anew; those that could not be, and why.
    async fn set_all_anew(&self, found: &[Stored]) -> Vec<Failed> {
        let Some(Checking { connections, .. }) = &self.checking else { return Vec::new() };
        let mut failed = Vec::new();
        for stored in found {
            let place = stored.place.join(".");
            match set_anew(connections, &self.schema, &*self.columns, stored).await {
                Ok(Some(rows)) => {
                    tracing::warn!(%place, rows, "labels were set anew: the table came past the proxy");
                }
                Ok(None) => {}
                Err(error) => failed.push(Failed { place: stored.place.clone(), error }),
            }
        }
        self.unset.are(&failed);
        if !found.is_empty() {
            self.changed();
        }
        failed
    }
}
