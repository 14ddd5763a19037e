//! Rows whose labels are of another time, put past the proxy into tables that it knows: noticed, and right when they are read.

use crate::dev::Dev;
use crate::extended::connect;
use crate::proxy::outputs;
use crate::restored::{KEYS, SCHEMA, found};
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::Client;

/// The tables that are not known to store labels.
const NOT_KNOWN: &str =
    "SELECT count(*) FROM arras.stored_labels WHERE column_id IS NULL AND in_table IN ('m', 's', 'f')";

/// Tables with rows, whose dump is older than their orders.
struct World {
    server: PrivatePostgres,
    proxy: Dev,
    direct: Client,
    /// What the proxy is in front of.
    database: &'static str,
}

impl World {
    fn dump(&self, arguments: &[&str]) -> String {
        self.dump_of(&[&["-t", "m", "-t", "s", "-t", "f"], arguments].concat())
    }

    fn dump_of(&self, arguments: &[&str]) -> String {
        let mut dump = self.server.command("pg_dump");
        dump.args(arguments).arg(self.server.uri("postgres"));
        let (ended, dumped, errors) = outputs(dump);
        assert!(ended, "{errors}");
        dumped
    }

    /// Runs a script of psql, past the proxy.
    fn run(&self, script: &str) {
        let (ended, told) = self.tried(script);
        assert!(ended, "{told}");
    }

    /// The same, which may fail.
    fn tried(&self, script: &str) -> (bool, String) {
        let file = self.server.socket_folder().join("script.sql");
        std::fs::write(&file, script).unwrap();
        let mut run = self.server.command("psql");
        run.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file.to_str().unwrap()]);
        run.arg(self.server.uri(self.database));
        let (ended, said, errors) = outputs(run);
        (ended, format!("{said} {errors}"))
    }

    /// Starts the proxy on a database that it does not go on from.
    fn begun_anew(&mut self) {
        std::fs::remove_dir_all(self.proxy.directory().join("data/postgres-heads")).unwrap();
        self.proxy.killed_and_restarted(&self.server, self.database);
    }

    async fn start() -> Self {
        let server = PrivatePostgres::start().unwrap();
        let direct = connect(&server.uri("postgres")).await;
        let proxy = Dev::start(&server, "postgres", SCHEMA);
        let client = connect(&proxy.uri("postgres")).await;
        for table in ["m", "s", "f"] {
            let made = format!(
                "CREATE TABLE {table} (id integer, n integer); \
                 INSERT INTO {table} VALUES (1, 10), (2, 20), (3, 30), (4, 40), (9, NULL)"
            );
            client.batch_execute(&made).await.unwrap();
        }
        Self { server, proxy, direct, database: "postgres" }
    }

    /// Keys leave, and others take their labels.
    async fn grown_older(&mut self) {
        let client = connect(&self.proxy.uri("postgres")).await;
        client
            .batch_execute("DELETE FROM s WHERE id IN (2, 3); DELETE FROM f WHERE id IN (2, 3)")
            .await
            .unwrap();
        drop(client);
        self.proxy.killed_and_restarted(&self.server, "postgres");
        while self.direct.query_one(KEYS, &[]).await.unwrap().get::<_, i64>(0) > 4 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let client = connect(&self.proxy.uri("postgres")).await;
        for value in [25, 22] {
            let more = format!("INSERT INTO s VALUES (6, {value}); INSERT INTO f VALUES (6, {value})");
            client.batch_execute(&more).await.unwrap();
        }
    }

    async fn number(&self, statement: &str) -> i64 {
        self.direct.query_one(statement, &[]).await.unwrap().get(0)
    }

    /// Who connects now gets the rows of the dump in their order, and can store others.
    async fn is_right(&self) {
        let client = connect(&self.proxy.uri(self.database)).await;
        for table in ["m", "s", "f"] {
            let equal = format!("SELECT id FROM {table} WHERE n = 20");
            assert_eq!(found(&client, &equal).await, [2], "{table}");
            client
                .batch_execute(&format!("INSERT INTO {table} VALUES (5, 15), (6, 31), (7, 20)"))
                .await
                .unwrap();
            let sorted = format!("SELECT n FROM {table} WHERE n IS NOT NULL ORDER BY n");
            assert_eq!(found(&client, &sorted).await, [10, 15, 20, 20, 30, 31, 40], "{table}");
            let below = format!("SELECT count(*)::int FROM {table} WHERE n < 30");
            assert_eq!(found(&client, &below).await, [4], "{table}");
            client.batch_execute(&format!("DELETE FROM {table} WHERE id IN (5, 6, 7)")).await.unwrap();
        }
        let (well, said) =
            tokio::task::block_in_place(|| self.proxy.doctor(&self.server, self.database, true));
        assert!(well, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_dump_that_are_copied_into_a_table_that_was_emptied_get_labels_of_now() {
    let mut world = World::start().await;
    let dumped = world.dump(&["--data-only"]);
    let unwatched = world.dump(&["--data-only", "--disable-triggers"]);
    let rows = world.dump(&["--data-only", "--inserts"]);
    world.grown_older().await;
    for (how, script) in [
        ("data only", dumped.clone()),
        ("without triggers", unwatched),
        ("insertions", rows),
        ("as a replica", format!("SET session_replication_role = replica;\n{dumped}")),
    ] {
        world.proxy.kill();
        world.run(&format!("TRUNCATE m, s, f;\n{script}"));
        assert_eq!(world.number(NOT_KNOWN).await, 3, "{how}");
        world.proxy.killed_and_restarted(&world.server, "postgres");
        world.is_right().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_made_known_in_the_midst_of_its_restoration_is_right_in_the_end() {
    let mut world = World::start().await;
    let dumped = world.dump(&[]);
    let dumped: String = dumped
        .split_inclusive('\n')
        .filter(|line| !line.starts_with('\\') || line.starts_with("\\."))
        .collect();
    world.grown_older().await;
    let (made, filled) = dumped.split_at(dumped.find("\n-- Data for Name").unwrap());
    world.run("DROP TABLE m, s, f");
    world.run(made);
    while world.number(NOT_KNOWN).await > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    world.run(filled);
    world.is_right().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_labels_and_labels_that_are_held_are_no_doubt() {
    let mut world = World::start().await;
    let client = connect(&world.proxy.uri("postgres")).await;
    world
        .direct
        .batch_execute("INSERT INTO m (id) VALUES (70); UPDATE s SET id = 5 WHERE id = 4")
        .await
        .unwrap();
    client.batch_execute("UPDATE f SET n = n + 1; INSERT INTO s SELECT id, n FROM m; COMMIT").await.unwrap();
    let copied =
        "BEGIN; SELECT arras.mope_hold(x'51c2a04be6f98d01'::bigint); INSERT INTO m SELECT * FROM m; COMMIT";
    world.direct.batch_execute(copied).await.unwrap();
    assert_eq!(world.number(NOT_KNOWN).await, 0);
    world.proxy.kill();
    world
        .direct
        .batch_execute("BEGIN; SELECT arras.mope_hold(x'51c2a04be6f98d01'::bigint); COMMIT")
        .await
        .unwrap();
    world.direct.batch_execute("UPDATE m SET \"n$ord\" = \"n$ord\" + 1 WHERE id = 1").await.unwrap();
    assert_eq!(world.number(NOT_KNOWN).await, 1, "what was held is not");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_one_column_writes_labels_of_another_past_the_proxy() {
    let world = World::start().await;
    let client = connect(&world.proxy.uri("postgres")).await;
    let copying = "CREATE FUNCTION copied() RETURNS void LANGUAGE sql AS \
                   $$ UPDATE s SET \"n$ord\" = \"n$ord\" + 1 WHERE id = 1 $$";
    world.direct.batch_execute(copying).await.unwrap();
    // As a function of an application may, in a transaction of the proxy's, also where that went back from the column's hold.
    for held in [
        "UPDATE m SET n = n + 1",
        "SAVEPOINT a; UPDATE s SET n = n + 1; ROLLBACK TO a; UPDATE m SET n = n + 1",
    ] {
        // So that they are not set anew meanwhile.
        let stopper = connect(&world.server.uri("postgres")).await;
        stopper.batch_execute("BEGIN; LOCK TABLE arras.mope_place IN SHARE MODE").await.unwrap();
        client.batch_execute(&format!("BEGIN; {held}; SELECT copied(); COMMIT")).await.unwrap();
        let of = async |table: &str| world.number(&format!("{NOT_KNOWN} AND in_table = '{table}'")).await;
        assert_eq!([of("s").await, of("m").await], [1, 0], "{held}");
        stopper.batch_execute("ROLLBACK").await.unwrap();
        while of("s").await > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    // Who holds both writes both.
    client
        .batch_execute("BEGIN; UPDATE m SET n = n - 2; UPDATE s SET n = n + 1; SELECT copied(); ROLLBACK")
        .await
        .unwrap();
    client
        .batch_execute(
            "BEGIN; INSERT INTO s SELECT id, n FROM m WHERE id = 0; UPDATE m SET n = n - 2; \
                          UPDATE s SET n = n; COMMIT",
        )
        .await
        .unwrap();
    assert_eq!(world.number(NOT_KNOWN).await, 0);
    world.is_right().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_table_is_watched_as_the_whole() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let mut proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE m (id integer, n integer) PARTITION BY LIST (id)").await.unwrap();
    let part = "CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1, 2)";
    direct.batch_execute(part).await.unwrap();
    client.batch_execute("INSERT INTO m VALUES (1, 10), (2, 20)").await.unwrap();
    direct.batch_execute("CREATE TABLE m3 PARTITION OF m FOR VALUES IN (3)").await.unwrap();
    client.batch_execute("INSERT INTO m VALUES (3, 30); UPDATE m SET id = 1 WHERE id = 3").await.unwrap();
    let not_known = async || direct.query_one(NOT_KNOWN, &[]).await.unwrap().get::<_, i64>(0);
    direct
        .batch_execute(
            "CREATE TABLE m4 PARTITION OF m FOR VALUES IN (4) PARTITION BY LIST (id); \
             CREATE TABLE m41 PARTITION OF m4 FOR VALUES IN (4)",
        )
        .await
        .unwrap();
    client.batch_execute("INSERT INTO m VALUES (4, 40)").await.unwrap();
    assert_eq!(not_known().await, 0);
    for (past, right) in [
        ("UPDATE m1 SET \"n$ord\" = \"n$ord\" + 1 WHERE id = 2", &[10, 20, 30, 40][..]),
        ("INSERT INTO m3 SELECT 3, n, \"n$ord\" + 1 FROM m1 WHERE id = 2", &[10, 20, 20, 30, 40]),
        // As a dump with `--disable-triggers` does, into a part and into a part of one.
        (
            "ALTER TABLE m1 DISABLE TRIGGER ALL; UPDATE m1 SET \"n$ord\" = \"n$ord\" + 1 WHERE id = 2; \
             ALTER TABLE m1 ENABLE TRIGGER ALL",
            &[10, 20, 20, 30, 40],
        ),
        (
            "ALTER TABLE m41 DISABLE TRIGGER ALL; UPDATE m41 SET \"n$ord\" = 0; ALTER TABLE m41 ENABLE TRIGGER ALL",
            &[10, 20, 20, 30, 40],
        ),
    ] {
        proxy.kill();
        direct.batch_execute(past).await.unwrap();
        assert_eq!(not_known().await, 1, "{past}");
        proxy.killed_and_restarted(&server, "postgres");
        let client = connect(&proxy.uri("postgres")).await;
        assert_eq!(found(&client, "SELECT n FROM m ORDER BY n").await, right);
        assert_eq!(not_known().await, 0, "{past}");
    }
}

/// Labels that are in doubt are all set anew, under a lock of their table: a change of labels meanwhile neither waits for it nor
/// has them.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_labels_does_not_wait_for_a_table_whose_labels_are_set_anew() {
    let mut world = World::start().await;
    world.proxy.kill();
    let mut keeper = connect(&world.server.uri("postgres")).await;
    let kept = keeper.transaction().await.unwrap();
    kept.batch_execute("LOCK TABLE m IN SHARE ROW EXCLUSIVE MODE").await.unwrap();
    let changed = "BEGIN; SET LOCAL lock_timeout = '300ms'; \
                   SELECT arras.mope_relabel(e.column_id, e.label, e.label, (e.label, e.label, e.label, 1, 1, NULL)::arras.mope_summary, NULL) \
                   FROM arras.mope_entry e WHERE e.column_id = x'51c2a04be6f98d01'::bigint; ROLLBACK";
    let refused = world.direct.batch_execute(changed).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "55P03", "it waits for a table whose labels are of now");
    world.direct.batch_execute("ROLLBACK").await.unwrap();
    let doubt = "SELECT arras.mope_set_anew(x'51c2a04be6f98d01'::bigint, 'm', 'n$ord')";
    world.direct.batch_execute(doubt).await.unwrap();
    world.direct.batch_execute(changed).await.unwrap();
    kept.rollback().await.unwrap();
    world.proxy.killed_and_restarted(&world.server, "postgres");
    world.is_right().await;
}

/// What is not noticed by itself the doctor finds, and what it says to do mends it.
#[tokio::test(flavor = "multi_thread")]
async fn labels_of_another_time_are_found_by_the_doctor_and_mended_as_it_says() {
    let world = World::start().await;
    for (number, table) in ["m", "s", "f"].iter().enumerate() {
        let wrong = format!(
            "BEGIN; SELECT arras.mope_hold(x'51c2a04be6f98d0{}'::bigint); UPDATE {table} t SET \"n$ord\" = o.\"n$ord\" FROM {table} o \
             WHERE (t.id, o.id) IN ((1, 4), (4, 1)); COMMIT",
            number + 1
        );
        world.direct.batch_execute(&wrong).await.unwrap();
    }
    assert_eq!(world.number(NOT_KNOWN).await, 0);
    let (well, said) = tokio::task::block_in_place(|| world.proxy.doctor(&world.server, "postgres", true));
    assert!(!well && said.contains("is another value's than the sealed one"), "{said}");
    let advised =
        said.lines().filter_map(|line| line.split_once("SELECT arras.mope_set_anew(")?.1.split_once(')'));
    let advised: std::collections::BTreeSet<String> =
        advised.map(|(arguments, _)| format!("SELECT arras.mope_set_anew({arguments})")).collect();
    assert_eq!(advised.len(), 3, "{said}");
    for statement in advised {
        world.direct.batch_execute(&statement).await.unwrap();
    }
    let (well, said) = tokio::task::block_in_place(|| world.proxy.doctor(&world.server, "postgres", false));
    assert!(well || said.contains("sets its labels anew"), "{said}");
    world.is_right().await;
}

/// The schema arras is of another time than the tables, or gone: the proxy does not go on, and where it is told to begin anew, labels
/// are set anew.
#[tokio::test(flavor = "multi_thread")]
async fn orders_of_another_time_than_their_tables_are_noticed() {
    let mut world = World::start().await;
    let (tables, older) = (world.dump(&[]), world.dump_of(&["-n", "arras"]));
    world.grown_older().await;
    let client = connect(&world.proxy.uri("postgres")).await;
    for table in ["s", "f"] {
        let again =
            format!("DELETE FROM {table}; INSERT INTO {table} VALUES (4, 40), (3, 30), (2, 20), (1, 10)");
        client.batch_execute(&again).await.unwrap();
    }
    drop(client);
    world.proxy.kill();
    let newer = world.dump_of(&["-n", "arras"]);
    for schema in ["", older.as_str()] {
        world.proxy.kill();
        world.run(&format!("DROP SCHEMA arras CASCADE;\n{schema}"));
        let said = world.proxy.refused_start(&world.server, "postgres");
        assert!(said.contains("was set back"), "{said}");
        world.begun_anew();
        world.is_right().await;
    }
    world.proxy.kill();
    world.direct.batch_execute("CREATE DATABASE other").await.unwrap();
    world.database = "other";
    let (whole, said) = world.tried(&format!("\\set ON_ERROR_STOP 0\n{tables}"));
    assert!(whole && said.contains("arras"), "its triggers are not made: {said}");
    world.run(&newer);
    world.begun_anew();
    world.is_right().await;
}

/// What would switch off what notices such rows is refused; other triggers are the application's.
#[tokio::test(flavor = "multi_thread")]
async fn what_notices_such_rows_is_not_switched_off_by_the_proxy() {
    let world = World::start().await;
    let client = connect(&world.proxy.uri("postgres")).await;
    let own = "CREATE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; \
               CREATE TRIGGER own AFTER UPDATE ON m FOR EACH STATEMENT EXECUTE FUNCTION own()";
    world.direct.batch_execute(own).await.unwrap();
    for switching in [
        "DISABLE TRIGGER ALL",
        "DISABLE TRIGGER USER",
        "DISABLE TRIGGER arras_order_51c2a04be6f98d01_insert",
        "DISABLE TRIGGER \"arras_order_51c2a04be6f98d01_change\"",
        "ENABLE TRIGGER ALL",
        "ENABLE REPLICA TRIGGER arras_order_51c2a04be6f98d01_insert",
        "DISABLE RULE r",
    ] {
        for table in ["m", "public.m", "ONLY m"] {
            let refused =
                client.batch_execute(&format!("ALTER TABLE {table} {switching}")).await.unwrap_err();
            assert_eq!(refused.code().unwrap().code(), "0A000", "{switching}: {refused:?}");
        }
        assert_eq!(world.number(NOT_KNOWN).await, 0, "{switching}");
    }
    client
        .batch_execute("ALTER TABLE m DISABLE TRIGGER own; ALTER TABLE m ENABLE TRIGGER own")
        .await
        .unwrap();
    // It is enabled always: as a replica, what the transaction does not hold is noticed, too.
    let copying = "CREATE FUNCTION copied() RETURNS void LANGUAGE sql AS \
                   $$ UPDATE s SET \"n$ord\" = \"n$ord\" + 1 WHERE id = 1 $$";
    world.direct.batch_execute(copying).await.unwrap();
    let stopper = connect(&world.server.uri("postgres")).await;
    stopper.batch_execute("BEGIN; LOCK TABLE arras.mope_place IN SHARE MODE").await.unwrap();
    client.batch_execute("SET session_replication_role = replica; SELECT copied()").await.unwrap();
    assert_eq!(world.number(NOT_KNOWN).await, 1);
    stopper.batch_execute("ROLLBACK").await.unwrap();
    world.is_right().await;
}
