//! Tables and functions are made once, by whoever comes first.

use super::world::{COLUMN, connect, settings};
use arras_lab::private_postgres::PrivatePostgres;
use arras_postgres::mope::{
    Column, Connections, InstallError, Protocol, forget, install, register, store_in, watch_older,
};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

#[tokio::test]
async fn an_installation_is_made_once_and_only_where_it_may_be() {
    let server = PrivatePostgres::start().unwrap();
    let connections = Connections::new(settings(&server));
    let (mut one, mut other) = (connections.open().await.unwrap(), connections.open().await.unwrap());
    one.batch_execute("CREATE SCHEMA arras").await.unwrap();
    assert!(matches!(install(&mut one).await, Err(InstallError::Foreign)));
    one.batch_execute("DROP SCHEMA arras").await.unwrap();
    let (first, second) = tokio::join!(install(&mut one), install(&mut other));
    let mut found = [first.unwrap(), second.unwrap()];
    found.sort_unstable();
    assert_eq!(found, [0, 13]);
    let column = Column::from(COLUMN);
    register(&one, column, Protocol::Mope).await.unwrap();
    register(&other, column, Protocol::Mope).await.unwrap();
    for another in [Protocol::Stope, Protocol::FrequencyHiding] {
        assert!(register(&other, column, another).await.is_err());
    }
    // What was registered before keys of rows were known stays what it is.
    let before = "DROP VIEW arras.stored_labels; DROP TABLE arras.mark, arras.column_check; ALTER TABLE arras.mope_column DROP COLUMN one_row; UPDATE arras.installation SET version = 5";
    one.batch_execute(before).await.unwrap();
    assert_eq!(install(&mut one).await.unwrap(), 5);
    register(&one, column, Protocol::Mope).await.unwrap();
    let hiding = Column::from([9; 8]);
    register(&one, hiding, Protocol::FrequencyHiding).await.unwrap();
    assert!(register(&one, hiding, Protocol::Stope).await.is_err());
    one.batch_execute("UPDATE arras.installation SET version = 1000").await.unwrap();
    assert!(matches!(install(&mut one).await, Err(InstallError::Newer { found: 1000, known: 13 })));
}

/// What the documentation has an administrator run.
fn given_away(to: &str) -> String {
    let page = include_str!("../../../../docs/mope.md");
    let script = page.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    script.replace("TO app", &format!("TO {to}"))
}

#[tokio::test]
async fn an_installation_is_given_to_another_role() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(server.port(), "postgres").await;
    direct.batch_execute("CREATE ROLE keeper LOGIN; GRANT CREATE ON SCHEMA public TO keeper").await.unwrap();
    let mut before = Connections::new(settings(&server)).open().await.unwrap();
    install(&mut before).await.unwrap();
    before.batch_execute(arras_postgres::shown::INSTALL).await.unwrap();
    // So that all is made anew.
    before
        .batch_execute("DROP VIEW arras.stored_labels; UPDATE arras.installation SET version = 10")
        .await
        .unwrap();
    let mut as_keeper = settings(&server);
    as_keeper.login.user("keeper");
    let mut keeper = Connections::new(as_keeper).open().await.unwrap();
    let refused = install(&mut keeper).await.unwrap_err().to_string();
    assert!(refused.contains("belongs to postgres") && refused.contains("docs/mope.md"), "{refused}");
    direct.batch_execute(&given_away("keeper")).await.unwrap();
    assert_eq!(install(&mut keeper).await.unwrap(), 10);
    keeper.batch_execute(arras_postgres::shown::INSTALL).await.unwrap();
    let column = Column::from(COLUMN);
    register(&keeper, column, Protocol::Stope).await.unwrap();
    let owner = connect(server.port(), "keeper").await;
    owner.batch_execute("CREATE TABLE own (l bigint)").await.unwrap();
    store_in(&owner, column, "own", "l").await.unwrap();
}

#[tokio::test]
async fn an_application_may_ask_for_labels_of_its_own_tables_and_nothing_else() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(server.port(), "postgres").await;
    // Whoever owns tables has the proxy's rights; whoever only uses them has not.
    let roles = "CREATE ROLE keeper LOGIN; GRANT CREATE ON DATABASE postgres TO keeper; CREATE ROLE owner LOGIN IN ROLE keeper; \
                 GRANT CREATE ON SCHEMA public TO owner; CREATE ROLE app LOGIN; CREATE TABLE foreign_one (l bigint)";
    direct.batch_execute(roles).await.unwrap();
    let mut as_keeper = settings(&server);
    as_keeper.login.user("keeper");
    let mut proxy = Connections::new(as_keeper).open().await.unwrap();
    install(&mut proxy).await.unwrap();
    let column = Column::from(COLUMN);
    register(&proxy, column, Protocol::Stope).await.unwrap();
    let (owner, app) = (connect(server.port(), "owner").await, connect(server.port(), "app").await);
    let own = "CREATE TABLE own (l bigint, other text); GRANT SELECT, UPDATE, TRIGGER ON own TO keeper; GRANT ALL ON own TO app";
    owner.batch_execute(own).await.unwrap();
    store_in(&owner, column, "own", "l").await.unwrap();
    store_in(&owner, column, "own", "l").await.unwrap();
    assert!(store_in(&owner, column, "own", "other").await.is_err());
    let code = |error: tokio_postgres::Error| error.code().cloned();
    let denied = Some(SqlState::INSUFFICIENT_PRIVILEGE);
    for (role, table) in [(&owner, "foreign_one"), (&app, "own")] {
        assert_eq!(code(store_in(role, column, table, "l").await.unwrap_err()), denied);
        assert_eq!(code(forget(role, column, table, "l").await.unwrap_err()), denied);
    }
    let check = "SELECT arras.check_column($1::text::regclass, 'l', true, '\\x00', NULL, NULL)";
    assert_eq!(code(app.execute(check, &[&"foreign_one"]).await.unwrap_err()), denied);
    assert_eq!(code(app.execute(check, &[&"own"]).await.unwrap_err()), denied);
    owner.execute(check, &[&"own"]).await.unwrap();
    app.execute("SELECT arras.mope_hold($1)", &[&column.number()]).await.unwrap();
    let unknown = app.query("SELECT arras.mope_order($1, 'x')", &[&column.number()]).await.unwrap_err();
    assert_eq!(unknown.code().map(SqlState::code), Some("40001"));
    // Deleting notes what went, in a table that is not the application's.
    app.batch_execute("INSERT INTO own VALUES (1); UPDATE own SET l = 2; DELETE FROM own; TRUNCATE own")
        .await
        .unwrap();
    let tables = [
        "mope_column",
        "mope_epoch",
        "mope_node",
        "mope_entry",
        "mope_doubt",
        "mope_place",
        "mope_left",
        "installation",
        "mark",
        "column_check",
    ];
    for table in tables {
        let reading = app.query(&format!("SELECT * FROM arras.{table}"), &[]).await.unwrap_err();
        assert_eq!(code(reading), denied, "{table}");
    }
    what_any_role_may_call(&mut proxy).await;
}

/// Also after an upgrade.
async fn what_any_role_may_call(proxy: &mut Client) {
    let listed = "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'arras'::regnamespace \
                  AND has_function_privilege('app', p.oid, 'EXECUTE') ORDER BY 1";
    proxy.batch_execute(arras_postgres::shown::INSTALL).await.unwrap();
    let watched = "SELECT watched::text, (SELECT string_agg(tgname, ' ' ORDER BY tgname) FROM pg_trigger \
                   WHERE tgrelid = relation AND tgname LIKE 'arras%') FROM arras.mope_place";
    let before = proxy.query_one(watched, &[]).await.unwrap();
    let older = "UPDATE arras.installation SET version = 10; ALTER TABLE arras.mope_place DROP COLUMN watched CASCADE; \
                 DROP FUNCTION arras.mope_note_past CASCADE";
    proxy.batch_execute(older).await.unwrap();
    install(proxy).await.unwrap();
    assert!(watch_older(proxy).await.unwrap().is_empty());
    let after = proxy.query_one(watched, &[]).await.unwrap();
    let triggers = |row: &tokio_postgres::Row| (row.get::<_, String>(0), row.get::<_, String>(1));
    assert_eq!(triggers(&after), triggers(&before), "of tables that are there");
    proxy.batch_execute(arras_postgres::shown::INSTALL).await.unwrap();
    let allowed = proxy.query(listed, &[]).await.unwrap();
    let allowed: Vec<String> = allowed.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        allowed.join(" "),
        "arras.any_of(bytea) arras.bclo_greatest(bytea,bytea) arras.bclo_least(bytea,bytea) \
        arras.bytes_larger(bytea,bytea) arras.bytes_max(bytea) arras.bytes_min(bytea) arras.bytes_smaller(bytea,bytea) \
        arras.check_column(regclass,name,boolean,bytea,bytea,bytea) arras.clww_between(bytea,bytea,bytea) arras.clww_compare(bytea,bytea) arras.clww_greater(bytea[],bytea,bytea) \
        arras.clww_greatest(bytea,bytea) arras.clww_least(bytea,bytea) arras.clww_lesser(bytea[],bytea,bytea) \
        arras.column_checks() \
        arras.lewi_wu_between(bytea,bytea,bytea) arras.lewi_wu_compare(bytea,bytea) arras.mark_of(bigint) \
        arras.mope_bound(bigint,bytea) arras.mope_forget(bigint,regclass,name) \
        arras.mope_forget_place(bigint,regclass,name) arras.mope_greatest(bytea,bigint) \
        arras.mope_hold(bigint[]) arras.mope_hold_snapshot(bigint[]) arras.mope_least(bytea,bigint) arras.mope_lock(bigint) \
        arras.mope_number(bytea,integer) arras.mope_order(bigint,bytea) arras.mope_order(bigint,bytea,bigint,bigint) \
        arras.mope_set_anew(bigint,regclass,name) arras.mope_store_in(bigint,regclass,name) arras.mope_transform(bigint,arras.mope_move[]) \
        arras.mope_transform(bigint,arras.mope_summary) \
        arras.pg_get_constraintdef(oid) arras.pg_get_constraintdef(oid,boolean) arras.pg_get_indexdef(oid) \
        arras.pg_get_indexdef(oid,integer,boolean) arras.sealed_of(bytea[]) arras.shown_columns(oid,smallint[]) arras.shown_text(text)"
    );
}

#[tokio::test]
async fn a_table_of_a_dump_is_known_only_without_labels_and_has_its_triggers() {
    let server = PrivatePostgres::start().unwrap();
    let mut client = Connections::new(settings(&server)).open().await.unwrap();
    install(&mut client).await.unwrap();
    let column = Column::from(COLUMN);
    register(&client, column, Protocol::Stope).await.unwrap();
    let owner = connect(server.port(), "postgres").await;
    owner.batch_execute("CREATE TABLE own (l bigint)").await.unwrap();
    store_in(&owner, column, "own", "l").await.unwrap();
    let enabled = "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'own'::regclass AND tgenabled = 'O' AND tgname ~ '_(delete|update|truncate)$'";
    for lost in [
        "DELETE FROM arras.mope_place",
        "DROP TRIGGER arras_order_{}_delete ON own",
        "ALTER TABLE own DISABLE TRIGGER arras_order_{}_update",
    ] {
        owner.batch_execute(&lost.replace("{}", &column.to_string())).await.unwrap();
        store_in(&owner, column, "own", "l").await.unwrap();
        assert_eq!(owner.query_one(enabled, &[]).await.unwrap().get::<_, i64>(0), 3, "{lost}");
    }
    owner.batch_execute("DELETE FROM arras.mope_place; INSERT INTO own VALUES (7)").await.unwrap();
    let refused = store_in(&owner, column, "own", "l").await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE));
    // As a column that is added with a default.
    let added = "ALTER TABLE own ADD COLUMN \"m\" bigint DEFAULT 7";
    owner.batch_execute(&format!("BEGIN; SAVEPOINT s; {added}")).await.unwrap();
    store_in(&owner, column, "own", "m").await.unwrap();
    owner.batch_execute("COMMIT").await.unwrap();
}

/// The triggers of version 12: one setting for all columns.
const TRIGGERS_BEFORE: &str = "DO $$ DECLARE made record; BEGIN \
    FOR made IN SELECT pg_get_triggerdef(g.oid) AS definition FROM pg_trigger g \
        WHERE g.tgname ~ '_(insert|change)$' AND g.tgparentid = 0 LOOP \
        EXECUTE regexp_replace(replace(made.definition, 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER'), \
            '\\(strpos.* = 0\\)', '(current_setting(''arras.holding'', true) IS DISTINCT FROM ''on'')'); \
    END LOOP; \
    FOR made IN SELECT g.tgrelid::regclass AS relation, g.tgname FROM pg_trigger g WHERE g.tgname ~ '_(insert|change)$' LOOP \
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', made.relation, made.tgname); \
    END LOOP; \
    UPDATE arras.mope_place SET by_column = false; UPDATE arras.installation SET version = 12; END $$";
/// How many triggers note, always, what is written past whoever holds their own column.
const BY_COLUMN: &str = "SELECT count(*) FROM pg_trigger g WHERE g.tgenabled = 'A' AND pg_get_triggerdef(g.oid) LIKE '%arras.held%'";
/// Places that are not known.
const NOT_KNOWN: &str =
    "SELECT count(*) FROM arras.stored_labels WHERE column_id IS NULL AND in_table <> 'part'";

/// A table that somebody has locked is no reason to wait for the others, nor to lock them meanwhile.
#[tokio::test]
async fn tables_of_an_older_version_are_watched_one_by_one() {
    let server = PrivatePostgres::start().unwrap();
    let mut client = Connections::new(settings(&server)).open().await.unwrap();
    install(&mut client).await.unwrap();
    let column = Column::from(COLUMN);
    register(&client, column, Protocol::Mope).await.unwrap();
    let owner = connect(server.port(), "postgres").await;
    let tables = "CREATE TABLE one (\"l$ord\" bigint); CREATE TABLE two (\"l$ord\" bigint); \
                  CREATE TABLE whole (id integer, \"l$ord\" bigint) PARTITION BY LIST (id); \
                  CREATE TABLE part PARTITION OF whole FOR VALUES IN (1)";
    owner.batch_execute(tables).await.unwrap();
    for table in ["one", "two", "whole"] {
        store_in(&owner, column, table, "l$ord").await.unwrap();
    }
    let number = async |statement: &str| -> i64 { owner.query_one(statement, &[]).await.unwrap().get(0) };
    assert_eq!(number(BY_COLUMN).await, 8);
    owner.batch_execute(TRIGGERS_BEFORE).await.unwrap();
    assert_eq!([number(BY_COLUMN).await, number(NOT_KNOWN).await], [0, 0]);
    let other = connect(server.port(), "postgres").await;
    other.batch_execute("BEGIN; LOCK TABLE one IN ACCESS EXCLUSIVE MODE").await.unwrap();
    assert_eq!(install(&mut client).await.unwrap(), 12);
    let left = watch_older(&client).await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].place, "public.one.l$ord");
    assert!(left[0].why.contains("(55P03)"), "{left:?}");
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(number(BY_COLUMN).await, 6);
    // What was disabled meanwhile stays a doubt.
    owner.batch_execute("ALTER TABLE one DISABLE TRIGGER ALL").await.unwrap();
    assert_eq!(watch_older(&client).await.unwrap(), []);
    assert_eq!([number(BY_COLUMN).await, number(NOT_KNOWN).await], [8, 1]);
    // Who holds the column writes as before, and is no doubt.
    let both = "INSERT INTO two VALUES (7); INSERT INTO whole VALUES (1, 7)";
    let hold = format!("BEGIN; SELECT arras.mope_hold({})", column.number());
    owner.batch_execute(&format!("{hold}; {both}; COMMIT")).await.unwrap();
    assert_eq!(number(NOT_KNOWN).await, 1);
    owner.batch_execute(both).await.unwrap();
    assert_eq!(number(NOT_KNOWN).await, 3);
    assert_eq!(watch_older(&client).await.unwrap(), []);
}
