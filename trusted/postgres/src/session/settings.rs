//! What of a session's settings statements are read by.

use crate::codec::Zone;
use crate::error::SqlError;
use crate::fields::Fields;
use crate::plan::{Action, DerivedPart, Output, Outputs, Program};
use crate::rewriting::Zones;
use chrono_tz::Tz;

/// Names of the time zone UTC, by themselves and behind `Etc/`.
const UTC: [&str; 9] = ["UTC", "UCT", "GMT", "GMT0", "GMT+0", "GMT-0", "Greenwich", "Universal", "Zulu"];

/// The settings that say how a statement's text is to be read.
#[derive(Debug)]
pub(super) struct Settings {
    utf8: bool,
    standard_strings: bool,
    iso: bool,
    /// The time zone that the session is said to be in, if its rules are known here.
    rules: Option<Tz>,
    /// It was set in the transaction under way, which may set it back.
    was_set: bool,
    /// The same, as far as the server's rules were found to agree.
    zone: Zone,
}

/// Does a result show a day or a moment that the proxy opens?
pub(super) fn shows_dates(outputs: &Outputs) -> bool {
    let Outputs::Columns(list) = outputs else { return false };
    let reads = |part: &DerivedPart| match part {
        DerivedPart::Fold(_, column) | DerivedPart::Value(column) => column.kind.is_time(),
        DerivedPart::Plain(kind) => kind.is_time(),
        DerivedPart::Count => false,
    };
    list.iter().any(|output| match output {
        Output::Sealed(column) => column.kind.is_time(),
        // What is computed may be a text of one.
        Output::Derived(derived) => derived.kind.is_time() || derived.parts.iter().any(reads),
        _ => false,
    })
}

/// Does what becomes of a statement show one?
fn action_shows_dates(action: &Action) -> bool {
    match action {
        Action::Unchanged | Action::Refused(_) => false,
        Action::Rewritten(rewritten) => shows_dates(&rewritten.outputs),
        Action::Program(program) => match &**program {
            Program::Layout(layout) => layout.steps.iter().any(|step| shows_dates(&step.outputs)),
            Program::Recompute(recompute) => shows_dates(&recompute.write.outputs),
            Program::CopyOut(copy) => shows_dates(&copy.read.outputs),
            Program::CopyIn(_) => false,
        },
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            utf8: true,
            standard_strings: true,
            iso: true,
            rules: None,
            was_set: false,
            zone: Zone::Unknown,
        }
    }
}

impl Settings {
    /// Reads `ParameterStatus` messages, one after another.
    pub(super) fn read_all(&mut self, mut messages: &[u8]) {
        while let Some(head) = crate::frames::Head::read(messages) {
            let Some((message, rest)) = messages.split_at_checked(head.total) else { return };
            if head.kind == b'S' {
                self.read(message);
            }
            messages = rest;
        }
    }

    /// Reads a `ParameterStatus`.
    pub(super) fn read(&mut self, frame: &[u8]) {
        let mut fields = Fields::new(frame.get(5..).unwrap_or_default());
        let (Some(name), Some(value)) = (fields.string(), fields.string()) else { return };
        match name {
            b"client_encoding" => self.utf8 = value.eq_ignore_ascii_case(b"UTF8"),
            b"standard_conforming_strings" => self.standard_strings = value == b"on",
            b"DateStyle" => self.iso = value.starts_with(b"ISO"),
            b"TimeZone" => {
                let name = value.strip_prefix(b"Etc/").unwrap_or(value);
                let is_utc = UTC.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
                let name = std::str::from_utf8(value).ok().filter(|_| !is_utc);
                self.rules = name.and_then(|name| name.parse().ok());
                self.zone = if is_utc { Zone::Utc } else { Zone::Unknown };
                self.was_set = true;
            }
            _ => {}
        }
    }

    /// The session's time zone.
    pub(super) fn zone(&self) -> Zone {
        self.zone
    }

    /// Was the time zone set in the transaction under way?
    pub(super) fn set_zone(&self) -> bool {
        self.was_set
    }

    /// No transaction is under way.
    pub(super) fn transaction_ended(&mut self) {
        self.was_set = false;
    }

    /// Looks whether the server's rules of the session's zone were compared with the proxy's; the zone if they were not.
    pub(super) fn look_up_zone(&mut self, zones: &Zones) -> Option<Tz> {
        let rules = self.rules.filter(|_| self.zone == Zone::Unknown)?;
        match zones.get(rules) {
            Some(zone) => {
                self.zone = zone;
                None
            }
            None => Some(rules),
        }
    }

    /// That days and moments are shown as the session asks for them: the proxy writes ISO 8601.
    ///
    /// # Errors
    /// It asks for something else, and a statement shows some.
    pub(super) fn require_dates(&self, action: &Action) -> Result<(), SqlError> {
        self.require_style(action_shows_dates(action))
    }

    /// The same of what was prepared.
    pub(super) fn require_dates_of(
        &self,
        program: Option<&Program>,
        outputs: &Outputs,
    ) -> Result<(), SqlError> {
        let of_program = program.is_some_and(|program| match program {
            Program::Recompute(recompute) => shows_dates(&recompute.write.outputs),
            Program::CopyOut(copy) => shows_dates(&copy.read.outputs),
            Program::Layout(_) | Program::CopyIn(_) => false,
        });
        self.require_style(of_program || (program.is_none() && shows_dates(outputs)))
    }

    fn require_style(&self, shows_dates: bool) -> Result<(), SqlError> {
        if self.iso || !shows_dates {
            return Ok(());
        }
        let message = "dates and moments of encrypted columns are shown in ISO 8601 alone";
        Err(SqlError::new("0A000", message).hint("SET datestyle = 'ISO'."))
    }

    /// That a text means what it seems to, and values are what they seem to be.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn require_readable(&self) -> Result<(), SqlError> {
        let refused = |what: &str, hint: &str| {
            Err(SqlError::new("0A000", format!("statements on encrypted tables are not read with {what}"))
                .hint(hint))
        };
        if !self.utf8 {
            return refused("another client_encoding than UTF8", "SET client_encoding = 'UTF8'.");
        }
        if !self.standard_strings {
            return refused("standard_conforming_strings off", "SET standard_conforming_strings = on.");
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::replies;

    fn status(name: &str, value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        replies::message(&mut out, b'S', |out| {
            replies::string(out, name.as_bytes());
            replies::string(out, value.as_bytes());
        });
        out
    }

    #[test]
    fn dates_are_shown_in_one_style() {
        let catalog = crate::rewrite::tests::catalog();
        let action = |text| crate::plan(text, &catalog).unwrap().remove(0).action;
        let (shown, hidden) = (
            action("SELECT max(opened) FROM accounts"),
            action("SELECT balance FROM accounts ORDER BY opened"),
        );
        let mut settings = Settings::default();
        for (style, fits) in
            [("ISO, DMY", true), ("German, DMY", false), ("SQL, MDY", false), ("ISO, MDY", true)]
        {
            settings.read(&status("DateStyle", style));
            assert_eq!(settings.require_dates(&shown).is_ok(), fits, "{style}");
            settings.require_dates(&hidden).unwrap();
        }
    }

    #[test]
    fn texts_are_read_in_one_encoding_and_with_standard_strings() {
        let mut settings = Settings::default();
        let both = [status("client_encoding", "UTF8"), status("standard_conforming_strings", "off")].concat();
        settings.read_all(&both);
        assert!(settings.require_readable().unwrap_err().message.contains("standard_conforming_strings"));
        settings.read(&status("standard_conforming_strings", "on"));
        settings.require_readable().unwrap();
        settings.read(&status("client_encoding", "LATIN1"));
        assert!(settings.require_readable().unwrap_err().message.contains("client_encoding"));
    }
}
