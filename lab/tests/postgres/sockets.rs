//! Sockets in folders of the machine: applications come to the proxy by one, and the proxy to its database.

use crate::dev::executable;
use crate::proxy::{Proxy, outputs};
use arras_lab::private_postgres::{PrivatePostgres, programs};
use arras_postgres::{Access, Options, Users};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getuid};
use postgres_protocol::password::scram_sha_256;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

const SCHEMA: &str = "[tables.\"public.accounts\"]\n\
    owner = { id = \"7a1b2c3d4e5f7021\", type = \"text\", operations = [\"equality\", \"order\"], max_bytes = 20 }\n";

/// The arguments of a proxy for development.
fn dev<'a>(place: &'a str, of_server: &'a str, schema: &'a str, data: &'a str) -> [&'a str; 10] {
    ["postgres", "dev", "--listen", place, "--upstream", of_server, "--schema", schema, "--data-dir", data]
}

/// A proxy as a process; killed when dropped.
struct Process {
    child: Child,
    /// The places that it says it listens at.
    places: Vec<String>,
}

impl Process {
    /// Starts one that listens at so many places; what it says if it does not start.
    fn start(arguments: &[&str], places: usize) -> Result<Self, String> {
        let mut command = Command::new(executable("arras"));
        command.args(arguments).env_remove("ARRAS_PASSPHRASE").env("RUST_LOG", "warn");
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let place = |line: String| line.strip_prefix("listening on postgres://").map(str::to_owned);
        let places_said: Vec<String> = lines.filter_map(place).take(places).collect();
        if places_said.len() < places {
            let run = child.wait_with_output().unwrap();
            return Err(String::from_utf8(run.stderr).unwrap());
        }
        Ok(Self { child, places: places_said })
    }

    fn end(mut self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The upstream by its own socket, in keywords and values.
fn upstream(server: &PrivatePostgres) -> String {
    format!("host={} port={} user=postgres dbname=postgres", server.socket_folder().display(), server.port())
}

/// psql as this user, whom the proxy lets in.
fn psql(parts: &[&str]) -> (bool, String, String) {
    let mut psql = Command::new(programs().unwrap().join("psql"));
    psql.env_clear().args(["-XAtq", "-v", "ON_ERROR_STOP=1"]).args(parts);
    outputs(psql)
}

async fn connect(folder: &Path, port: u16, user: &str) -> Result<Client, tokio_postgres::Error> {
    let parameters = format!("host={} port={port} user={user} dbname=postgres", folder.display());
    let (client, connection) = tokio_postgres::connect(&parameters, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn psql_comes_by_a_folder_and_by_an_address_and_the_proxy_by_a_folder_to_its_database() {
    let (server, folder) = (PrivatePostgres::start().unwrap(), folder());
    let run = folder.path().join("run");
    let (place, of_server) = (format!("{}:5433", run.display()), upstream(&server));
    let both = ["proxy", "--postgres", "127.0.0.1:0", "--postgres", &place, "--upstream", &of_server];
    let process = Process::start(&both, 2).unwrap();
    let where_from = "SELECT inet_server_addr() IS NULL";
    let by_folder = psql(&["-h", run.to_str().unwrap(), "-p", "5433", "-U", "postgres", "-c", where_from]);
    assert_eq!(by_folder, (true, "t\n".into(), String::new()));
    for place in &process.places {
        let uri = format!("postgres://postgres@{place}/postgres");
        assert_eq!(psql(&["-c", where_from, &uri]), (true, "t\n".into(), String::new()), "{uri}");
    }
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&run), mode(&run.join(".s.PGSQL.5433"))), (0o700, 0o600));
    process.end(Signal::SIGTERM);
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 0, "it leaves nothing");
}

#[tokio::test]
async fn a_socket_that_a_killed_proxy_left_is_replaced_and_one_in_use_is_refused() {
    let (server, folder) = (PrivatePostgres::start().unwrap(), folder());
    let (place, of_server) = (format!("{}:5433", folder.path().display()), upstream(&server));
    let arguments = ["proxy", "--postgres", &place, "--upstream", &of_server];
    Process::start(&arguments, 1).unwrap().end(Signal::SIGKILL);
    assert!(folder.path().join(".s.PGSQL.5433").exists(), "it was left behind");
    let _process = Process::start(&arguments, 1).unwrap();
    let client = connect(folder.path(), 5433, "postgres").await.unwrap();
    let refused = Process::start(&arguments, 1).err().expect("another has it");
    assert!(refused.contains("a process that runs has the socket"), "{refused}");
    // The database's own socket is in use, too.
    let taken = format!("{}:{}", server.socket_folder().display(), server.port());
    let refused = Process::start(&["proxy", "--postgres", &taken, "--upstream", &of_server], 1);
    let refused = refused.err().expect("PostgreSQL has it");
    assert!(refused.contains("a process that runs has the socket"), "{refused}");
    for client in [client, connect(folder.path(), 5433, "postgres").await.unwrap()] {
        assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    }
}

#[tokio::test]
async fn encrypted_columns_cancels_and_limits_are_as_by_tcp() {
    let (server, folder) = (PrivatePostgres::start().unwrap(), folder());
    std::fs::write(folder.path().join("schema.toml"), SCHEMA).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (place, of_server) = (format!("{}/.s.PGSQL.5433", folder.path().display()), upstream(&server));
    let (schema, data) = (path("schema.toml"), path("data"));
    let dev = dev(&place, &of_server, &schema, &data);
    let process = Process::start(&dev, 1).unwrap();
    let client = connect(folder.path(), 5433, "postgres").await.unwrap();
    client.batch_execute("CREATE TABLE accounts (id int, owner text)").await.unwrap();
    client.execute("INSERT INTO accounts VALUES (1, $1)", &[&"Ann"]).await.unwrap();
    let found = client.query_one("SELECT owner FROM accounts WHERE owner < $1", &[&"B"]).await.unwrap();
    assert_eq!(found.get::<_, String>(0), "Ann");
    // A request to cancel comes by the socket.
    let (cancel, direct) =
        (client.cancel_token(), connect(server.socket_folder(), server.port(), "postgres"));
    let direct = direct.await.unwrap();
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let (slept, ()) = tokio::join!(client.simple_query("SELECT pg_sleep(600)"), async {
        while direct.query_one(sleeping, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        cancel.cancel_query(NoTls).await.unwrap();
    });
    assert_eq!(slept.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
    drop(client);
    process.end(Signal::SIGTERM);
    // One more than there may be is told so.
    let limited = ["proxy", "--postgres", &place, "--upstream", &of_server, "--connections-max", "1"];
    let _process = Process::start(&limited, 1).unwrap();
    let first = connect(folder.path(), 5433, "postgres").await.unwrap();
    let second = connect(folder.path(), 5433, "postgres").await.err().unwrap();
    assert_eq!(second.code(), Some(&SqlState::TOO_MANY_CONNECTIONS));
    first.batch_execute("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn a_user_of_the_machine_is_let_in_as_the_user_that_it_is_named_for() {
    let (server, folder) = (PrivatePostgres::start().unwrap(), folder());
    let mut users = Users::default();
    assert!(users.add_peer("postgres".into(), getuid().as_raw()));
    assert!(!users.add_peer("postgres".into(), getuid().as_raw()), "named twice");
    assert!(users.add_peer("stranger".into(), getuid().as_raw() + 1));
    assert!(users.add("stranger".into(), scram_sha_256(b"a secret").parse().unwrap()));
    let access = Access::new(Some(users), None);
    let proxy = Proxy::in_folder(&upstream(&server), access, Options::default(), folder.path(), 5433);
    let client = connect(folder.path(), 5433, "postgres").await.unwrap();
    assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    for other in ["stranger", "nobody"] {
        let refused = connect(folder.path(), 5433, other).await.err().unwrap();
        assert!(
            refused.code().is_none_or(|code| *code == SqlState::INVALID_PASSWORD),
            "{other}: {refused:?}"
        );
    }
    // The port of an address is no socket of the machine: who comes there is nobody's peer.
    let by_tcp = format!("postgres://postgres@{}/postgres", proxy.address);
    assert!(tokio_postgres::connect(&by_tcp, NoTls).await.is_err());
}

#[test]
fn others_are_not_let_in_unless_users_are_named() {
    let (server, folder) = (PrivatePostgres::start().unwrap(), folder());
    let configuration = folder.path().join("arras.toml");
    std::fs::write(folder.path().join("schema.toml"), SCHEMA).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (schema, data, of_server) = (path("schema.toml"), path("data"), upstream(&server));
    let place = format!("{}:5433", folder.path().display());
    let dev = dev(&place, &of_server, &schema, &data);
    Process::start(&dev, 1).unwrap().end(Signal::SIGTERM);
    let text = |rest: &str| {
        format!(
            "[postgres]\nlisten = [\"127.0.0.1:0\", \"{place}\"]\nupstream = \"{of_server}\"\nschema = \"schema.toml\"\n\
             heads = \"data/postgres-heads\"\nsocket_permissions = \"0666\"\n{rest}\
             [keyring]\npath = \"data/keyring\"\nkey_file = \"data/keyring.key\"\n"
        )
    };
    let config = ["proxy", "--config", configuration.to_str().unwrap()];
    std::fs::write(&configuration, text("")).unwrap();
    let refused = Process::start(&config, 2).err().expect("whoever comes would be let in");
    assert!(refused.contains("would be let in"), "{refused}");
    let own = nix::unistd::User::from_uid(getuid()).unwrap().unwrap().name;
    let user = format!("[[postgres.users]]\nname = \"postgres\"\npeer = \"{own}\"\n");
    std::fs::write(&configuration, text(&user)).unwrap();
    let _process = Process::start(&config, 2).unwrap();
    let socket = folder.path().join(".s.PGSQL.5433");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o666);
    let let_in =
        psql(&["-h", folder.path().to_str().unwrap(), "-p", "5433", "-U", "postgres", "-c", "SELECT 1"]);
    assert_eq!(let_in, (true, "1\n".into(), String::new()));
}
