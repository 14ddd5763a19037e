//! The look for tables that came past the proxy, while it runs.

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

/// Labels that are being set anew, while others are looked for.
type Setting = Pin<Box<dyn Future<Output = Result<(), ChannelError>> + Send>>;

/// Goes on with it for so long; what came of it, if it has ended.
async fn within(setting: &mut Option<Setting>, time: Duration) -> Option<Result<(), ChannelError>> {
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
        let (mut seen, mut told) = (Vec::new(), String::new());
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
            let ended = match looked.await {
                Ok(found) => {
                    if found != seen {
                        self.changed();
                        seen.clone_from(&found);
                    }
                    if !found.is_empty() && setting.is_none() && may_begin <= Instant::now() {
                        let this = Arc::clone(&self);
                        setting = Some(Box::pin(async move { this.set_all_anew(&found).await }));
                    }
                    within(&mut setting, EVERY).await
                }
                Err(error) => {
                    within(&mut setting, AGAIN).await;
                    Some(Err(error))
                }
            };
            if ended.is_some() {
                // Whatever is found next is new, the same place among it.
                seen.clear();
            }
            match ended {
                None => {}
                Some(Ok(())) => told.clear(),
                Some(Err(error)) => {
                    may_begin = Instant::now() + AGAIN;
                    let said = error.to_string();
                    if said != told {
                        tracing::warn!(%error, "labels of tables that came past the proxy could not be set anew; tried again");
                        told = said;
                    }
                }
            }
        }
    }

    async fn set_all_anew(&self, found: &[Stored]) -> Result<(), ChannelError> {
        let Some(Checking { connections, .. }) = &self.checking else { return Ok(()) };
        let mut failed = None;
        for stored in found {
            let place = stored.place.join(".");
            match set_anew(connections, &self.schema, &*self.columns, stored).await {
                Ok(Some(rows)) => {
                    tracing::warn!(%place, rows, "labels were set anew: the table came past the proxy");
                }
                Ok(None) => {}
                Err(error) => failed = Some(ChannelError::Halted(format!("{place}: {error}"))),
            }
        }
        if !found.is_empty() {
            self.changed();
        }
        failed.map_or(Ok(()), Err)
    }
}
