#![allow(clippy::unwrap_used)]

use super::{Argument, Asker, ConnectionId, ConnectionKeys, Inputs, Viewer, compute};
use crate::column_type::ColumnType;
use crate::plan::{Action, Fold, Output, Outputs, PhysicalValue};
use crate::rewrite::tests::catalog;
use arras_service::columns::{ColumnKeys, Columns, Learned, OrderEncoder, OrderTerms, Pending, Place};
use arras_service::{Fault, ServiceError};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Keys that hide nothing: what is computed shows.
#[derive(Clone)]
struct Bare([u8; 8], Arc<Mutex<BTreeSet<Vec<u8>>>>, bool);

impl ColumnKeys for Bare {
    fn seal(&self, canonical: &[u8]) -> Vec<u8> {
        [&self.0[..], canonical].concat()
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, ServiceError> {
        let wrong = || ServiceError::new(Fault::Corruption, "not sealed for this column");
        sealed.strip_prefix(&self.0[..]).map(<[u8]>::to_vec).ok_or_else(wrong)
    }

    fn seal_for(&self, context: &[u8], canonical: &[u8]) -> Vec<u8> {
        [b"result", &self.0[..], context, canonical].concat()
    }

    fn open_for(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, ServiceError> {
        let wrong = || ServiceError::new(Fault::Corruption, "not sealed for this statement");
        let prefix = [b"result", &self.0[..], context].concat();
        let behind = sealed.strip_prefix(&prefix[..]);
        behind.map(<[u8]>::to_vec).ok_or_else(wrong)
    }

    fn equality(&self, canonical: &[u8]) -> [u8; 16] {
        let mut term = [self.0[7]; 16];
        term.iter_mut().skip(1).zip(canonical).for_each(|(to, from)| *to = *from);
        term
    }
}

impl OrderTerms for Bare {
    fn stored(&self, key: &[u8]) -> Result<Vec<u8>, ServiceError> {
        Ok([b"s", key].concat())
    }

    fn compared(&self, key: &[u8]) -> Result<Vec<u8>, ServiceError> {
        Ok([b"c", key].concat())
    }

    fn is_of(&self, stored: &[u8], key: &[u8]) -> bool {
        stored.strip_prefix(b"s") == Some(key)
    }
}

impl OrderEncoder for Bare {
    fn encode<'a>(&'a self, keys: &'a [Vec<u8>], _: Option<i32>) -> Pending<'a, Vec<Vec<u8>>> {
        self.1.lock().unwrap().extend(keys.iter().cloned());
        Box::pin(std::future::ready(Ok(keys.to_vec())))
    }

    fn learned<'a>(&'a self, ciphertexts: &'a [Vec<u8>]) -> Pending<'a, Learned> {
        let labels =
            ciphertexts.iter().map(|ciphertext| (!ciphertext.is_empty()).then_some([0xee; 8])).collect();
        Box::pin(std::future::ready(Ok(Learned { labels, epoch: [0xef; 8], keys_leave: self.2 })))
    }

    fn places<'a>(&'a self, keys: &'a [Vec<u8>]) -> Pending<'a, Vec<Place>> {
        let stored = self.1.lock().unwrap();
        let place = |key: &Vec<u8>| Place {
            exact: stored.get(key).cloned(),
            among: None,
            below: stored.range(..key.clone()).next_back().cloned(),
            above: stored.range(key.clone()..).find(|other| *other != key).cloned(),
        };
        Box::pin(std::future::ready(Ok(keys.iter().map(place).collect())))
    }
}

#[derive(Default)]
struct BareColumns(Arc<Mutex<BTreeSet<Vec<u8>>>>, bool);

impl Columns for BareColumns {
    fn keys(&self, column: [u8; 8]) -> Option<Arc<dyn ColumnKeys>> {
        Some(Arc::new(Bare(column, Arc::default(), false)))
    }

    fn encoder(&self, column: [u8; 8]) -> Option<Arc<dyn OrderEncoder>> {
        Some(Arc::new(Bare(column, self.0.clone(), self.1)))
    }

    fn order_terms(&self, column: [u8; 8]) -> Option<Arc<dyn OrderTerms>> {
        Some(Arc::new(Bare(column, Arc::default(), false)))
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}

fn simple(statement: &str, columns: &BareColumns) -> Result<String, crate::SqlError> {
    simple_of(statement, columns, Asker::default())
}

fn simple_of(statement: &str, columns: &BareColumns, asker: Asker) -> Result<String, crate::SqlError> {
    let planned = crate::plan(statement, &catalog()).unwrap();
    let [planned] = &planned[..] else { panic!("one statement") };
    let rewritten = match &planned.action {
        Action::Rewritten(rewritten) => rewritten,
        Action::Refused(error) => return Err(error.clone()),
        other => panic!("{other:?}"),
    };
    let inputs = Inputs { text: statement, asker, ..Inputs::default() };
    let values = run(compute(&rewritten.values, inputs, columns))?;
    rewritten.simple_text(&values)
}

#[test]
fn a_bound_is_a_neighbours_ciphertext_inside_the_range() {
    let columns = BareColumns::default();
    simple("INSERT INTO accounts (balance) VALUES (10), (20), (NULL)", &columns).unwrap();
    let key = |number: i64| crate::plan::hexadecimal(&(number.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    for (condition, kind, neighbour) in [
        ("< 10", "02", key(10)),
        ("< 15", "04", key(10)),
        ("< 5", "00", String::new()),
        ("<= 15", "02", key(10)),
        ("<= 5", "00", String::new()),
        ("> 15", "03", key(20)),
        ("> 20", "02", key(20)),
        ("> 25", "01", String::new()),
        (">= 15", "02", key(20)),
        (">= 25", "01", String::new()),
    ] {
        let text = simple(&format!("SELECT id FROM accounts WHERE balance {condition}"), &columns).unwrap();
        let (operator, _) = condition.split_once(' ').unwrap();
        let expected = format!(
            "\"balance$ord\" {operator} arras.mope_bound('2'::bigint, '\\x{kind}{neighbour}'::bytea)"
        );
        assert!(text.ends_with(&expected), "{text}\n{expected}");
    }
    let text = simple("SELECT id FROM accounts WHERE balance < NULL", &columns).unwrap();
    assert!(text.ends_with("arras.mope_bound('2'::bigint, NULL)"), "{text}");
}

#[test]
fn a_session_that_may_see_the_past_sends_the_labels_that_there_are_now() {
    let (columns, past) = (BareColumns::default(), Asker { sees_the_past: true, ..Asker::default() });
    let key = |number: i64| crate::plan::hexadecimal(&(number.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    let learned = format!("{}{}", "ee".repeat(8), "ef".repeat(8));
    let text = simple_of("INSERT INTO accounts (balance) VALUES (10)", &columns, past).unwrap();
    let expected = format!("arras.mope_order('2'::bigint, '\\x{}{learned}'::bytea)", key(10));
    assert!(text.contains(&expected), "{text}\n{expected}");
    for (condition, expected) in [
        ("< 10", format!("12{learned}{}", key(10))),
        ("< 15", format!("14{learned}{}", key(10))),
        ("< 5", "00".into()),
    ] {
        let text =
            simple_of(&format!("SELECT id FROM accounts WHERE balance {condition}"), &columns, past).unwrap();
        assert!(text.ends_with(&format!("'\\x{expected}'::bytea)")), "{text}\n{expected}");
    }
    // Where keys leave, a bound is of one epoch, also if it is no key's.
    let (columns, none) = (BareColumns(columns.0, true), "00".repeat(8));
    for (condition, expected) in [
        ("< 10", format!("32{learned}{}", key(10))),
        ("< 15", format!("34{learned}{}", key(10))),
        ("< 5", format!("30{none}{}", "ef".repeat(8))),
        ("> 10", format!("32{learned}{}", key(10))),
        ("> 15", format!("31{none}{}", "ef".repeat(8))),
    ] {
        let text =
            simple_of(&format!("SELECT id FROM accounts WHERE balance {condition}"), &columns, past).unwrap();
        assert!(text.ends_with(&format!("'\\x{expected}'::bytea)")), "{text}\n{expected}");
    }
}

#[test]
fn parameters_are_read_in_the_format_and_type_that_the_client_sends() {
    let statement = "INSERT INTO accounts (id, owner, balance) VALUES ($1, $2, $3)";
    let planned = crate::plan(statement, &catalog()).unwrap();
    let Action::Rewritten(rewritten) = &planned[0].action else { panic!("rewritten") };
    let argument = |oid, binary, bytes| Argument { oid, binary, bytes };
    let arguments = [
        argument(0, false, Some(&b"7"[..])),
        argument(25, true, Some(&b"Ann"[..])),
        argument(21, true, Some(&[0, 5][..])),
    ];
    let inputs = Inputs { text: statement, arguments: &arguments, ..Inputs::default() };
    let columns = BareColumns::default();
    let values = run(compute(&rewritten.values, inputs, &columns)).unwrap();
    let sealed =
        |column: u8, stored: &[u8]| PhysicalValue::Bytes([&[0, 0, 0, 0, 0, 0, 0, column], stored].concat());
    let five = 5_i64.to_be_bytes();
    assert!(values.contains(&PhysicalValue::Client(1)));
    assert!(values.contains(&sealed(1, b"Ann")) && values.contains(&sealed(2, &five)));
    assert_eq!(rewritten.extended_text().matches('$').count(), 6 + 3, "six values, three names of terms");
    let short = Inputs { arguments: &arguments[..2], ..inputs };
    assert_eq!(run(compute(&rewritten.values, short, &columns)).err().unwrap().sqlstate, "42P02");
}

#[test]
fn a_value_outside_its_type_is_an_error_at_its_place() {
    let columns = BareColumns::default();
    let error = simple("INSERT INTO accounts (id, balance) VALUES (1, 3000000000)", &columns).unwrap_err();
    assert_eq!((error.sqlstate, error.position), ("22003", Some(47)));
    let error = simple("SELECT id FROM accounts WHERE opened > 'tomorrow'", &columns).unwrap_err();
    assert_eq!((error.sqlstate, error.position), ("22007", Some(40)));
    assert!(columns.0.lock().unwrap().is_empty(), "what is refused has stored nothing");
}

#[test]
fn results_are_opened_in_the_format_that_is_asked_for() {
    let catalog = catalog();
    let balance = catalog.schema().column("public", "accounts", "balance").unwrap().clone();
    let columns = BareColumns::default();
    let keys = ConnectionKeys::new(&columns, Viewer::default());
    let sealed = |number: i64| [&balance.id[..], &number.to_be_bytes()].concat();
    let output = Output::Sealed(balance.clone());
    let text = format!("\\x{}", crate::plan::hexadecimal(&sealed(-7)));
    assert_eq!(output.open(Some(text.as_bytes()), false, false, keys).unwrap().unwrap(), b"-7");
    assert_eq!(output.open(Some(&sealed(-7)), true, true, keys).unwrap().unwrap(), (-7_i32).to_be_bytes());
    assert_eq!(output.open(None, true, true, keys).unwrap(), None);
    let mut other = sealed(-7);
    other[0] ^= 1;
    assert_eq!(output.open(Some(&other), true, true, keys).unwrap_err().sqlstate, "XX001");
    let sum = Output::Fold(Fold::Sum, balance.clone());
    let list = format!(
        "{{\"\\\\x{}\",NULL,\"\\\\x{}\"}}",
        crate::plan::hexadecimal(&sealed(40)),
        crate::plan::hexadecimal(&sealed(2))
    );
    assert_eq!(sum.open(Some(list.as_bytes()), false, false, keys).unwrap().unwrap(), b"42");
    assert_eq!(sum.open(Some(b"{NULL}"), false, false, keys).unwrap(), None);
    let average = Output::Fold(Fold::Average, balance);
    assert_eq!(
        average.open(Some(list.as_bytes()), false, false, keys).unwrap().unwrap(),
        b"21.0000000000000000"
    );
    assert_eq!(sum.shown().unwrap().oid, ColumnType::BigInt.oid());
}

fn viewer() -> Viewer {
    Viewer { id: ConnectionId::draw(), ..Viewer::default() }
}

#[test]
fn what_a_statement_gives_for_its_results_is_bound_to_it_and_to_its_session() {
    let columns = BareColumns::default();
    let session = viewer();
    let asker = Asker { viewer: session, ..Asker::default() };
    let of = |statement: &str| {
        let planned = crate::plan(statement, &catalog()).unwrap();
        let Action::Rewritten(rewritten) = &planned[0].action else { panic!("{planned:?}") };
        let Outputs::Columns(outputs) = &rewritten.outputs else { panic!("{rewritten:?}") };
        let argument = Argument { oid: 0, binary: false, bytes: Some(b"7") };
        let inputs = Inputs { text: statement, arguments: &[argument], asker, ..Inputs::default() };
        let values = run(compute(&rewritten.values, inputs, &columns)).unwrap();
        let PhysicalValue::Bytes(given) = values[0].clone() else { panic!("{statement}") };
        (given, outputs[0].clone())
    };
    let opened = |sealed: &[u8], output: &Output, session| {
        let opened = output.open(Some(sealed), true, false, ConnectionKeys::new(&columns, session));
        opened.map(|text| String::from_utf8(text.unwrap()).unwrap()).map_err(|error| error.sqlstate)
    };
    let corrupted = Err("XX001");
    let texts = [
        "SELECT coalesce(balance, 7) FROM accounts",
        "SELECT coalesce(balance, $1) FROM accounts",
        "SELECT s.b FROM (SELECT CASE WHEN id = 1 THEN balance ELSE 7 END AS b FROM accounts) s",
        "SELECT coalesce(balance, 7) FROM accounts UNION ALL SELECT balance FROM accounts",
        "SELECT balance FROM accounts UNION ALL SELECT coalesce(balance, 7) FROM accounts",
        "SELECT s.b FROM (SELECT coalesce(balance, 7) AS b FROM accounts) s UNION ALL SELECT balance FROM accounts",
    ];
    for text in texts {
        let (given, output) = of(text);
        assert_eq!(opened(&given, &output, session), Ok("7".into()), "{text}");
        assert_eq!(opened(&given, &output, viewer()), corrupted, "another session: {text}");
        for other in texts.into_iter().filter(|other| *other != text) {
            assert_eq!(opened(&given, &of(other).1, session), corrupted, "{other} gets what is {text}'s");
        }
        for other in ["SELECT balance FROM accounts", "SELECT max(balance) FROM accounts"] {
            let Outputs::Columns(outputs) = outputs_of(other) else { panic!("{other}") };
            assert_eq!(opened(&given, &outputs[0], session), corrupted, "{other} gets what is {text}'s");
        }
    }
    // What is stored is the column's for good.
    let (stored, _) = of("UPDATE accounts SET balance = coalesce(balance, 7) RETURNING coalesce(balance, 9)");
    let Outputs::Columns(outputs) = outputs_of("SELECT balance FROM accounts") else { panic!() };
    assert_eq!(opened(&stored, &outputs[0], viewer()), Ok("7".into()));
}

fn outputs_of(statement: &str) -> Outputs {
    match &crate::plan(statement, &catalog()).unwrap()[0].action {
        Action::Rewritten(rewritten) => rewritten.outputs.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn new_values_are_computed_as_postgresql_computes_them() {
    let planned = |statement: &str| {
        let planned = crate::plan(statement, &catalog()).unwrap();
        match &planned[0].action {
            Action::Program(program) => match &**program {
                crate::plan::Program::Recompute(recompute) => recompute.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let refused = |set: &str| {
        let planned = crate::plan(&format!("UPDATE accounts SET {set}"), &catalog()).unwrap();
        match &planned[0].action {
            Action::Refused(error) => error.message.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let evaluate = |set: &str, read: &[Option<&str>]| {
        let read: Vec<Option<String>> = read.iter().map(|text| text.map(str::to_owned)).collect();
        let five = [Argument { oid: 0, binary: false, bytes: Some(b"5") }];
        let inputs = Inputs { arguments: &five, read: &read, ..Inputs::default() };
        planned(&format!("UPDATE accounts SET {set}")).computed[0].evaluate(inputs)
    };
    let some = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(evaluate("balance = balance - $1", &[Some("3")]), some("-2"));
    assert_eq!(evaluate("balance = -(balance + 2) * $1", &[Some("3")]), some("-25"));
    assert_eq!(evaluate("balance = balance + 1", &[None]), Ok(None));
    assert_eq!(evaluate("balance = coalesce(balance, 0) + 1", &[None]), some("1"));
    assert_eq!(evaluate("memo = memo || 'b'", &[Some("a")]), some("ab"));
    assert_eq!(evaluate("balance = balance + 1", &[Some("2147483647")]).unwrap_err().sqlstate, "22003");
    assert_eq!(refused("memo = memo + memo"), "operator does not exist: text + text");
}
