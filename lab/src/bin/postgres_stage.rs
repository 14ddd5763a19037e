//! What sessions of PostgreSQL's drivers run against: `postgres_stage SCHEMA` starts a private PostgreSQL with two databases
//! and `arras proxy` in front of one of them, as somebody would run them who trusts no network: log-in by SCRAM, TLS on every
//! connection, every certificate verified, a role that is no superuser.
//!
//! It prints `ready: {"plain": URL, "arras": URL}`, the database in plaintext and the encrypted one through the proxy, and
//! runs until its standard input ends or it is told to stop.
#![forbid(unsafe_code)]

use arras_keys::{Keyring, Unlock, create_key_file};
use arras_lab::private_postgres::{Options, PrivatePostgres};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::error::Error;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use tempfile::TempDir;

/// The application's password, as it is and as a URL has it.
const PASSWORD: (&str, &str) = ("a secret", "a%20secret");

/// Who comes in how: the application by its password and TLS only.
const ACCESS: &str = "local all postgres trust\nhostssl all app 127.0.0.1/32 scram-sha-256\n";

type Failure = Box<dyn Error + Send + Sync>;

/// An authority's certificate, and one of it for 127.0.0.1 with its key, in PEM.
struct Certificates {
    authority: String,
    own: String,
    key: String,
}

impl Certificates {
    fn make() -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::new([])?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let mut own = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        own.distinguished_name.push(DnType::CommonName, "localhost");
        let own = own.signed_by(&key, &authority)?;
        Ok(Self { authority: authority.as_ref().pem(), own: own.pem(), key: key.serialize_pem() })
    }
}

/// The proxy's process; killed when dropped.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // One that has ended is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All of it. The proxy goes first.
struct Stage {
    _proxy: Proxy,
    _server: PrivatePostgres,
    _folder: TempDir,
}

fn written(folder: &TempDir, name: &str, text: &str) -> Result<PathBuf, Failure> {
    let path = folder.path().join(name);
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(path)
}

/// What a statement returns, asked by the superuser.
fn query(server: &PrivatePostgres, statement: &str) -> Result<String, Failure> {
    let socket = format!("host={} port={} user=postgres", server.socket_folder().display(), server.port());
    let ran = server.command("psql").args(["-XAtqc", statement, &socket]).output()?;
    if !ran.status.success() {
        return Err(String::from_utf8_lossy(&ran.stderr).into_owned().into());
    }
    Ok(String::from_utf8(ran.stdout)?.trim().to_owned())
}

fn start_server(certificates: &Certificates) -> Result<PrivatePostgres, Failure> {
    let settings =
        [("fsync", "off"), ("ssl", "on"), ("ssl_cert_file", "own.pem"), ("ssl_key_file", "own.key")];
    Ok(PrivatePostgres::start_with(&Options {
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        access: Some(ACCESS.into()),
        files: vec![
            ("own.pem".into(), certificates.own.clone().into_bytes()),
            ("own.key".into(), certificates.key.clone().into_bytes()),
        ],
    })?)
}

/// How the application connects to a database at a port.
fn url(port: u16, database: &str, authority: &Path) -> String {
    let secret = PASSWORD.1;
    format!(
        "postgresql://app:{secret}@127.0.0.1:{port}/{database}?sslmode=verify-full&sslrootcert={}",
        authority.display()
    )
}

fn set_up(schema: &Path) -> Result<(Stage, String), Failure> {
    let certificates = Certificates::make()?;
    let server = start_server(&certificates)?;
    query(&server, &format!("CREATE ROLE app LOGIN PASSWORD '{}'", PASSWORD.0))?;
    for database in ["plain", "encrypted"] {
        query(&server, &format!("CREATE DATABASE {database} OWNER app"))?;
    }
    let verifier = query(&server, "SELECT rolpassword FROM pg_authid WHERE rolname = 'app'")?;
    let folder = tempfile::tempdir()?;
    let authority = written(&folder, "authority.pem", &certificates.authority)?;
    written(&folder, "own.pem", &certificates.own)?;
    written(&folder, "own.key", &certificates.key)?;
    let key_file = folder.path().join("keyring.key");
    create_key_file(&key_file)?;
    Keyring::create(&folder.path().join("keyring"), Unlock::KeyFile(key_file), 0)?;
    let upstream = url(server.port(), "encrypted", &authority);
    let configuration = format!(
        "[postgres]\nlisten = \"127.0.0.1:0\"\nupstream = \"{upstream}\"\nschema = \"{}\"\n\
         certificate = \"own.pem\"\nprivate_key = \"own.key\"\n\
         users = [{{ name = \"app\", verifier = \"{verifier}\" }}]\n\
         [keyring]\npath = \"keyring\"\nkey_file = \"keyring.key\"\n",
        std::path::absolute(schema)?.display()
    );
    let configuration = written(&folder, "arras.toml", &configuration)?;
    let (proxy, port) = start_proxy(&configuration)?;
    let plain = url(server.port(), "plain", &authority);
    let arras = url(port, "encrypted", &authority);
    let urls = serde_json::json!({ "plain": plain, "arras": arras }).to_string();
    Ok((Stage { _proxy: proxy, _server: server, _folder: folder }, urls))
}

/// Starts the proxy that is built beside this program; its port.
fn start_proxy(configuration: &Path) -> Result<(Proxy, u16), Failure> {
    let executable = std::env::current_exe()?.with_file_name("arras");
    let mut command = Command::new(&executable);
    command.args(["proxy", "--config"]).arg(configuration).env_remove("ARRAS_PASSPHRASE");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let child = child.map_err(|error| format!("{}: {error}", executable.display()))?;
    let mut proxy = Proxy(child);
    let output = proxy.0.stdout.take().ok_or("the proxy has no output")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let address = lines.find_map(|line| line.strip_prefix("listening on postgres://").map(str::to_owned));
    let address = address.ok_or("the proxy did not start; its log says why")?;
    let port = address.rsplit(':').next().unwrap_or_default().parse()?;
    Ok((proxy, port))
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(schema), None) = (arguments.next(), arguments.next()) else {
        return Err("usage: postgres_stage SCHEMA".into());
    };
    // Before anything runs that would be left behind.
    let (stop, stopped) = mpsc::channel();
    let signalled = stop.clone();
    ctrlc::set_handler(move || {
        let _ = signalled.send(());
    })?;
    let (stage, urls) = set_up(Path::new(&schema))?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ready: {urls}")?;
    stdout.flush()?;
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = stop.send(());
    });
    let _ = stopped.recv();
    drop(stage);
    Ok(())
}
