//! What ends a statement while the proxy asks the database something of its own for it: the client is told what PostgreSQL tells
//! it, and the session goes on, its transaction failed.

use crate::bound::{Raw, failed};
use crate::dev::Dev;
use crate::extended::connect;
use crate::spelled::answered;
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::{Client, Error, NoTls};

const SCHEMA: &str = r#"
[tables."public.accounts"]
owner = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"] }
balance = { id = "5f0c9d3e21b7a846", type = "bigint", operations = ["equality", "order", "sum"] }
"#;

const CREATE: &str = "CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance bigint); \
                      INSERT INTO accounts VALUES (1, 'Ann', 5)";

/// What the proxy reads of the catalogue, and then what is kept of columns and of labels: whoever locks one of them keeps it waiting.
const READ: [&str; 3] = ["pg_catalog.pg_attrdef", "arras.column_check", "arras.mope_place"];

const READS: &str = "SELECT owner, balance FROM accounts ORDER BY balance";

struct World {
    server: PrivatePostgres,
    proxy: Dev,
    gate: Client,
    watch: Client,
    changes: Client,
    client: Client,
    process: i32,
}

impl World {
    async fn start() -> Self {
        let server = PrivatePostgres::start().unwrap();
        let proxy = Dev::start(&server, "postgres", SCHEMA);
        let (direct, through) = (server.uri("postgres"), proxy.uri("postgres"));
        let changes = connect(&through).await;
        changes.batch_execute(CREATE).await.unwrap();
        let [gate, watch, client] = [connect(&direct).await, connect(&direct).await, connect(&through).await];
        let process = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        Self { server, proxy, gate, watch, changes, client, process }
    }

    /// What sessions know of the catalogue is of before, and who reads it waits.
    async fn shut(&self, table: &str) {
        self.changes.batch_execute("DROP TABLE IF EXISTS other; CREATE TABLE other (id int)").await.unwrap();
        self.gate
            .batch_execute(&format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
            .await
            .unwrap();
    }

    async fn open(&self) {
        self.gate.batch_execute("COMMIT").await.unwrap();
    }

    /// Waits until the client's session waits for a lock.
    async fn waiting(&self) {
        let waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = $1";
        while self.watch.query_opt(waiting, &[&self.process]).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    }

    /// Runs something, and cancels it where it waits.
    async fn cancelled<T>(&self, run: impl Future<Output = Result<T, Error>>) -> (String, String) {
        let cancel = async {
            self.waiting().await;
            // It does not wait until the request has come to the database: the proxy does.
            self.client.cancel_token().cancel_query(NoTls).await.unwrap();
        };
        let (ended, ()) = tokio::join!(run, cancel);
        told(ended)
    }

    /// The same of a statement.
    async fn cancels(&self, text: &str) -> (String, String) {
        self.cancelled(self.client.simple_query(text)).await
    }
}

/// SQLSTATE and message of what failed.
fn told<T>(ended: Result<T, Error>) -> (String, String) {
    let Err(error) = ended else { panic!("it did not fail") };
    let said = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    (said.code().code().to_owned(), said.message().to_owned())
}

fn by_request() -> (String, String) {
    ("57014".to_owned(), "canceling statement due to user request".to_owned())
}

/// The code of the first error, if there is one.
fn code(came: &[(u8, Vec<u8>)]) -> Option<String> {
    let said = failed(came)?;
    said.split('\0').find_map(|field| field.strip_prefix('C')).map(str::to_owned)
}

#[tokio::test]
async fn a_statement_is_cancelled_while_the_proxy_reads_the_catalogue() {
    let world = World::start().await;
    let client = &world.client;
    for table in READ {
        for prepared in [false, true] {
            world.shut(table).await;
            let ended = match prepared {
                true => world.cancelled(client.prepare(READS)).await,
                false => world.cancels(READS).await,
            };
            assert_eq!(ended, by_request(), "{table}, prepared: {prepared}");
            world.open().await;
            let found = answered(client, READS).await.unwrap();
            assert!(found.contains(&"Ann|5".to_owned()), "{table}: {found:?}");
        }
    }
}

#[tokio::test]
async fn a_transaction_has_failed_in_which_that_is_cancelled() {
    let world = World::start().await;
    let client = &world.client;
    for table in READ {
        client.batch_execute("BEGIN; SAVEPOINT s; CREATE TABLE made (id int)").await.unwrap();
        world.shut(table).await;
        assert_eq!(world.cancels(READS).await, by_request(), "{table}");
        assert_eq!(told(client.simple_query(READS).await).0, "25P02", "{table}");
        world.open().await;
        assert_eq!(told(client.prepare("SELECT id FROM made").await).0, "25P02", "{table}");
        client.batch_execute("ROLLBACK TO s").await.unwrap();
        assert_eq!(told(client.simple_query("SELECT id FROM made").await).0, "42P01", "{table}");
        client.batch_execute("ROLLBACK TO s").await.unwrap();
        client.batch_execute("INSERT INTO accounts VALUES (2, 'Bob', 7); COMMIT").await.unwrap();
        let found = answered(client, READS).await.unwrap();
        assert!(found.contains(&"Bob|7".to_owned()), "{table}: {found:?}");
        client.batch_execute("BEGIN; DELETE FROM accounts").await.unwrap();
        world.shut(table).await;
        assert_eq!(world.cancels(READS).await, by_request(), "{table}");
        world.open().await;
        // It is rolled back.
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(answered(client, READS).await.unwrap(), found, "{table}");
        client.batch_execute("DELETE FROM accounts WHERE id = 2").await.unwrap();
    }
    let (well, said) = world.proxy.doctor(&world.server, "postgres", true);
    assert!(well, "{said}");
}

/// Columns that were made before the catalogue could not be read are known once it can.
#[tokio::test]
async fn what_was_changed_before_a_reading_that_is_cancelled_is_read_by_the_next_statement() {
    let world = World::start().await;
    let star = "SELECT * FROM accounts";
    assert_eq!(answered(&world.client, star).await.unwrap()[0], "id,owner,balance");
    world.client.batch_execute("ALTER TABLE accounts ADD COLUMN memo text DEFAULT 'none'").await.unwrap();
    world.shut(READ[0]).await;
    assert_eq!(world.cancels(star).await, by_request());
    world.open().await;
    let found = answered(&world.client, star).await.unwrap();
    assert_eq!(found[..2], ["id,owner,balance,memo".to_owned(), "1|Ann|5|none".to_owned()]);
}

#[tokio::test]
async fn limits_of_time_end_it_as_they_end_a_statement() {
    let world = World::start().await;
    for (setting, code, message) in [
        ("statement_timeout", "57014", "canceling statement due to statement timeout"),
        ("lock_timeout", "55P03", "canceling statement due to lock timeout"),
    ] {
        world.client.batch_execute(&format!("BEGIN; SET LOCAL {setting} = 1")).await.unwrap();
        world.shut(READ[0]).await;
        assert_eq!(told(world.client.simple_query(READS).await), (code.to_owned(), message.to_owned()));
        world.open().await;
        world.client.batch_execute("ROLLBACK").await.unwrap();
        assert!(answered(&world.client, READS).await.unwrap().contains(&"Ann|5".to_owned()), "{setting}");
    }
}

#[tokio::test]
async fn a_session_that_is_ended_is_told_so() {
    let world = World::start().await;
    world.shut(READ[0]).await;
    let end = async {
        world.waiting().await;
        world.watch.execute("SELECT pg_terminate_backend($1)", &[&world.process]).await.unwrap();
    };
    let (ended, ()) = tokio::join!(world.client.simple_query(READS), end);
    assert_eq!(told(ended).0, "57P01");
}

/// What is sent ahead behind an error is answered as by PostgreSQL, and the end of the transaction ends it.
#[test]
fn a_transaction_that_fails_ahead_of_a_reading_ends_as_it_says() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::start());
    let [mut direct, mut proxied] = [world.server.uri("postgres"), world.proxy.uri("postgres")].map(|uri| {
        let address = uri.rsplit(['@', '/']).nth(1).unwrap().parse().unwrap();
        Raw::connect(address)
    });
    for last in ["SELECT 1", "ROLLBACK"] {
        let texts = ["BEGIN", "CREATE TABLE made (id int)", "SELECT 1 / 0", last];
        let [expected, found] = [&mut direct, &mut proxied].map(|raw| {
            let mut out = bytes::BytesMut::new();
            texts
                .iter()
                .for_each(|text| postgres_protocol::message::frontend::query(text, &mut out).unwrap());
            let first = code(&raw.ask(&out));
            let rest = [(); 3].map(|()| code(&raw.ask(&[])));
            let after = ["ROLLBACK", "SELECT 1"].map(|text| code(&raw.query(text)));
            (first, rest, after)
        });
        assert_eq!(found, expected, "{last}");
    }
}
