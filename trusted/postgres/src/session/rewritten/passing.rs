//! Messages that go on as they are and are about nothing that was rewritten: most of what comes. They are noted as they stand in
//! what has come, all under one lock, and nothing is waited for. Whatever is not known to be one is left to be looked at.

use super::super::late_rows::LateRows;
use super::super::names::Names;
use super::{End, Note, Requests, UNANSWERED_MAX};
use crate::error::SqlError;
use crate::fields::{self, Bind, Target};
use crate::frames::{HEAD_BYTES, Head, Inbox};
use crate::pipeline::Asked;
use crate::session::reading::Reading;

impl Requests<'_> {
    /// Passes on messages up to one that is to be looked at; the head of that, if it has come.
    pub(super) fn next(&mut self, inbox: &mut Inbox) -> Result<Option<Head>, End> {
        let passed = self.passed(inbox.there());
        if passed > 0 {
            self.out.extend_from_slice(inbox.there().get(..passed).unwrap_or_default());
            inbox.passed(passed);
        }
        if inbox.there().len() < HEAD_BYTES {
            return Ok(None);
        }
        let wrong = || End::Violation(SqlError::new("08P01", "invalid message length"));
        Head::read(inbox.there()).map(Some).ok_or_else(wrong)
    }

    /// Notes messages at the beginning of `there` that go on as they are; how many bytes they have.
    fn passed(&mut self, there: &[u8]) -> usize {
        let is_looked_at = self.copying.is_some()
            || self.room.is_some()
            || self.rows != LateRows::Pass
            || self.passed_over.is_begun()
            || self.zone_changes.may_be_prepared();
        if is_looked_at || there.len() < HEAD_BYTES {
            return 0;
        }
        let mut state = self.shared.state();
        if state.failed_here {
            return 0;
        }
        let mut passed = 0;
        // The one that makes too many is waited behind.
        while state.pipeline.len() + 1 < UNANSWERED_MAX
            && let Some(rest) = there.get(passed..)
            && let Some(head) = Head::read(rest)
            && let Some(body) = rest.get(HEAD_BYTES..head.total)
            && self.is_of_others(head.kind, body, &state.names)
        {
            self.meant.before(head.kind, body);
            if let Some(asked) = Asked::by(head.kind) {
                self.number += 1;
                let note = Note { number: self.number, reading: Reading::Plain, undo: None };
                let _ = state.pipeline.sent(asked, note);
            }
            passed += head.total;
        }
        passed
    }

    /// Is a message about nothing that was rewritten, and does it neither change that nor end anything?
    fn is_of_others(&self, kind: u8, body: &[u8], names: &Names) -> bool {
        match kind {
            b'S' | b'H' => true,
            b'B' => Bind::names(body).is_some_and(|(portal, statement)| {
                names.portal(portal).is_none()
                    && self.is_others_statement(statement, names)
                    && !self.changes.has_prepared(statement)
                    && !names.named.gone.has(statement)
                    && !self.meant.has(statement)
            }),
            b'D' => Target::read(body).is_some_and(|target| match target.kind {
                b'S' => self.is_others_statement(target.name, names),
                _ => self.is_others_portal(target.name, names),
            }),
            b'E' => fields::portal(body).is_some_and(|portal| self.is_others_portal(portal, names)),
            _ => false,
        }
    }

    /// Is there no rewritten statement of this name, of the protocol or of SQL?
    fn is_others_statement(&self, name: &[u8], names: &Names) -> bool {
        names.statement(name).is_none() && (name.is_empty() || !self.names_in_sql)
    }

    /// Is there no portal of a rewritten statement of this name, and no cursor of SQL?
    fn is_others_portal(&self, name: &[u8], names: &Names) -> bool {
        names.portal(name).is_none() && (name.is_empty() || !self.names_in_sql)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::pass;
    use super::*;
    use crate::cancel::{Cancellable, Key};
    use crate::plan::Action;
    use crate::replies;
    use crate::session::reading::{Statement, Texts};
    use crate::session::tests::rewriting;
    use crate::session::{BothWays, Surroundings};
    use crate::stream::{Socket, Stream};
    use crate::upstream::Upstream;
    use std::sync::{Arc, Mutex};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    /// A statement that was rewritten.
    fn statement() -> Statement {
        let catalog = crate::rewrite::tests::catalog();
        let planned = crate::plan("SELECT balance FROM accounts", &catalog).unwrap().remove(0);
        let Action::Rewritten(rewritten) = planned.action else { panic!("it is not rewritten") };
        Statement {
            texts: Texts::default(),
            rewritten,
            before: Vec::new(),
            after: Vec::new(),
            program: None,
            naming: None,
            shape: Mutex::default(),
            told: Mutex::default(),
            types: Vec::new(),
            _share: None,
        }
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        replies::message(&mut out, kind, |out| out.extend_from_slice(body));
        out
    }

    /// What the database gets of messages, and of each that it answers whether its replies are the client's as they come.
    async fn sent(shared: &BothWays, messages: &[u8], answered: usize) -> (Vec<u8>, Vec<(Asked, bool)>) {
        let (entered, rewriting) = (Cancellable::default().enter(Key { process: 1, secret: 1 }), rewriting());
        let upstream = Upstream::parse("postgresql://127.0.0.1/bank", None).unwrap();
        let rewrites = Some(&rewriting);
        let around =
            Surroundings { entered: &entered, upstream: &upstream, rewriting: rewrites, database: "bank" };
        let (mut driver, client) = UnixStream::pair().unwrap();
        let (database, mut server) = UnixStream::pair().unwrap();
        let (from, _client) = Stream::Plain(Socket::Unix(client)).split();
        let (_database, mut to) = Stream::Plain(Socket::Unix(database)).split();
        driver.write_all(messages).await.unwrap();
        let mut came = Vec::new();
        let reads = async {
            while shared.state().pipeline.len() < answered || !came.ends_with(&message(b'S', b"")) {
                assert!(server.read_buf(&mut came).await.unwrap() > 0);
            }
        };
        let part = rewriting.kept.session();
        tokio::select! {
            end = pass(shared, (&rewriting, around.behind(), &part), from, &mut to) => panic!("{end:?}"),
            () = reads => {}
        }
        let mut state = shared.state();
        let is_plain = |reading: &Reading| matches!(reading, Reading::Plain);
        (came, state.pipeline.entries().map(|entry| (entry.asked, is_plain(&entry.note.reading))).collect())
    }

    #[tokio::test]
    async fn what_is_about_something_rewritten_is_looked_at() {
        let shared = BothWays::new(b"");
        shared.state().names.prepare(b"s", Some((1, Arc::new(statement()))));
        shared.state().names.named.went(b"left");
        let other = [
            message(b'B', b"\0o\0\0\0\0\x01\0\0\0\x05value\0\0"),
            message(b'D', b"P\0"),
            message(b'E', b"\0\0\0\0\0"),
            message(b'D', b"So\0"),
        ]
        .concat();
        let left = message(b'B', b"\0left\0\0\0\0\x01\0\0\0\x06secret\0\0");
        let rewritten = [
            message(b'B', b"p\0s\0\0\0\0\0\0\0"),
            message(b'D', b"Pp\0"),
            message(b'E', b"p\0\0\0\0\0"),
            message(b'D', b"Ss\0"),
        ]
        .concat();
        // Under its name there is another one's portal then.
        let again = [message(b'B', b"p\0o\0\0\0\0\0\0\0"), message(b'E', b"p\0\0\0\0\0")].concat();
        let (flush, sync) = (message(b'H', b""), message(b'S', b""));
        let all = [&other[..], &flush, &left, &rewritten, &again, &sync].concat();
        let (came, readings) = sent(&shared, &all, 12).await;
        use Asked::{Bind, Describe, Execute, Sync};
        let mut expected =
            vec![(Bind, true), (Describe, true), (Execute, true), (Describe, true), (Bind, true)];
        expected.extend([(Bind, false), (Describe, false), (Execute, false), (Describe, false)]);
        expected.extend([(Bind, true), (Execute, true), (Sync, true)]);
        assert_eq!(readings, expected);
        assert!(came.starts_with(&[&other[..], &flush].concat()), "it goes on as it came");
        let has = |part: &[u8]| came.windows(part.len()).any(|bytes| bytes == part);
        assert!(has(b"value") && has(b"left") && !has(b"secret"));
        assert!(shared.state().names.portal(b"p").is_none());
    }
}
