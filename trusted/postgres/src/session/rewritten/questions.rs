//! What the proxy asks the database about names before statements that name them: prepared once in a session, since it is asked often.

use super::Requests;
use crate::error::{SqlError, sqlstate};
use crate::fields::Bind;
use crate::pipeline::Asked;
use crate::plan::PhysicalValue;
use crate::replies;
use crate::session::physical::{self, close, close_portal, execute, parse};
use crate::session::reading::{Answer, Exchange, Reading, Rows};
use tokio::sync::oneshot;

/// A question, whose parameters are arrays of text.
#[derive(Clone, Copy)]
pub(super) enum Question {
    /// Whether one of the names `$1` is that of a view or of a part of a table, the system's own (schema 11) aside.
    Views,
    /// Which of the relations of schemas `$1` (none if it is empty) and names `$2` are parts of tables: schema and name of the part,
    /// and of the table. By the names whatever schema they are in, as the catalogue knows parts; and as the session has them now,
    /// where its transaction sees the past.
    Parts,
    /// The session's time zone, and the seconds that it is ahead of UTC at the moments `$1`, in seconds from 1970.
    Zone,
}

impl Question {
    /// What it is prepared under.
    fn name(self) -> &'static [u8] {
        match self {
            Self::Views => b"arras asks of views",
            Self::Parts => b"arras asks of parts",
            Self::Zone => b"arras asks of the time zone",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Views => {
                "SELECT 1 FROM pg_catalog.pg_class WHERE (relkind IN ('v', 'm') OR (relispartition AND relkind IN ('r', 'p', 'f'))) \
                 AND relnamespace <> 11 \
                 AND relname = ANY ((SELECT $1::pg_catalog.text[])::pg_catalog.name[]) LIMIT 1"
            }
            Self::Parts => {
                "WITH RECURSIVE asked (of_schema, name) AS (\
                 SELECT nullif(s, ''), n FROM ROWS FROM (pg_catalog.unnest((SELECT $1::pg_catalog.text[])), pg_catalog.unnest((SELECT $2::pg_catalog.text[]))) a (s, n)), \
                 meant (oid, of_schema, name) AS (\
                 SELECT c.oid, NULL::pg_catalog.text, c.relname::pg_catalog.text FROM pg_catalog.pg_class c \
                 WHERE c.relname = ANY ((SELECT $2::pg_catalog.text[])::pg_catalog.name[]) \
                 UNION SELECT CASE WHEN a.of_schema IS NULL THEN pg_catalog.to_regclass(pg_catalog.quote_ident(a.name)) \
                 WHEN pg_catalog.has_schema_privilege(pg_catalog.to_regnamespace(pg_catalog.quote_ident(a.of_schema)), 'USAGE') \
                 THEN pg_catalog.to_regclass(pg_catalog.quote_ident(a.of_schema) || '.' || pg_catalog.quote_ident(a.name)) END::pg_catalog.oid, \
                 a.of_schema, a.name FROM asked a), \
                 above (part, of_schema, name, whole) AS (\
                 SELECT m.oid, m.of_schema, m.name, p.relid::pg_catalog.oid FROM meant m, \
                 LATERAL pg_catalog.pg_partition_ancestors(m.oid::pg_catalog.regclass) AS p (relid) WHERE p.relid <> m.oid \
                 UNION SELECT m.oid, m.of_schema, m.name, i.inhparent FROM meant m JOIN pg_catalog.pg_inherits i ON i.inhrelid = m.oid \
                 UNION SELECT a.part, a.of_schema, a.name, i.inhparent FROM above a JOIN pg_catalog.pg_inherits i ON i.inhrelid = a.whole) \
                 SELECT coalesce(n.nspname::pg_catalog.text, a.of_schema, ''), coalesce(c.relname::pg_catalog.text, a.name), \
                 m.nspname::pg_catalog.text, w.relname::pg_catalog.text FROM above a \
                 JOIN pg_catalog.pg_class w ON w.oid = a.whole JOIN pg_catalog.pg_namespace m ON m.oid = w.relnamespace \
                 LEFT JOIN pg_catalog.pg_class c ON c.oid = a.part LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            }
            Self::Zone => {
                "SELECT pg_catalog.current_setting('TimeZone'), pg_catalog.string_agg(\
                 (EXTRACT(timezone FROM pg_catalog.to_timestamp(a.t)))::pg_catalog.int4::pg_catalog.text, ',' ORDER BY a.n) \
                 FROM ROWS FROM (pg_catalog.unnest((SELECT $1::pg_catalog.text[])::pg_catalog.int8[])) WITH ORDINALITY AS a (t, n)"
            }
        }
    }
}

/// Which questions are prepared in a session.
#[derive(Default)]
pub(super) struct Questions {
    views: bool,
    parts: bool,
    zone: bool,
}

impl Questions {
    fn prepared(&mut self, question: Question) -> &mut bool {
        match question {
            Question::Views => &mut self.views,
            Question::Parts => &mut self.parts,
            Question::Zone => &mut self.zone,
        }
    }
}

/// An array of text, as PostgreSQL reads one.
pub(super) fn array<'t>(texts: impl Iterator<Item = &'t str>) -> PhysicalValue {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    PhysicalValue::Text(format!("{{{}}}", texts.map(quoted).collect::<Vec<_>>().join(",")))
}

/// What the client is told of what the proxy asked if the link to the database broke.
pub(super) fn lost() -> SqlError {
    SqlError::new(sqlstate::CONNECTION_FAILURE, "the database did not answer the proxy")
}

impl Requests<'_> {
    /// Waits until what was sent is answered.
    ///
    /// # Errors
    /// The database is gone.
    pub(super) async fn answered(&mut self) -> Result<(), SqlError> {
        // It keeps replies back until it is asked for them.
        replies::message(&mut self.out, b'H', |_| ());
        self.write().await.map_err(|_| lost())?;
        self.shared.at_most(0).await;
        Ok(())
    }

    /// Waits until what was sent is answered; true if something of it failed.
    pub(in crate::session) async fn failed_meanwhile(&self) -> bool {
        self.shared.at_most(0).await;
        self.shared.state().pipeline.is_skipping()
    }

    /// Asks the database before a client's message, also within its pipeline, with the parameters. Nothing is answered if what comes is
    /// passed over.
    ///
    /// # Errors
    /// What the database says; 57014 if the client's statement was cancelled meanwhile.
    pub(super) async fn ask_of(
        &mut self,
        question: Question,
        values: &[PhysicalValue],
    ) -> Result<Rows, SqlError> {
        if self.shared.state().pipeline.is_skipping() {
            return Ok(Rows::new());
        }
        let entered = self.behind.entered;
        entered.done_there(self.ask_prepared(question, values)).await
    }

    async fn ask_prepared(&mut self, question: Question, values: &[PhysicalValue]) -> Result<Rows, SqlError> {
        // Within a pipeline nothing ends what it does, and the database's own words tell the client of a failure.
        let within = !self.shared.state().can_ask();
        let name = question.name();
        let mut answers = Vec::new();
        // It is there again when it has been executed: something at the database may have closed it.
        let is_there = std::mem::take(self.questions.prepared(question));
        if !self.may_keep || !is_there {
            self.hidden_message(Asked::Close, |out| close(out, name));
            parse(&mut self.out, name, question.text(), &[]);
            answers.push(self.own(Asked::Parse, within));
        }
        self.hidden_message(Asked::Close, |out| close_portal(out, name));
        let bound = Bind { portal: name, statement: name, formats: vec![], values: vec![], results: vec![] };
        physical::bind(&mut self.out, &bound, values);
        answers.push(self.own(Asked::Bind, within));
        execute(&mut self.out, name);
        let executed = self.own(Asked::Execute, within);
        self.hidden_message(Asked::Close, |out| close_portal(out, name));
        if within {
            replies::message(&mut self.out, b'H', |_| ());
        } else {
            replies::message(&mut self.out, b'S', |_| ());
            self.sent(Asked::Sync, Reading::Silent, None);
        }
        self.write().await.map_err(|_| lost())?;
        answers.push(executed);
        let mut last = None;
        for answer in answers {
            last = match answer.await {
                Ok(Ok(answer)) => Some(answer),
                // It has been told by the database's own words.
                Ok(Err(_)) if within && self.failed_meanwhile().await => return Ok(Rows::new()),
                Ok(Err(error)) => return Err(error),
                Err(_) => None,
            };
        }
        match last.filter(|answer| answer.is_complete) {
            Some(answer) => {
                *self.questions.prepared(question) = true;
                Ok(answer.rows)
            }
            // What is before it in the pipeline has failed.
            None if within => Ok(Rows::new()),
            None => Err(lost()),
        }
    }

    /// Notes a message of the proxy's own; what it is answered.
    fn own(&mut self, asked: Asked, within: bool) -> oneshot::Receiver<Result<Answer, SqlError>> {
        let (exchange, answered) = Exchange::new(within);
        self.sent(asked, Reading::Own(Box::new(exchange)), None);
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_in_an_array() {
        let names = ["", "a b", "q\"q", "back\\slash", "NULL", "{,}"];
        let PhysicalValue::Text(text) = array(names.into_iter()) else { panic!("of another form") };
        assert_eq!(text, r#"{"","a b","q\"q","back\\slash","NULL","{,}"}"#);
    }
}
