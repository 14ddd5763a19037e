//! Random schemas, statements and transactions on several connections, through the proxy with encrypted columns and the
//! same on PostgreSQL in plaintext: every reply, SQLSTATE and row is compared.

pub(crate) mod compare;
mod forms;
mod listed;
mod parameters;
mod schema;
mod statements;
mod wider;

pub(crate) use compare::{Reply, Side};
pub(crate) use parameters::put_binary;
pub(crate) use schema::RandomSchema;
pub(crate) use statements::{Connection, Statement};

use arras_lab::seed::{below, prg};
use arras_primitives::prg::Prg;

/// Choices of one run, all from its seed.
pub(crate) struct Choices(Prg);

impl Choices {
    pub(crate) fn new(seed: u64) -> Self {
        Self(prg(seed, "sql differential"))
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(below(&mut self.0, bound as u64)).unwrap()
    }

    /// One of some.
    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// One of some, if there are any.
    pub(crate) fn some<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| self.one(of))
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }
}

/// Runs so many statements on both sides and compares each reply; returns how many ran to a result on both.
pub(crate) async fn run(seed: u64, statements: usize, mut sides: [Side; 2], schema: &RandomSchema) -> usize {
    let mut choices = Choices::new(seed ^ 1);
    let mut sessions: Vec<Connection> = (0..sides[0].connections()).map(|_| Connection::default()).collect();
    let (mut succeeded, mut retries, mut refusals) = (0, 0, 0);
    let mut codes: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for number in 0..statements {
        let at = choices.below(sessions.len());
        let statement = sessions[at].next(&mut choices, schema);
        let [one, other] = &mut sides;
        let found = other.ask(at, &statement).await;
        let is_refused = found.refusal().is_some_and(|message| schema.allows_refusal(message));
        if found.is_to_be_tried_again() || is_refused {
            // Labels that others hold, or that a transaction's snapshot lacks: PostgreSQL's own word for "try the transaction
            // again", which plaintext has no cause for.
            *if is_refused { &mut refusals } else { &mut retries } += 1;
            let rollback = Statement::rollback();
            one.ask(at, &rollback).await;
            other.ask(at, &rollback).await;
            sessions[at] = Connection::default();
            continue;
        }
        let expected = one.ask(at, &statement).await;
        // Which of its rows a statement fails at is a matter of their order in the table, and locks are taken before values are
        // computed: of two errors that single rows have, either may come first where there are several rows.
        let either = statement.meets_rows_in_any_order() && expected.is_of_a_row() && found.is_of_a_row();
        let expected = match either {
            true => found.clone(),
            false => expected,
        };
        assert_eq!(
            compare::comparable(&expected, statement.is_ordered),
            compare::comparable(&found, statement.is_ordered),
            "seed {seed}, statement {number}, connection {at}: {statement:?}\n{found:?}"
        );
        sessions[at].saw(&expected);
        if let Reply::Failed(code, _) = &expected {
            *codes.entry(code.clone()).or_default() += 1;
        }
        succeeded += usize::from(!expected.is_error());
    }
    eprintln!("{succeeded} of {statements} came to a result, {refusals} refused; {codes:?}");
    assert!(refusals * 5 <= statements, "{refusals} of {statements} statements were refused");
    assert!(retries * 10 <= statements, "{retries} of {statements} statements were to be tried again");
    compare_tables(seed, sides, schema).await;
    succeeded
}

/// What is left at the end, whole, once whatever is under way has been taken back.
async fn compare_tables(seed: u64, mut sides: [Side; 2], schema: &RandomSchema) {
    for side in &mut sides {
        for at in 0..side.connections() {
            side.ask(at, &Statement::rollback()).await;
        }
    }
    let [one, other] = &mut sides;
    for table in &schema.tables {
        let all = Statement::whole(table);
        let (expected, found) = (one.ask(0, &all).await, other.ask(0, &all).await);
        assert!(!expected.is_error(), "{expected:?}");
        assert_eq!(
            compare::comparable(&expected, true),
            compare::comparable(&found, true),
            "seed {seed}: what is left in {}",
            table.name
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plaintext_agrees_with_itself() {
    let server = arras_lab::private_postgres::PrivatePostgres::start().unwrap();
    let mut choices = Choices::new(3);
    let schema = RandomSchema::draw(&mut choices);
    let mut sides = Vec::new();
    for database in ["one", "other"] {
        let admin = Side::connect(&server.uri("postgres"), 1).await;
        admin.create_database(database).await;
        let side = Side::connect(&server.uri(database), 2).await;
        side.create(&schema).await;
        sides.push(side);
    }
    let succeeded = run(3, 600, sides.try_into().unwrap_or_else(|_| unreachable!()), &schema).await;
    // Most statements are to show something; the rest meet constraints, locks or aborted transactions.
    assert!(succeeded > 300, "{succeeded} of 600 came to a result");
}

/// Encrypted through the proxy against plaintext: one random schema for each seed.
async fn encrypted_agrees_with_plaintext(seed: u64, statements: usize) {
    let server = arras_lab::private_postgres::PrivatePostgres::start().unwrap();
    let mut choices = Choices::new(seed);
    let schema = RandomSchema::draw(&mut choices);
    let admin = Side::connect(&server.uri("postgres"), 1).await;
    for database in ["plain", "encrypted"] {
        admin.create_database(database).await;
    }
    let mut proxy = crate::dev::Dev::start(&server, "encrypted", &schema.declared());
    let plain = Side::connect(&server.uri("plain"), 2).await;
    let encrypted = Side::connect(&proxy.uri("encrypted"), 2).await;
    plain.create(&schema).await;
    encrypted.create(&schema).await;
    let before = run(seed, statements / 2, [plain, encrypted], &schema).await;
    // A proxy that is killed leaves nothing half done, and goes on with what the database has.
    proxy.killed_and_restarted(&server, "encrypted");
    is_well(&proxy, &server, seed);
    let (plain, encrypted) =
        (Side::connect(&server.uri("plain"), 2).await, Side::connect(&proxy.uri("encrypted"), 2).await);
    let after = run(seed ^ 2, statements / 2, [plain, encrypted], &schema).await;
    assert!(before + after > statements / 4, "{before} and {after} of {statements} came to a result");
    is_well(&proxy, &server, seed);
}

/// Each sealed value opens, has its terms, and its label is in the tree's order: whether or not a statement met it.
fn is_well(proxy: &crate::dev::Dev, server: &arras_lab::private_postgres::PrivatePostgres, seed: u64) {
    let (well, said) = proxy.doctor(server, "encrypted", true);
    assert!(well, "seed {seed}: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_columns_answer_as_plaintext_does() {
    let seed = std::env::var("ARRAS_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    for seed in seed..seed + 8 {
        eprintln!("ARRAS_TEST_SEED={seed}");
        encrypted_agrees_with_plaintext(seed, 1250).await;
    }
}
