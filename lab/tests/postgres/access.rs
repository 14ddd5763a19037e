//! Who is let in, and how the wire is protected on both sides.

use crate::extended::connect;
use crate::proxy::{Proxy, outputs};
use arras_lab::private_postgres::{Options as Settings, PrivatePostgres};
use arras_postgres::{Acceptor, Access, Options, Upstream, Users};
use postgres_protocol::password::scram_sha_256;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

/// An authority's certificate, and a certificate of it with its key, in PEM.
struct Certificates {
    authority: String,
    own: String,
    key: String,
}

fn certificates(name: &str) -> Certificates {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut own = CertificateParams::new([name.to_owned()]).unwrap();
    own.distinguished_name.push(DnType::CommonName, name);
    let own = own.signed_by(&key, &authority).unwrap();
    Certificates { authority: authority.as_ref().pem(), own: own.pem(), key: key.serialize_pem() }
}

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    path
}

fn users() -> Users {
    let mut users = Users::default();
    assert!(users.add("postgres".into(), scram_sha_256(b"a secret").parse().unwrap()));
    users
}

#[tokio::test]
async fn a_password_lets_in_and_another_does_not() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::with(&server.uri("postgres"), Access::new(Some(users()), None), Options::default());
    let uri = |user: &str, password: &str| format!("postgres://{user}:{password}@{}/postgres", proxy.address);
    let client = connect(&uri("postgres", "a%20secret")).await;
    assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    for (user, password) in [("postgres", "wrong"), ("nobody", "a%20secret")] {
        let refused = tokio_postgres::connect(&uri(user, password), NoTls).await.err().unwrap();
        assert_eq!(refused.code(), Some(&SqlState::INVALID_PASSWORD), "{user}: {refused:?}");
    }
}

/// PostgreSQL's own client judges the proxy's certificate.
#[test]
fn psql_verifies_the_proxy() {
    let server = PrivatePostgres::start().unwrap();
    let folder = server.socket_folder().to_owned();
    let made = certificates("localhost");
    let own = written(&folder, "proxy.pem", &made.own);
    let key = written(&folder, "proxy.key", &made.key);
    let authority = written(&folder, "authority.pem", &made.authority);
    let other = written(&folder, "other.pem", &certificates("localhost").authority);
    let access = Access::new(Some(users()), Some(Acceptor::read(&own, &key).unwrap()));
    let proxy = Proxy::with(&server.uri("postgres"), access, Options::default());
    let psql = |parameters: String, statement: &str| {
        let mut psql = server.command("psql");
        let uri = format!("postgres://postgres@localhost:{}/postgres?{parameters}", proxy.address.port());
        // Nobody else's certificates.
        psql.env("HOME", &folder).env("PGPASSWORD", "a secret").args(["-XAtc", statement, &uri]);
        outputs(psql)
    };
    let verified = |authority: &Path| format!("sslmode=verify-full&sslrootcert={}", authority.display());
    let (ended, said, errors) = psql(verified(&authority), "SELECT 'let in'");
    assert!(ended && said.trim() == "let in", "{errors}");
    let (ended, _, errors) = psql(verified(&other), "SELECT 1");
    assert!(!ended && errors.contains("SSL error"), "{errors}");
    let (ended, said, errors) = psql("sslmode=disable".into(), "SELECT 'on this machine'");
    assert!(ended && said.trim() == "on this machine", "{errors}");
}

#[tokio::test]
async fn the_database_is_verified_unless_the_url_says_otherwise() {
    let made = certificates("localhost");
    let settings = [("ssl", "on"), ("ssl_cert_file", "own.pem"), ("ssl_key_file", "own.key")];
    let server = PrivatePostgres::start_with(&Settings {
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        access: Some("local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n".into()),
        files: vec![("own.pem".into(), made.own.into_bytes()), ("own.key".into(), made.key.into_bytes())],
    })
    .unwrap();
    let mut set = server.command("psql");
    let local = format!("host={} port={} user=postgres", server.socket_folder().display(), server.port());
    set.args([
        "-Xc",
        "SET password_encryption = 'scram-sha-256'; ALTER USER postgres PASSWORD 'up stream'",
        &local,
    ]);
    assert!(outputs(set).0);
    let folder = tempfile::tempdir().unwrap();
    let authority = written(folder.path(), "authority.pem", &made.authority);
    let other = written(folder.path(), "other.pem", &certificates("localhost").authority);
    let try_one = async |host: &str, parameters: String| {
        let upstream =
            format!("postgres://postgres:up%20stream@{host}:{}/postgres?{parameters}", server.port());
        let proxy = Proxy::with(&upstream, Access::new(None, None), Options::default());
        let (client, connection) = match tokio_postgres::connect(&proxy.uri("postgres"), NoTls).await {
            Ok(connected) => connected,
            Err(error) => return Err(error.code().unwrap().code().to_owned()),
        };
        tokio::spawn(connection);
        let asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        Ok(client.query_one(asked, &[]).await.unwrap().get::<_, bool>(0))
    };
    let with = |mode: &str, file: &Path| format!("sslmode={mode}&sslrootcert={}", file.display());
    assert_eq!(try_one("localhost", with("verify-full", &authority)).await, Ok(true));
    assert_eq!(try_one("localhost", format!("sslrootcert={}", authority.display())).await, Ok(true));
    assert_eq!(
        try_one("127.0.0.1", with("verify-full", &authority)).await,
        Err("08001".into()),
        "another name"
    );
    assert_eq!(try_one("127.0.0.1", with("verify-ca", &authority)).await, Ok(true));
    assert_eq!(
        try_one("localhost", with("verify-ca", &other)).await,
        Err("08001".into()),
        "another authority"
    );
    assert_eq!(try_one("localhost", "sslmode=require".into()).await, Ok(true));
    // It lets nobody in without TLS: the proxy is told so, and tells no more than that.
    assert_eq!(try_one("localhost", "sslmode=disable".into()).await, Err("08004".into()));
    assert!(Upstream::parse("postgres://db.example/x?sslmode=prefer", None).is_err());
}

/// Each way in which a database asks for a password, of the right one and of another.
#[tokio::test]
async fn the_database_may_ask_for_its_password_in_each_way() {
    for (method, encryption) in
        [("md5", "md5"), ("password", "md5"), ("password", "scram-sha-256"), ("md5", "scram-sha-256")]
    {
        let server = PrivatePostgres::start_with(&Settings {
            settings: vec![("password_encryption".into(), encryption.into())],
            access: Some(format!("local all all trust\nhost all all 127.0.0.1/32 {method}\n")),
            files: Vec::new(),
        })
        .unwrap();
        let mut set = server.command("psql");
        let local = format!("host={} port={} user=postgres", server.socket_folder().display(), server.port());
        set.args(["-Xc", "ALTER USER postgres PASSWORD 'up stream'", &local]);
        assert!(outputs(set).0);
        for (password, code) in [("up%20stream", None), ("down", Some("08004")), ("", Some("08001"))] {
            let upstream = format!("postgres://postgres:{password}@127.0.0.1:{}/postgres", server.port());
            let upstream = upstream.replace(":@", "@");
            let proxy = Proxy::with(&upstream, Access::new(None, None), Options::default());
            let connected = tokio_postgres::connect(&proxy.uri("postgres"), NoTls).await;
            let found = connected.as_ref().err().map(|error| error.code().unwrap().code().to_owned());
            assert_eq!(found.as_deref(), code, "{method}, stored as {encryption}: {password:?}");
        }
    }
}

/// A connection that says nothing is closed after its time, and few are waited for at a time.
#[test]
fn who_does_not_say_who_it_is_does_not_stay() {
    let server = PrivatePostgres::start().unwrap();
    let uri = server.uri("postgres");
    let options = Options { opening: std::time::Duration::from_millis(50), ..Options::default() };
    let proxy = Proxy::with(&uri, Access::new(None, None), options);
    let mut answer = Vec::new();
    for said in [&b""[..], &[0, 0, 0, 80], &[0, 0, 0, 8, 4, 210, 22, 47]] {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        stream.write_all(said).unwrap();
        stream.read_to_end(&mut answer).unwrap();
    }
    // Asked for TLS, the proxy has said that it has none.
    assert_eq!(answer, b"N");
    let hour = std::time::Duration::from_secs(3600);
    let options = Options { opening: hour, opening_max: 2, ..Options::default() };
    let proxy = Proxy::with(&uri, Access::new(None, None), options);
    let waiting = [(); 2].map(|()| {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        // Its answer says that the proxy waits for more.
        stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream
    });
    // A newcomer takes the place of the oldest.
    assert!(matches!(try_startup(&proxy), Some(b'R')));
    let [mut oldest, mut other] = waiting;
    assert_eq!(oldest.read(&mut [0]).unwrap(), 0);
    other.set_nonblocking(true).unwrap();
    assert_eq!(other.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

fn try_startup(proxy: &Proxy) -> Option<u8> {
    let mut stream = TcpStream::connect(proxy.address).ok()?;
    let mut begin = bytes::BytesMut::new();
    postgres_protocol::message::frontend::startup_message([("user", "postgres")], &mut begin).ok()?;
    stream.write_all(&begin).ok()?;
    let mut first = [0];
    stream.read_exact(&mut first).ok()?;
    Some(first[0])
}

/// Bytes that no client of PostgreSQL sends.
#[test]
fn what_does_not_speak_the_protocol_is_cut_off() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let bytes: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0, 0, 0, 7, 0, 3, 0],
        &[0xff; 16],
        &[0, 0, 0, 9, 0, 3, 0, 0, b'u'],
        &[0, 0, 0, 8, 0, 9, 0, 0],
    ];
    for bytes in bytes {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // Closed, with or without a word.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer[0] == b'E', "{answer:?}");
    }
    // A message of an impossible length, within a session.
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    let mut begin = bytes::BytesMut::new();
    postgres_protocol::message::frontend::startup_message([("user", "postgres")], &mut begin).unwrap();
    begin.extend_from_slice(b"Q\0\0\0\x03");
    stream.write_all(&begin).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("FATAL\0C08P01\0"), "{answer:?}");
}
