//! Whose code runs with the rights of the proxy's role: nobody's who does not have them.

use super::world::{COLUMN, Model, World, connect, settings, spread};
use crate::dev::Dev;
use arras_lab::private_postgres::PrivatePostgres;
use arras_postgres::mope::{
    Column, Connections, Examination, Protocol, Reach, TreeTables, install, register, store_in,
};
use arras_protocol::ChannelError;
use arras_protocol::mope::TreeStore;
use std::sync::Arc;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// A role that may create tables and schemas, and what counts how often her code ran as another role: also in a transaction that is
/// rolled back.
const PREPARED: &str = "CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory; \
    GRANT CREATE ON DATABASE postgres TO mallory; CREATE SEQUENCE ran; GRANT ALL ON SEQUENCE ran TO PUBLIC";

/// Mallory's functions. One that is called immutable runs one that is not.
const FUNCTIONS: &str = "CREATE FUNCTION note() RETURNS bigint LANGUAGE plpgsql AS \
    $$ BEGIN IF current_user <> 'mallory' THEN PERFORM pg_catalog.nextval('public.ran'); END IF; RETURN 0; END $$; \
    CREATE FUNCTION pure(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN public.note(); END $$; \
    CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.note(); \
    IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN \
    EXECUTE 'ALTER ROLE mallory SUPERUSER'; END IF; RETURN NEW; END $$";

/// What has code of a table's owner run where a label is changed or read.
const TRAPS: [&str; 9] = [
    "CREATE TABLE m (l bigint); CREATE TRIGGER m BEFORE UPDATE ON m FOR EACH ROW EXECUTE FUNCTION trap()",
    "CREATE TABLE m (l bigint); CREATE TRIGGER m AFTER UPDATE ON m FOR EACH STATEMENT EXECUTE FUNCTION trap()",
    "CREATE TABLE m (l bigint); \
     CREATE CONSTRAINT TRIGGER m AFTER UPDATE ON m DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trap()",
    "CREATE TABLE m (l bigint, CHECK (note() = 0))",
    "CREATE TABLE m (l bigint); CREATE INDEX ON m (pure(l))",
    "CREATE TABLE m (l bigint); CREATE INDEX ON m (l) WHERE pure(1) = 0",
    "CREATE TABLE m (l bigint, g bigint GENERATED ALWAYS AS (pure(l)) STORED)",
    "CREATE TABLE m (l bigint); CREATE RULE m AS ON UPDATE TO m DO ALSO SELECT note()",
    "CREATE TABLE under (l bigint); CREATE VIEW m AS SELECT l FROM under WHERE note() = 0",
];

async fn mallory(server: &PrivatePostgres) -> Client {
    let direct = connect(server.port(), "postgres").await;
    direct.batch_execute(PREPARED).await.unwrap();
    let mallory = connect(server.port(), "mallory").await;
    mallory.batch_execute(FUNCTIONS).await.unwrap();
    mallory
}

/// Whether Mallory's code ran as another role, and whether she has become a superuser.
async fn gained(direct: &Client) -> (bool, bool) {
    let asked = "SELECT (SELECT is_called FROM ran), rolsuper FROM pg_roles WHERE rolname = 'mallory'";
    let row = direct.query_one(asked, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

const NOTHING: (bool, bool) = (false, false);

/// The least label, as the database has it.
fn from_least(model: &Model) -> i64 {
    (model.labels.values().min().unwrap() ^ (1 << 63)).cast_signed()
}

/// All that the proxy does with tables that store labels. Fails where it may.
async fn change_and_look(world: &World, model: &mut Model) -> Result<(), ChannelError> {
    let tables = world.tables();
    let kept = model.clone();
    let low = model.labels.values().min().copied().unwrap();
    let changed = tables.commit(model.change(vec![spread(low, low + 10, low + 5, 1)], &[], &[])).await;
    if changed.is_err() {
        *model = kept;
    }
    let connection = world.connections.open().await.unwrap();
    let looked = Examination::begin(connection, world.column).await.unwrap().contradictions().await;
    let swept = tables.unused(Reach::All, 10).await;
    let emptied = tables.commit(model.clone().change(Vec::new(), &[], &["a"])).await;
    changed?;
    looked?;
    swept?;
    // Whether a row has the value is another test's.
    let _ = emptied;
    Ok(())
}

#[tokio::test]
async fn who_names_a_table_as_one_with_labels_gets_no_rights_of_the_proxys_role() {
    let world = World::new(Protocol::Mope).await;
    let direct = world.application().await;
    let mallory = mallory(&world.server).await;
    let mut model = Model::store(&world.tables(), &[("a", 10), ("b", 11)]).await;
    for trap in TRAPS {
        mallory.batch_execute(trap).await.unwrap();
        let named = store_in(&mallory, world.column, "m", "l").await;
        // Where an older version let her.
        let placed = "INSERT INTO arras.mope_place VALUES ($1, 'm'::regclass, 'l') ON CONFLICT DO NOTHING";
        for places in [false, true] {
            if places {
                direct.execute(placed, &[&world.column.number()]).await.unwrap();
            }
            let low = from_least(&model);
            mallory.execute("INSERT INTO m (l) VALUES ($1)", &[&low]).await.unwrap();
            let done = change_and_look(&world, &mut model).await;
            assert_eq!(gained(&direct).await, NOTHING, "{trap}");
            assert_eq!(done.is_err(), places, "{trap}: {done:?}");
            let said = done.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!places || said.contains("mallory") && said.contains("42501"), "{said}");
        }
        assert_eq!(named.unwrap_err().code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{trap}");
        direct.batch_execute("DELETE FROM arras.mope_place WHERE relation = 'm'::regclass").await.unwrap();
        direct.batch_execute("DROP TABLE IF EXISTS under CASCADE").await.unwrap();
        direct.batch_execute("DROP TABLE IF EXISTS m").await.unwrap();
    }
}

/// Also where she owns a part of a table that is not hers.
#[tokio::test]
async fn a_child_of_another_owner_gets_no_rights_of_the_proxys_role() {
    let world = World::new(Protocol::Mope).await;
    let direct = world.application().await;
    let mallory = mallory(&world.server).await;
    let mut model = Model::store(&world.tables(), &[("a", 10), ("b", 11)]).await;
    let given = "CREATE TABLE part () INHERITS (t); INSERT INTO part (name, label) SELECT ciphertext, label FROM arras.mope_entry; \
                 ALTER TABLE part OWNER TO mallory";
    direct.batch_execute(given).await.unwrap();
    mallory
        .batch_execute("CREATE TRIGGER part BEFORE UPDATE ON part FOR EACH ROW EXECUTE FUNCTION trap()")
        .await
        .unwrap();
    let done = change_and_look(&world, &mut model).await;
    assert_eq!(gained(&direct).await, NOTHING);
    let said = done.unwrap_err().to_string();
    assert!(said.contains("mallory") && said.contains("42501"), "{said}");
}

/// Nor by a cast, where a table with labels was given away.
#[tokio::test]
async fn a_cast_gets_no_rights_of_the_proxys_role() {
    let world = World::new(Protocol::Stope).await;
    let direct = world.application().await;
    let mallory = mallory(&world.server).await;
    Model::store(&world.tables(), &[("a", 10), ("b", 11)]).await;
    direct.batch_execute("ALTER TABLE t OWNER TO mallory").await.unwrap();
    // The label's place is taken by a column of her own type: triggers go by the name.
    let cast = "CREATE TYPE kind AS ENUM ('x', 'y'); CREATE FUNCTION as_label(kind) RETURNS bigint LANGUAGE plpgsql AS \
                $$ BEGIN RETURN public.note(); END $$; CREATE CAST (kind AS bigint) WITH FUNCTION as_label(kind) AS IMPLICIT; \
                ALTER TABLE t RENAME label TO was; ALTER TABLE t ADD label kind";
    mallory.batch_execute(cast).await.unwrap();
    for work in
        ["INSERT INTO t (label, was) VALUES ('x', 1), ('x', 2)", "UPDATE t SET was = 3", "DELETE FROM t"]
    {
        mallory.batch_execute(work).await.unwrap();
    }
    assert_eq!(gained(&direct).await, NOTHING);
}

/// Nor by a type of her session's own that is called as one of PostgreSQL's is, where a function that she may call goes on as its owner.
#[tokio::test]
async fn a_type_of_a_session_gets_no_rights_of_the_proxys_role() {
    let world = World::new(Protocol::Mope).await;
    let direct = world.application().await;
    let mallory = mallory(&world.server).await;
    let kinds = "CREATE TEMP TABLE hers (x bigint); CREATE FUNCTION pg_temp.noted(pg_catalog.text) RETURNS boolean LANGUAGE plpgsql AS \
                 $$ BEGIN PERFORM public.note(); RETURN true; END $$; \
                 CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (pg_temp.noted(value))";
    mallory.batch_execute(kinds).await.unwrap();
    let column = world.column.number();
    mallory.batch_execute(&format!("SELECT arras.mope_hold({column})")).await.unwrap();
    mallory.batch_execute(&format!("SELECT arras.mope_forget_place({column}, 'hers', 'x')")).await.unwrap();
    assert_eq!(gained(&direct).await, NOTHING);
}

/// Nor does the owner of the database, by what names mean in it.
#[tokio::test]
async fn a_search_path_gets_no_rights_of_the_proxys_role() {
    let world = World::new(Protocol::Mope).await;
    let direct = world.application().await;
    let mallory = mallory(&world.server).await;
    let mut model = Model::store(&world.tables(), &[("a", 10), ("b", 11)]).await;
    world.insert(&direct, &["a", "b"]).await;
    let operators = "CREATE SCHEMA hers; CREATE FUNCTION hers.same(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS \
                     $$ BEGIN PERFORM public.note(); RETURN $1 OPERATOR(pg_catalog.=) $2; END $$; \
                     CREATE OPERATOR hers.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hers.same); \
                     CREATE FUNCTION hers.joined(name, text) RETURNS text LANGUAGE plpgsql AS \
                     $$ BEGIN PERFORM public.note(); RETURN pg_catalog.textcat($1::text, $2); END $$; \
                     CREATE OPERATOR hers.|| (LEFTARG = name, RIGHTARG = text, FUNCTION = hers.joined); \
                     GRANT USAGE ON SCHEMA hers TO PUBLIC";
    mallory.batch_execute(operators).await.unwrap();
    direct.batch_execute("ALTER DATABASE postgres SET search_path = hers, pg_catalog, public").await.unwrap();
    let tables = world.tables_with(|_| ());
    assert!(tables.commit(model.change(vec![spread(10, 20, 100, 1)], &[], &[])).await.unwrap());
    tables.unused(Reach::All, 10).await.unwrap();
    let client = Connections::new(settings(&world.server)).open().await.unwrap();
    client.batch_execute(arras_postgres::shown::INSTALL).await.unwrap();
    client
        .batch_execute("INSERT INTO arras.shown_column VALUES ('public', 't', 'name', 25, -1)")
        .await
        .unwrap();
    client.batch_execute("SELECT * FROM arras.pg_attribute; SELECT * FROM arras.pg_class").await.unwrap();
    let examination = Examination::begin(client, world.column).await.unwrap();
    let looked = examination.contradictions().await;
    assert_eq!(gained(&direct).await, NOTHING);
    assert_eq!(looked.unwrap(), Vec::<String>::new());
}

/// Nor by the role that its sessions begin with, which code that runs as it may leave for the role that logged in.
#[tokio::test]
async fn a_role_of_the_databases_sessions_gets_no_rights_of_the_proxys_role() {
    let server = PrivatePostgres::start().unwrap();
    let mallory = mallory(&server).await;
    let direct = connect(server.port(), "postgres").await;
    direct.batch_execute("ALTER DATABASE postgres OWNER TO mallory").await.unwrap();
    let given = "ALTER DATABASE postgres SET role = mallory; CREATE TABLE m (l bigint); \
                 CREATE FUNCTION back() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN PERFORM pg_catalog.set_config('role', 'none', false); PERFORM public.note(); RETURN NEW; END $$; \
                 CREATE TRIGGER m BEFORE UPDATE ON m FOR EACH ROW EXECUTE FUNCTION back()";
    mallory.batch_execute(given).await.unwrap();
    let connections = Arc::new(Connections::new(settings(&server)));
    let mut client = connections.open().await.unwrap();
    install(&mut client).await.unwrap();
    let column = Column::from(COLUMN);
    register(&client, column, Protocol::Mope).await.unwrap();
    let named = store_in(&mallory, column, "m", "l").await;
    let tables = TreeTables::new(connections, column);
    let mut model = Model::store(&tables, &[("a", 10), ("b", 11)]).await;
    mallory.execute("INSERT INTO m (l) VALUES ($1)", &[&from_least(&model)]).await.unwrap();
    assert!(tables.commit(model.change(vec![spread(10, 20, 15, 1)], &[], &[])).await.unwrap());
    assert_eq!(gained(&direct).await, NOTHING);
    assert_eq!(named.unwrap_err().code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
}

/// A role that the one that logs in was told to be is the proxy's.
#[tokio::test]
async fn a_role_of_the_login_is_the_proxys_role() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(server.port(), "postgres").await;
    let roles = "CREATE ROLE owner; CREATE ROLE rotated LOGIN IN ROLE owner; ALTER ROLE rotated SET role = owner; \
                 GRANT CREATE ON DATABASE postgres TO owner; GRANT CREATE ON SCHEMA public TO owner";
    direct.batch_execute(roles).await.unwrap();
    let mut settings = settings(&server);
    settings.login.user("rotated");
    let mut client = Connections::new(settings).open().await.unwrap();
    install(&mut client).await.unwrap();
    let column = Column::from(COLUMN);
    register(&client, column, Protocol::Stope).await.unwrap();
    let rotated = connect(server.port(), "rotated").await;
    rotated.batch_execute("CREATE TABLE own (l bigint)").await.unwrap();
    store_in(&rotated, column, "own", "l").await.unwrap();
}

/// Tables of other databases store labels, too.
#[tokio::test]
async fn labels_of_a_foreign_table_change_and_are_looked_at() {
    let world = World::new(Protocol::Mope).await;
    let direct = world.application().await;
    let port = world.server.port();
    let far = format!(
        "CREATE EXTENSION postgres_fdw; CREATE TABLE kept (l bigint); CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw \
         OPTIONS (host '127.0.0.1', port '{port}', dbname 'postgres'); \
         CREATE USER MAPPING FOR postgres SERVER here OPTIONS (user 'postgres'); \
         CREATE FOREIGN TABLE far (l bigint) SERVER here OPTIONS (table_name 'kept')"
    );
    direct.batch_execute(&far).await.unwrap();
    store_in(&direct, world.column, "far", "l").await.unwrap();
    let mut model = Model::store(&world.tables(), &[("a", 10), ("b", 11)]).await;
    direct.execute("INSERT INTO kept VALUES ($1)", &[&from_least(&model)]).await.unwrap();
    change_and_look(&world, &mut model).await.unwrap();
    let kept: i64 = direct.query_one("SELECT l FROM kept", &[]).await.unwrap().get(0);
    assert_eq!(kept, from_least(&model));
}

/// Nor does who makes the schema before the proxy does.
#[tokio::test]
async fn who_made_the_schema_first_gets_no_rights_of_the_proxys_role() {
    let server = PrivatePostgres::start().unwrap();
    let mallory = mallory(&server).await;
    let direct = connect(server.port(), "postgres").await;
    let made = "CREATE SCHEMA arras; GRANT USAGE ON SCHEMA arras TO PUBLIC; \
                CREATE VIEW arras.installation AS SELECT note()::integer AS version";
    mallory.batch_execute(made).await.unwrap();
    let opened = Connections::new(settings(&server)).open().await;
    let installed = match opened {
        Ok(mut client) => install(&mut client).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    assert_eq!(gained(&direct).await, NOTHING);
    assert!(installed.unwrap_err().contains("mallory"));
}

const SCHEMA: &str = "[tables.\"public.p\"]\na = { id = \"91b6c0d2ee4f7a35\", type = \"text\" }\n";

/// Nor does who owns a table whose columns the proxy looks at.
#[tokio::test]
async fn a_look_at_a_table_gives_its_owner_no_rights_of_the_proxys_role() {
    let server = PrivatePostgres::start().unwrap();
    let mallory = mallory(&server).await;
    let direct = connect(server.port(), "postgres").await;
    let trap = "CREATE TABLE p (id int, a bytea); CREATE INDEX ON p (id) WHERE pure(1) = 0";
    mallory.batch_execute(trap).await.unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    assert_eq!(gained(&direct).await, NOTHING);
    let (_, said) = proxy.doctor(&server, "postgres", true);
    // What her code would do is refused in a transaction that reads, and that says that it ran.
    assert!(!said.contains("nextval") && said.contains("mallory"), "{said}");
}

/// Triggers of an owner who has the rights run, and find what they name where the proxy's role would.
#[tokio::test]
async fn triggers_of_an_owner_who_has_the_rights_run_when_labels_change() {
    let world = World::new(Protocol::Mope).await;
    let direct = world.application().await;
    let mut model = Model::store(&world.tables(), &[("a", 10), ("b", 11)]).await;
    world.insert(&direct, &["a", "b"]).await;
    let noted = "CREATE TABLE noted (was bigint); CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN INSERT INTO noted VALUES (OLD.label); RETURN NEW; END $$; \
                 CREATE TRIGGER notes BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION notes()";
    direct.batch_execute(noted).await.unwrap();
    assert!(world.tables().commit(model.change(vec![spread(10, 20, 100, 1)], &[], &[])).await.unwrap());
    let count: i64 = direct.query_one("SELECT count(*) FROM noted", &[]).await.unwrap().get(0);
    assert_eq!(count, 2);
}
