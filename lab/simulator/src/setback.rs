//! The end of a run in which a disk is set back: it must be noticed, and once the disk is as it was, all is well.

use crate::application;
use crate::disk::Content;
use crate::model::Choice;
use crate::plan::{Action, Ending};
use crate::world::{Checked, StartError, World};
use arras_service::error::Fault;
use std::time::Duration;
use tokio::time::sleep;

impl World {
    /// Ends the run as planned; `server` and `local`: what the disks were before the last round.
    pub(crate) async fn end(&self, server: &Content, local: &Content) -> Checked<()> {
        if self.plan.ending == Ending::Well {
            return Ok(());
        }
        if !self.was_written_since(server).await? {
            return Ok(());
        }
        self.note(|| format!("{:?}", self.plan.ending));
        let (server_now, local_now) = match self.plan.ending {
            Ending::Well => return Ok(()),
            Ending::ServerSetBack => {
                let now = self.set_server(server);
                self.must_refuse().await?;
                (now, None)
            }
            Ending::ServerSetBackAtStart => {
                self.stop_proxy().await;
                let now = self.set_server(server);
                self.must_not_start("its server").await?;
                (now, None)
            }
            Ending::ProxySetBack => {
                self.stop_proxy().await;
                let now = self.local.copy();
                self.local.restore(local);
                self.must_not_start("it itself").await?;
                (self.server.copy(), Some(now))
            }
        };
        // Put back, all is well.
        self.stop_proxy().await;
        self.set_server(&server_now);
        if let Some(now) = local_now {
            self.local.restore(&now);
        }
        self.start_again().await?;
        self.check_all().await
    }

    fn set_server(&self, content: &Content) -> Content {
        let now = self.server.copy();
        self.network.set_server(None);
        self.server.restore(content);
        self.start_server();
        now
    }

    /// True if a write was acknowledged since: makes one more, so that there is.
    async fn was_written_since(&self, _server: &Content) -> Checked<bool> {
        let written =
            crate::model::Writing::Insert(vec![crate::model::Item { id: 999, u: 999, a: 1, b: 1, v: 1 }]);
        let action = Action::Write(written);
        let proxy = self.proxy().await?;
        match self.ask(0, &action, &proxy).await {
            Ok(()) => Ok(true),
            Err(_) => Err("a write fails though all is well".into()),
        }
    }

    /// A proxy whose server was set back answers nothing.
    async fn must_refuse(&self) -> Checked<()> {
        let proxy = self.proxy().await?;
        for attempt in 0..5 {
            let found = application::read(&proxy.engine, None, &Action::Find(Choice::All)).await;
            match found {
                Ok(found) => return Err(format!("the server was set back, and the proxy answers {found:?}")),
                Err(error) if error.fault == Fault::Halted => return Ok(()),
                Err(error) => self.note(|| format!("attempt {attempt}: {error:?}")),
            }
            sleep(Duration::from_millis(500)).await;
        }
        Err("the server was set back, and the proxy does not say so".into())
    }

    async fn must_not_start(&self, what: &str) -> Checked<()> {
        for _ in 0..20 {
            match self.start_proxy().await {
                Ok(()) => return Err(format!("{what} was set back, and the proxy starts")),
                Err(StartError::Halted(_)) => return Ok(()),
                Err(StartError::Passing(_)) => sleep(Duration::from_millis(100)).await,
                Err(StartError::Failed(why)) => return Err(format!("{what} was set back, and: {why}")),
            }
        }
        Err(format!("{what} was set back, and the proxy does not say so"))
    }
}
