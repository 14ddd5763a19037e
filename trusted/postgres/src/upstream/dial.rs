//! The proxy's own connections to the database, for what it keeps there.

use super::Upstream;
use crate::{Dial, Dialled, Duplex, Settings};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;

/// Application name of the proxy's own connections, as `pg_stat_activity` shows it.
const APPLICATION: &str = "arras";

impl Dial for Upstream {
    fn dial(&self) -> Dialled<'_> {
        Box::pin(async {
            let stream = self.connect().await.map_err(io::Error::other)?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}

impl Upstream {
    /// How what the proxy keeps in the database is reached: as the URL says, with the same protection as sessions have.
    /// `deadline`: for an answer; `patience`: for transactions that hold labels that must change.
    #[must_use]
    pub fn keeping(&self, deadline: Duration, patience: Duration) -> Settings {
        let mut login = Config::new();
        let user = self.user("postgres");
        login.user(user).dbname(self.database().unwrap_or(user)).application_name(APPLICATION);
        if let Some(password) = self.password() {
            login.password(password);
        }
        Settings { dial: Arc::new(self.clone()), login, deadline, patience }
    }
}
