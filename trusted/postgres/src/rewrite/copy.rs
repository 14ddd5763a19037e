//! `COPY`: rows that the proxy encrypts on their way in and opens on their way out.

use super::analysis::Analysis;
use super::scope::{Relation, RelationColumn};
use super::select::{Mode, ResultColumn};
use super::term::form_pieces;
use super::write::{stored_forms, stored_names};
use crate::catalog::Table;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Action, CopyFormat, CopyIn, CopyOut, Form, Outputs, Piece, Program, Source, Value};
use crate::text::{fold, quoted};
use sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, Query,
};
use std::sync::Arc;

/// A `COPY` as it was parsed.
pub(super) struct Copy<'s> {
    pub(super) source: &'s CopySource,
    pub(super) to: bool,
    pub(super) target: &'s CopyTarget,
    pub(super) options: &'s [CopyOption],
    pub(super) legacy: &'s [CopyLegacyOption],
}

impl Analysis<'_> {
    /// What becomes of a `COPY`; none if it touches nothing encrypted.
    pub(super) fn copy(&mut self, copy: &Copy<'_>) -> Result<Option<Action>, SqlError> {
        match copy.source {
            CopySource::Query(query) => self.copy_query(query, copy),
            CopySource::Table { table_name, columns } => {
                let relation = self.table_named(table_name, None)?;
                if columns.is_empty() {
                    self.take_places(&relation, (None, false), 1)?;
                }
                if !relation.is_encrypted() {
                    self.layouts.clear();
                    columns.iter().for_each(|column| self.understand(column));
                    return Ok(None);
                }
                let columns = self.copied(&relation, columns)?;
                let defaults = !copy.to && self.leaves_defaults(&relation, &columns)?;
                if columns.iter().all(|column| column.encryption.is_none()) && !defaults {
                    return Ok(None);
                }
                let qualified =
                    |table: &Arc<Table>| format!("{}.{}", quoted(&table.schema), quoted(&table.name));
                let table = relation.table.as_ref().map_or_else(|| table_name.to_string(), qualified);
                let format = self.format(copy)?;
                let program = if copy.to {
                    self.table_out(&table, &columns, format)
                } else {
                    self.table_in(&table, &relation, &columns, format)?
                };
                Ok(Some(Action::Program(Box::new(program))))
            }
        }
    }

    /// Has an encrypted column that is not copied a default? Its terms come with it.
    fn leaves_defaults(&mut self, relation: &Relation, copied: &[RelationColumn]) -> Result<bool, SqlError> {
        for column in relation.encrypted().filter(|one| copied.iter().all(|other| other.name != one.name)) {
            let Some(encryption) = &column.encryption else { continue };
            if self.default_of(encryption)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The columns of a table that are copied.
    fn copied(&mut self, relation: &Relation, list: &[Ident]) -> Result<Vec<RelationColumn>, SqlError> {
        if list.is_empty() {
            let name = relation.name.as_deref().unwrap_or_default();
            let table = self.catalog.table(relation.schema.as_deref(), name);
            let is_generated = |column: &&RelationColumn| {
                table.and_then(|table| table.column(&column.name)).is_some_and(|column| column.is_generated)
            };
            let columns = relation.columns.iter().flatten();
            return Ok(columns.filter(|column| !is_generated(column)).cloned().collect());
        }
        let mut columns = Vec::new();
        for identifier in list {
            self.understand(identifier);
            let name = fold(&identifier.value, identifier.quote_style.is_some());
            let Some(column) = relation.column(&name) else {
                if !relation.certain && !self.is_absent(&name) {
                    let (encryption, terms, merged) = (None, false, false);
                    columns.push(RelationColumn { name, encryption, terms, merged, kind: None });
                    continue;
                }
                let table = relation.name.as_deref().unwrap_or("");
                let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
                let at = self.lexemes.position_of(identifier.span).unwrap_or(0);
                return Err(self.at(SqlError::new(sqlstate::UNDEFINED_COLUMN, message), at));
            };
            columns.push(column.clone());
        }
        Ok(columns)
    }

    fn copy_query(&mut self, query: &Query, copy: &Copy<'_>) -> Result<Option<Action>, SqlError> {
        self.shows_results = true;
        let results = self.query(query, None, Mode::Top)?;
        if results.iter().all(ResultColumn::is_plain) {
            return Ok(None);
        }
        let format = self.format(copy)?;
        let end = self.lexemes.after_parentheses(1).unwrap_or(1);
        if let Some(at) = self.not_understood() {
            return Err(self.refusal(at));
        }
        self.edits.check(self.text, self.lexemes)?;
        let pieces = self.edits.pieces(self.text, self.bytes(&(2..end.saturating_sub(1))))?;
        let mut read = self.rewritten(pieces);
        read.outputs = Outputs::Columns(results.iter().map(ResultColumn::output).collect());
        Ok(Some(Action::Program(Box::new(Program::CopyOut(CopyOut { read, format })))))
    }

    fn table_out(&self, table: &str, columns: &[RelationColumn], format: CopyFormat) -> Program {
        let names: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
        let mut read = self.rewritten(vec![Piece::Text(format!("SELECT {} FROM {table}", names.join(", ")))]);
        let output = |column: &RelationColumn| match &column.encryption {
            Some(encryption) => crate::plan::Output::Sealed(encryption.clone()),
            None => crate::plan::Output::Plain,
        };
        read.outputs = Outputs::Columns(columns.iter().map(output).collect());
        Program::CopyOut(CopyOut { read, format })
    }

    fn table_in(
        &mut self,
        table: &str,
        relation: &Relation,
        columns: &[RelationColumn],
        format: CopyFormat,
    ) -> Result<Program, SqlError> {
        let mut names: Vec<String> = columns
            .iter()
            .flat_map(|column| stored_names(&column.name, column.encryption.as_ref()))
            .collect();
        // What the rows do not give has its default.
        let mut defaults = Vec::new();
        for column in relation.encrypted().filter(|one| columns.iter().all(|other| other.name != one.name)) {
            let Some(encryption) = &column.encryption else { continue };
            if let Some(default) = self.default_of(encryption)? {
                names.extend(stored_names(&column.name, Some(encryption)));
                defaults.extend(self.stored_pieces(&default, encryption)?);
            }
        }
        // As COPY takes values for columns that are GENERATED ALWAYS AS IDENTITY.
        let mut pieces = vec![Piece::Text(format!(
            "INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE VALUES (",
            names.join(", ")
        ))];
        for (place, column) in columns.iter().enumerate() {
            let forms = match &column.encryption {
                Some(encryption) => stored_forms(encryption).into_iter().map(|(_, form)| form).collect(),
                None => vec![Form::Plain],
            };
            for (part, form) in forms.into_iter().enumerate() {
                if place + part > 0 {
                    pieces.push(Piece::Text(", ".into()));
                }
                let position = self.edits.value(Value {
                    source: Source::Read(place),
                    form: form.clone(),
                    sent_as: None,
                    at: 0,
                });
                pieces.extend(form_pieces(&form, position));
            }
        }
        for default in defaults {
            pieces.push(Piece::Text(", ".into()));
            pieces.extend(default);
        }
        pieces.push(Piece::Text(")".into()));
        let names = columns.iter().map(|column| column.name.clone()).collect();
        let columns = columns.iter().map(|column| column.encryption.clone()).collect();
        let table = relation.name.clone().unwrap_or_default();
        Ok(Program::CopyIn(CopyIn { table, names, columns, format, insert: self.rewritten(pieces) }))
    }

    /// That the rows pass through the client.
    fn check_stream(&self, copy: &Copy<'_>) -> Result<(), SqlError> {
        match (copy.to, copy.target) {
            (false, CopyTarget::Stdin) | (true, CopyTarget::Stdout) => Ok(()),
            (
                _,
                CopyTarget::Stdin | CopyTarget::Stdout | CopyTarget::File { .. } | CopyTarget::Program { .. },
            ) => Err(self.unsupported(
                0,
                "a file of the server's holds ciphertext: rows of encrypted columns pass through the client"
                    .into(),
                "Use COPY ... FROM STDIN or TO STDOUT (psql's \\copy).",
            )),
        }
    }

    /// The binary format, if the rows are in it: it has no options.
    fn binary_format(&self, copy: &Copy<'_>) -> Result<Option<CopyFormat>, SqlError> {
        let is_binary = |option: &CopyOption| match option {
            CopyOption::Format(name) => name.value.eq_ignore_ascii_case("binary"),
            _ => false,
        };
        let is_legacy = |option: &CopyLegacyOption| matches!(option, CopyLegacyOption::Binary);
        if !copy.options.iter().any(is_binary) && !copy.legacy.iter().any(is_legacy) {
            return Ok(None);
        }
        let is_known = |option: &CopyOption| {
            matches!(option, CopyOption::Format(_) | CopyOption::Freeze(_) | CopyOption::Encoding(_))
        };
        let other = copy.options.iter().find(|option| !is_known(option)).map(ToString::to_string);
        let legacy = copy.legacy.iter().find(|option| !is_legacy(option)).map(ToString::to_string);
        match other.or(legacy) {
            None => Ok(Some(CopyFormat::binary())),
            Some(option) => {
                let word = option.split(' ').next().unwrap_or_default();
                let message = format!("cannot specify {word} in BINARY mode");
                Err(self.at(SqlError::new(sqlstate::SYNTAX_ERROR, message), 0))
            }
        }
    }

    /// How the rows are written: what PostgreSQL's options say.
    fn format(&self, copy: &Copy<'_>) -> Result<CopyFormat, SqlError> {
        self.check_stream(copy)?;
        let refused = |what: String| {
            Err(self.unsupported(
                0,
                format!("COPY of encrypted columns has no {what}"),
                "Use text or CSV without it.",
            ))
        };
        let csv = copy.options.iter().any(|option| match option {
            CopyOption::Format(name) => name.value.eq_ignore_ascii_case("csv"),
            _ => false,
        }) || copy.legacy.iter().any(|option| matches!(option, CopyLegacyOption::Csv(_)));
        if let Some(format) = self.binary_format(copy)? {
            return Ok(format);
        }
        let mut format = if csv { CopyFormat::csv() } else { CopyFormat::text() };
        let mut escape = None;
        for option in copy.options {
            match option {
                CopyOption::Format(name) if ["csv", "text"].contains(&name.value.to_lowercase().as_str()) => {
                }
                // Rows are inserted: there is nothing to freeze.
                CopyOption::Freeze(_) => {}
                CopyOption::Delimiter(byte) => format.delimiter = one_byte(*byte).unwrap_or(format.delimiter),
                CopyOption::Null(text) => format.null.clone_from(text),
                CopyOption::Header(header) => format.header = *header,
                CopyOption::Quote(byte) => format.quote = one_byte(*byte).unwrap_or(format.quote),
                CopyOption::Escape(byte) => escape = one_byte(*byte),
                CopyOption::Encoding(name) if name.to_lowercase().replace('-', "") == "utf8" => {}
                other => return refused(other.to_string()),
            }
        }
        for option in copy.legacy {
            match option {
                CopyLegacyOption::Delimiter(byte) => {
                    format.delimiter = one_byte(*byte).unwrap_or(format.delimiter)
                }
                CopyLegacyOption::Null(text) => format.null.clone_from(text),
                CopyLegacyOption::Header => format.header = true,
                CopyLegacyOption::Csv(options) => {
                    for option in options {
                        match option {
                            CopyLegacyCsvOption::Header => format.header = true,
                            CopyLegacyCsvOption::Quote(byte) => {
                                format.quote = one_byte(*byte).unwrap_or(format.quote)
                            }
                            CopyLegacyCsvOption::Escape(byte) => escape = one_byte(*byte),
                            other @ (CopyLegacyCsvOption::ForceQuote(_)
                            | CopyLegacyCsvOption::ForceNotNull(_)) => {
                                return refused(other.to_string());
                            }
                        }
                    }
                }
                other => return refused(other.to_string()),
            }
        }
        // Without one of its own, the escape is the quote.
        format.escape = escape.unwrap_or(format.quote);
        Ok(format)
    }
}

fn one_byte(character: char) -> Option<u8> {
    u8::try_from(character).ok().filter(u8::is_ascii)
}
