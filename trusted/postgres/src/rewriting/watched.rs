//! Tables of an older version, which are watched as soon as they can be had.

use super::{Checking, Rewriting};
use crate::{failure, watch_older};
use arras_protocol::ChannelError;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Between two attempts: who writes to such a table waits for each up to a second.
const AGAIN: Duration = Duration::from_secs(30);

impl Rewriting {
    /// Has tables that an older version has noted watched for what is written past the proxy; those that are in use are tried again until
    /// none is left.
    pub async fn watch_tables(self: Arc<Self>) {
        let Some(Checking { connections, .. }) = &self.checking else { return };
        let mut told = BTreeSet::new();
        loop {
            let watched = async {
                let client = connections.open().await?;
                watch_older(&client).await.map_err(|error| failure(&error))
            };
            let now: BTreeSet<(String, String)> = match watched.await {
                Ok(left) if left.is_empty() => return,
                Ok(left) => left.into_iter().map(|one| (one.place, one.why)).collect(),
                Err(error) => BTreeSet::from([(String::new(), ChannelError::to_string(&error))]),
            };
            for (place, why) in now.difference(&told) {
                tracing::warn!(%place, %why, "labels that are written past the proxy may not be noticed here; tried again");
            }
            told.extend(now);
            tokio::time::sleep(AGAIN).await;
        }
    }
}
