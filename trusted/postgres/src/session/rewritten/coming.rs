//! What comes from the client: read as it comes, and a large message that must be whole once there is room for it.

use super::{Ended, Requests};
use crate::error::SqlError;
use crate::frames::Inbox;
use crate::room::{BEGINNING_BYTES, Share, UNCOUNTED_BYTES};
use crate::session::{End, FromSide};
use std::io;

impl Requests<'_> {
    /// The room that is had the longest.
    pub(super) fn had(&self) -> Option<&Share> {
        self.out_room.first().or(self.row_room.first()).or(self.room.as_ref())
    }

    /// Reads more, of a message that has room or of rows that do.
    pub(super) async fn fill(&mut self, inbox: &mut Inbox, from: &mut FromSide) -> Ended {
        let requests = &self.rewriting.requests;
        let came = match &self.room {
            Some(room) if self.row_room.is_empty() => {
                let came = requests.coming(Some(room), inbox.fill(from)).await?;
                room.came(*came.as_ref().unwrap_or(&0));
                came
            }
            // Between two parts of a row its sender may do something else.
            _ => requests.giving_up(self.had(), inbox.fill(from)).await?,
        };
        self.is_there(&came)
    }

    /// The session's end if there is no more.
    fn is_there(&self, came: &io::Result<usize>) -> Ended {
        match came {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => {
                let idle = self.shared.state().pipeline.is_empty();
                Err(if idle { End::Left } else { End::Abandoned })
            }
        }
    }

    /// Has room for a message of so many bytes that must be whole, once it has begun: to announce it costs its sender nothing.
    pub(super) async fn room_for(
        &mut self,
        bytes: usize,
        inbox: &mut Inbox,
        from: &mut FromSide,
    ) -> Result<Result<(), SqlError>, End> {
        let uncounted = bytes.min(UNCOUNTED_BYTES);
        inbox.make_room(uncounted);
        while inbox.there().len() < uncounted {
            self.write().await?;
            self.fill(inbox, from).await?;
        }
        let requests = &self.rewriting.requests;
        // Who has room for what comes before it waits for no more.
        let share = match self.row_room.is_empty() {
            true => {
                self.write().await?;
                // Had until there is room for the rest: what has come is in memory meanwhile.
                let beginning = match requests.beginning(bytes).await {
                    Ok(beginning) => beginning,
                    Err(refused) => return Ok(Err(refused.into())),
                };
                if let Some(beginning) = &beginning {
                    inbox.make_room(BEGINNING_BYTES);
                    while inbox.there().len() < BEGINNING_BYTES {
                        let came = requests.beginning_with(beginning, inbox.fill(from)).await?;
                        beginning.came(*came.as_ref().unwrap_or(&0));
                        self.is_there(&came)?;
                    }
                }
                requests.share(bytes).await
            }
            false => requests.try_message(bytes),
        };
        match share {
            Ok(share) => self.room = share,
            Err(refused) => return Ok(Err(refused.into())),
        }
        inbox.make_room(bytes);
        Ok(Ok(()))
    }

    /// Reads the rest of a message, and passes it on or not.
    pub(super) async fn rest(
        &mut self,
        inbox: &mut Inbox,
        from: &mut FromSide,
        mut rest: usize,
        pass: bool,
    ) -> Ended {
        while rest > 0 {
            self.write().await?;
            self.fill(inbox, from).await?;
            let came = rest.min(inbox.there().len());
            if pass {
                self.out.extend_from_slice(inbox.there().get(..came).unwrap_or_default());
            }
            inbox.passed(came);
            rest -= came;
        }
        Ok(())
    }
}
