#![allow(clippy::unwrap_used)]

mod ciphertexts;
mod compared_rows;
mod declared;
mod fh_ope;
mod golden;
mod layouts;
mod meant;
mod moments;
mod numbered;
mod passed;
mod random;
mod rows;
mod spellings;
mod summed;
mod upserts;
mod usual;
mod views;
mod words;

use crate::catalog::{Catalog, Column, Origin, Table};
use crate::plan::{
    Action, Derived, DerivedExpression, DerivedPart, Expression, Fold, Form, Gap, Output, Outputs, Piece,
    Program, Rewritten, Source,
};
use crate::schema::Schema;
use arras_service::words::Which;
use std::sync::Arc;

/// `accounts`, with columns of every kind of declaration; `payments`, which is joined with it; `notes`, all plain.
pub(crate) fn catalog() -> Catalog {
    let schema = Schema::parse(
        r#"
        [tables."public.accounts"]
        owner = { id = "0000000000000001", type = "text", operations = ["unique"] }
        balance = { id = "0000000000000002", type = "integer", operations = ["equality", "order", "sum"] }
        opened = { id = "0000000000000003", type = "date", operations = ["order"], order = "stope" }
        memo = { id = "0000000000000004", type = "text" }
        closed = { id = "0000000000000008", type = "boolean", operations = ["equality"] }
        [tables."public.payments"]
        payer = { id = "0000000000000005", type = "text", join = "accounts.owner" }
        owner = { id = "0000000000000007", type = "text", join = "accounts.owner" }
        amount = { id = "0000000000000006", type = "integer", operations = ["order"] }
        [tables."public.readings"]
        level = { id = "0000000000000009", type = "integer", operations = ["order"], order = "clww" }
        depth = { id = "000000000000000a", type = "integer", operations = ["order"], order = "lewi_wu" }
        rank = { id = "000000000000000b", type = "integer", operations = ["equality", "order"], order = "lewi_wu" }
        [tables."public.visits"]
        age = { id = "000000000000000c", type = "integer", operations = ["order"], order = "fh_ope" }
        score = { id = "000000000000000d", type = "integer", operations = ["equality", "order"], order = "fh_ope" }
        [tables."public.articles"]
        body = { id = "000000000000000e", type = "text", operations = ["text"] }
        title = { id = "000000000000000f", type = "varchar(40)", operations = ["equality", "text"], language = "simple" }
        "#,
        "schema.toml",
    )
    .unwrap();
    let schema = Arc::new(schema);
    let table = |name: &str, columns: &[&str]| {
        let column = |column: &&str| Column {
            name: (*column).to_owned(),
            encryption: schema.column("public", name, column).cloned(),
            stored: "integer".into(),
            default: None,
            is_generated: false,
        };
        Table { schema: "public".into(), name: name.into(), columns: columns.iter().map(column).collect() }
    };
    let tables = [
        table("accounts", &["id", "owner", "balance", "opened", "memo", "closed"]),
        table("payments", &["id", "payer", "owner", "amount", "note"]),
        table("notes", &["id", "owner", "body"]),
        table("readings", &["id", "level", "depth", "rank"]),
        table("visits", &["id", "age", "score"]),
        table("articles", &["id", "body", "title"]),
    ];
    Catalog::new(schema, tables).with_views().with_functions_of_rows(["of_row"])
}

/// A table of columns none of which is encrypted.
fn plain(name: &str, columns: &[&str]) -> Table {
    let column = |column: &&str| Column {
        name: (*column).to_owned(),
        encryption: None,
        stored: "integer".into(),
        default: None,
        is_generated: false,
    };
    Table { schema: "public".into(), name: name.into(), columns: columns.iter().map(column).collect() }
}

/// A statement that waits for a row finds it again with labels of another time than its bounds are of, unless it holds them.
#[test]
fn what_compares_labels_and_writes_or_locks_rows_holds_them() {
    let held = |statement: &str| match &super::plan(statement, &catalog()).unwrap()[0].action {
        Action::Rewritten(rewritten) => rewritten.held(),
        Action::Program(program) => match &**program {
            Program::Recompute(recompute) => recompute.write.held(),
            other => panic!("{other:?}"),
        },
        Action::Unchanged => Vec::new(),
        Action::Refused(error) => panic!("{statement}: {error}"),
    };
    let (balance, opened, amount) =
        ([0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 3], [0, 0, 0, 0, 0, 0, 0, 6]);
    for statement in [
        "DELETE FROM accounts WHERE balance < 5",
        "UPDATE accounts SET id = 1 WHERE balance BETWEEN 1 AND 5",
        "UPDATE accounts SET memo = 'x' WHERE opened = '2020-01-01'",
        "UPDATE accounts SET balance = balance + 1 WHERE opened > '2020-01-01'",
        "SELECT id FROM accounts WHERE balance > 5 FOR UPDATE",
        "SELECT id FROM accounts ORDER BY balance LIMIT 1 FOR SHARE",
        "WITH gone AS (DELETE FROM accounts WHERE balance < 5 RETURNING id) SELECT count(*) FROM gone",
    ] {
        assert_eq!(held(statement), [balance, opened], "{statement}");
    }
    assert_eq!(held("UPDATE payments SET note = 'x' WHERE amount < 5"), [amount]);
    assert_eq!(held("INSERT INTO accounts (balance) VALUES (1)"), [balance]);
    for statement in [
        "DELETE FROM accounts WHERE id = 5",
        "UPDATE accounts SET memo = 'x' WHERE owner = 'Ann'",
        "SELECT id FROM accounts WHERE balance < 5 ORDER BY balance",
        "INSERT INTO accounts (owner) VALUES ('Ann')",
    ] {
        assert!(held(statement).is_empty(), "{statement}");
    }
}

/// A value as the tests write it: form, column, source.
fn shown(rewritten: &Rewritten, position: usize) -> String {
    let value = &rewritten.values[position];
    let source = match &value.source {
        Source::Parameter(number) => format!("${number}"),
        Source::Constant(None) => "NULL".into(),
        Source::Constant(Some(text)) => text.clone(),
        Source::Constants(list) => format!("{list:?}"),
        Source::Read(position) => format!("read {position}"),
        Source::Computed(position) => format!("computed {position}"),
        Source::Moment(moment) => format!("moment {}", moment.kind().name()),
    };
    match &value.form {
        Form::Plain => format!("‹{source}›"),
        Form::Presence => format!("‹is there {source}›"),
        Form::Sealed(of) if of.origin != Origin::Stored => format!("‹result {source}›"),
        Form::Sealed(_) => format!("‹sealed {source}›"),
        Form::Default(_) => format!("‹default {source}›"),
        Form::Equality(_) | Form::EqualTo(_) => format!("‹eq {source}›"),
        Form::SealedArray(_) => format!("‹each sealed {source}›"),
        Form::EqualityArray(_) | Form::EqualToArray(_) => format!("‹eqs {source}›"),
        Form::OrderArray(_) => format!("‹ords {source}›"),
        Form::Order(_) => format!("‹ord {source}›"),
        Form::Text(_) => format!("‹name {source}›"),
        Form::TextArray(_) => format!("‹names {source}›"),
        Form::Found(_, written, Which::Found) => format!("‹{written:?} {source}›"),
        Form::Found(_, written, Which::Others) => format!("‹all but {written:?} {source}›"),
        Form::FoundEmpty(_, written) => format!("‹{written:?} of nothing {source}›"),
        Form::Bound(_, side, Gap::Outside) => format!("‹{side:?} {source}›"),
        Form::Bound(_, side, Gap::Inside) => format!("‹{side:?} or in the gap {source}›"),
    }
}

fn text_of(rewritten: &Rewritten) -> String {
    let part = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Value(position) => shown(rewritten, *position),
    };
    let mut text: String = rewritten.pieces.iter().map(part).collect();
    text = text.replace("arras.mope_bound('", "bound('0").replace("arras.mope_order('", "label('0");
    text = text.replace("arras.text_name('", "name('0");
    text = text.replace("'::bigint, ", "', ").replace("\"public\".", "");
    let outputs = match &rewritten.outputs {
        Outputs::AsSent => return text,
        Outputs::Columns(list) => list.iter().map(|output| match output {
            Output::Plain => "plain".to_owned(),
            Output::PlainRest => "rest".to_owned(),
            Output::Sealed(encryption) => encryption.label.clone(),
            Output::Derived(of) => derived(of, &of.expression),
            Output::Fold(Fold::Sum, encryption) => format!("sum {}", encryption.label),
            Output::Fold(Fold::Average, encryption) => format!("avg {}", encryption.label),
        }),
    };
    format!("{text} => {}", outputs.collect::<Vec<_>>().join(", "))
}

fn derived(of: &Derived, expression: &DerivedExpression) -> String {
    let inside = |expression: &DerivedExpression| derived(of, expression);
    match expression {
        DerivedExpression::Part(position) => match &of.parts[*position] {
            DerivedPart::Fold(fold, encryption) => format!("{fold:?} {}", encryption.label),
            DerivedPart::Count => "count".into(),
            DerivedPart::Value(encryption) => encryption.label.clone(),
            DerivedPart::Plain(kind) => kind.name(),
        },
        DerivedExpression::Number(text) => text.clone(),
        DerivedExpression::Arithmetic(operator, left, right) => {
            format!("({} {operator:?} {})", inside(left), inside(right))
        }
        DerivedExpression::Negated(inner) => format!("-{}", inside(inner)),
        DerivedExpression::Coalesce(list) => list.iter().map(inside).collect::<Vec<_>>().join(" or "),
        DerivedExpression::Truncate(inner, digits) => format!("trunc {} to {digits}", inside(inner)),
        DerivedExpression::Round(inner, digits) => format!("round {} to {digits:?}", inside(inner)),
        DerivedExpression::OfTime(how, inner) => format!("{how:?} of {}", inside(inner)),
        DerivedExpression::Cast(inner, kind) => format!("{} as {}", inside(inner), kind.name()),
        other => format!("{other:?}"),
    }
}

fn expression(of: &Expression) -> String {
    match of {
        Expression::Read(position, encryption) | Expression::Plain(position, encryption) => {
            format!("read {position} as {}", encryption.label)
        }
        Expression::Parameter(number, ..) => format!("${number}"),
        Expression::Constant(text, ..) | Expression::Number(text, _) => text.clone(),
        Expression::Moment(moment) => format!("moment {}", moment.kind().name()),
        Expression::Arithmetic(operator, left, right) => {
            format!("({} {operator:?} {})", expression(left), expression(right))
        }
        Expression::Coalesce(list) => list.iter().map(expression).collect::<Vec<_>>().join(" or "),
        Expression::Negated(inner) => format!("-{}", expression(inner)),
        Expression::Chosen(position, among) => {
            format!("read {position} of [{}]", among.iter().map(expression).collect::<Vec<_>>().join(", "))
        }
        Expression::OfTime(how, inner) => format!("{how:?} of {}", expression(inner)),
        Expression::Cast(inner, kind) => format!("{} as {}", expression(inner), kind.name()),
        Expression::Assigned(inner, of) => format!("{} for {}", expression(inner), of.label),
        Expression::Upserted { is_there, new, kept } => {
            format!("{} where read {is_there}, else {}", expression(new), expression(kept))
        }
    }
}

/// What becomes of a statement, as the golden data write it: without the schema that is written before the names of tables of
/// `public`.
pub(super) fn outcome(statement: &str) -> String {
    let planned = super::plan(statement, &catalog()).unwrap();
    let [planned] = &planned[..] else { panic!("{} statements in {statement}", planned.len()) };
    match &planned.action {
        Action::Unchanged => "unchanged".into(),
        Action::Rewritten(rewritten) if text_of(rewritten) == statement => "unchanged".into(),
        Action::Rewritten(rewritten) => text_of(rewritten),
        Action::Program(program) => match &**program {
            Program::Layout(layout) => {
                let mark = |position: usize| if position == layout.answer { "* " } else { "" };
                let steps = layout.steps.iter().enumerate();
                let texts: Vec<String> =
                    steps.map(|(position, step)| format!("{}{}", mark(position), text_of(step))).collect();
                texts.join("; ")
            }
            Program::Recompute(recompute) => {
                let computed = recompute
                    .computed
                    .iter()
                    .map(|one| format!("{} = {}", one.column.label, expression(&one.expression)));
                let computed = computed.collect::<Vec<_>>().join(", ");
                format!("{}; {computed}; {}", text_of(&recompute.read), text_of(&recompute.write))
            }
            Program::CopyIn(copy) => format!("{} from {:?}", text_of(&copy.insert), copy.format),
            Program::CopyOut(copy) => format!("{} to {:?}", text_of(&copy.read), copy.format),
        },
        Action::Refused(error) => {
            let place = error.position.map_or(String::new(), |at| at.to_string());
            format!("{} {place}: {}", error.sqlstate, error.message)
        }
    }
}
