//! The end of a run in which a disk is set back: it must be noticed, and once the disk is as it was, all is well.

use crate::application;
use crate::disk::Content;
use crate::model::{Choice, Item, Writing};
use crate::plan::{Action, Ending};
use crate::texts::Sought;
use crate::world::{Checked, Copies, StartError, World};
use arras_iee::Fault as Ended;
use arras_service::error::Fault;
use std::time::Duration;
use tokio::time::sleep;

impl World {
    /// Ends the run as planned; `before`: what the disks were before the last round.
    pub(crate) async fn end(&self, before: &Copies) -> Checked<()> {
        if self.plan.ending == Ending::Well {
            return Ok(());
        }
        self.write_once_more().await?;
        self.note(|| format!("{:?}", self.plan.ending));
        let mut now = self.copies();
        match self.plan.ending {
            Ending::Well => return Ok(()),
            Ending::ServerSetBack => {
                now.server = self.set_server(&before.server);
                self.must_refuse(Choice::All, Fault::Halted).await?;
            }
            Ending::ServerSetBackAtStart => {
                self.stop_proxy().await;
                now.server = self.set_server(&before.server);
                self.must_not_start("its server").await?;
            }
            Ending::ProxySetBack => {
                self.stop_proxy().await;
                (now.local, now.server) = (self.local.copy(), self.server.copy());
                self.local.restore(&before.local);
                self.must_not_start("it itself").await?;
            }
            Ending::SearchSetBack => {
                self.search.restore(&before.search, false);
                self.search.start();
                self.must_end(Ended::StateSetBack).await?;
            }
            Ending::SearchAndCounterSetBack => {
                self.search.restore(&before.search, true);
                self.search.start();
                self.must_refuse(Choice::Text(Sought::word(0)), Fault::Corruption).await?;
            }
            Ending::SearchAndCounterSetBackAtStart => {
                self.stop_proxy().await;
                self.search.restore(&before.search, true);
                self.search.start();
                self.start_again().await?;
                self.must_refuse(Choice::Text(Sought::word(0)), Fault::Corruption).await?;
            }
        }
        // Put back, all is well.
        self.stop_proxy().await;
        self.set_server(&now.server);
        if self.plan.ending == Ending::ProxySetBack {
            self.local.restore(&now.local);
        }
        if self.plan.texts {
            self.search.restore(&now.search, true);
            self.search.start();
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

    /// A write that is acknowledged since the disks were what they are set back to.
    async fn write_once_more(&self) -> Checked<()> {
        let t = if self.plan.texts { vec![0, 3] } else { Vec::new() };
        let written = Writing::Insert(vec![Item { id: 999, u: 999, a: 1, b: 1, v: 1, t }]);
        let proxy = self.proxy().await?;
        let asked = self.ask(0, &Action::Write(written), &proxy).await;
        asked.map_err(|why| format!("a write fails though all is well: {why:?}"))
    }

    /// The enclave of a machine that was set back ends by itself.
    async fn must_end(&self, why: Ended) -> Checked<()> {
        sleep(Duration::from_secs(2)).await;
        match self.search.take_fault() {
            Some(fault) if fault == why => Ok(()),
            other => {
                Err(format!("the host of boolean search was set back, and its enclave ends by {other:?}"))
            }
        }
    }

    /// A proxy whose server, or whose host of boolean search, was set back answers nothing that would need it.
    async fn must_refuse(&self, choice: Choice, fault: Fault) -> Checked<()> {
        let proxy = self.proxy().await?;
        let action = Action::Find(choice);
        for attempt in 0..5 {
            let found = application::read(&proxy.engine, None, &action).await;
            match found {
                Ok(found) => return Err(format!("it was set back, and the proxy answers {found:?}")),
                Err(error) if error.fault == fault => return Ok(()),
                Err(error) => self.note(|| format!("attempt {attempt}: {error:?}")),
            }
            sleep(Duration::from_millis(500)).await;
        }
        Err("it was set back, and the proxy does not say so".into())
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
