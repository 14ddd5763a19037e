//! Certificates that are renewed while both sides run.

use crate::world::*;
use arras_certificates::{Certificate, DAY_SECONDS, Looked, Reloading, ending};
use arras_protocol::Channel;
use arras_proxy::certificates::{self, CERTIFICATE_LIFETIME, Wish};
use arras_proxy::connection::tls::{self, CertificatePaths};
use arras_proxy::connection::{ConnectError, Connection, Settings};
use rustls::{ClientConfig, ServerConfig};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Longer ago than any certificate lasts, and not as long as an authority does.
fn long_ago() -> u64 {
    now() - CERTIFICATE_LIFETIME.as_secs() - 1
}

fn renew(world: &World, wish: Wish) {
    certificates::renew(&world.proxy, &world.server, wish, now()).unwrap();
}

fn proxy_tls(world: &World) -> Reloading<ClientConfig> {
    tls::reloading(&CertificatePaths::in_directory(&world.proxy)).unwrap()
}

async fn connect(served: &Served, tls: &Reloading<ClientConfig>) -> Result<Connection, ConnectError> {
    let mut settings = Settings::new(served.address.to_string(), tls.clone());
    (settings.deadline, settings.connect) = (AMPLE, AMPLE);
    Connection::open(settings).await
}

async fn call(connection: &Connection) {
    Channel::<Script>::call(connection, ask(1)).await.unwrap();
}

/// The serial number of the certificate in a file.
fn serial(path: &Path) -> String {
    Certificate::read_all(path).unwrap()[0].serial.clone()
}

/// The serial numbers of the certificates that server and proxy show each other in a new handshake.
async fn shown(
    server: &Reloading<ServerConfig>,
    proxy: &Reloading<ClientConfig>,
) -> std::io::Result<(String, String)> {
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(server.current());
    let accepted = tokio::spawn(async move {
        let (stream, _) = tcp.accept().await?;
        acceptor.accept(stream).await
    });
    let client = raw(address, proxy.current()).await?;
    let server = accepted.await.unwrap()?;
    let serial = |certificates: Option<&[rustls::pki_types::CertificateDer<'static>]>| {
        Certificate::from_der(&certificates.unwrap()[0]).unwrap().serial
    };
    Ok((serial(client.get_ref().1.peer_certificates()), serial(server.get_ref().1.peer_certificates())))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_handshake_uses_renewed_certificates_and_standing_connections_go_on() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let (served, server) = world.serve_reloading(&handler).await;
    let proxy = proxy_tls(&world);
    let standing = connect(&served, &proxy).await.unwrap();
    call(&standing).await;
    let files = (world.server.join("server.pem"), world.proxy.join("proxy.pem"));
    let old = (serial(&files.0), serial(&files.1));
    assert_eq!(shown(&server, &proxy).await.unwrap(), old);
    assert_eq!((server.look(false), proxy.look(false)), (Looked::Same, Looked::Same));

    renew(&world, Wish::Renew);
    let new = (serial(&files.0), serial(&files.1));
    assert!(old.0 != new.0 && old.1 != new.1);
    assert_eq!(shown(&server, &proxy).await.unwrap(), old, "nobody has looked yet");
    assert_eq!(server.look(false), Looked::Loaded);
    assert_eq!(shown(&server, &proxy).await.unwrap(), (new.0.clone(), old.1), "one after the other");
    assert_eq!(proxy.look(false), Looked::Loaded);
    assert_eq!(shown(&server, &proxy).await.unwrap(), new);
    call(&standing).await;
    call(&connect(&served, &proxy).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_whose_server_was_shut_out_by_time_comes_back_without_a_restart() {
    // Both have ended: a connection is refused, and after the renewal the very same listener takes it.
    let (world, handler) = (World::made_at(long_ago()), Arc::new(Scripted::new(1)));
    let (served, server) = world.serve_reloading(&handler).await;
    let proxy = proxy_tls(&world);
    let refused = connect(&served, &proxy).await.unwrap_err().to_string();
    assert!(refused.contains("has expired") && refused.contains("arras certificates renew"), "{refused}");
    renew(&world, Wish::Renew);
    assert_eq!((server.look(false), proxy.look(false)), (Looked::Loaded, Looked::Loaded));
    call(&connect(&served, &proxy).await.unwrap()).await;
}

/// What is wrong, and the files that are put in place for it.
type Way = (String, Vec<(String, Vec<u8>)>);

/// Every way in which files may be found that cannot be used, each put in place of `files` of one side; what each is must
/// leave the certificates of before in force.
fn unusable(world: &World, directory: &Path, names: [&str; 3]) -> Vec<Way> {
    let read = |name: &str| fs::read(directory.join(name)).unwrap();
    let mut ways = Vec::new();
    for name in names {
        let whole = read(name);
        ways.push((format!("{name} is empty"), vec![(name.to_owned(), Vec::new())]));
        ways.push((format!("{name} is cut"), vec![(name.to_owned(), whole[..whole.len() / 2].to_vec())]));
        ways.push((format!("{name} is something else"), vec![(name.to_owned(), b"hello".to_vec())]));
    }
    let [_, certificate, private] = names;
    let (other, old) = (World::new(), World::made_at(long_ago()));
    for (which, from) in [("another deployment's", &other), ("an ended", &old)] {
        let from = from.proxy.parent().unwrap().join(directory.file_name().unwrap());
        let taken = [certificate, private].map(|name| (name.to_owned(), fs::read(from.join(name)).unwrap()));
        ways.push((format!("{which} certificate"), taken.to_vec()));
        ways.push((format!("the key of {which} certificate"), taken[1..].to_vec()));
    }
    let side = if directory == world.proxy { &world.server } else { &world.proxy };
    let names_there =
        if directory == world.proxy { ["server.pem", "server.key"] } else { ["proxy.pem", "proxy.key"] };
    let theirs = names_there.map(|name| fs::read(side.join(name)).unwrap());
    let swapped = [certificate, private].into_iter().map(str::to_owned).zip(theirs).collect();
    ways.push(("the other side's certificate".into(), swapped));
    ways
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_change_nothing_until_they_can() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let (served, server) = world.serve_reloading(&handler).await;
    let proxy = proxy_tls(&world);
    let sides = [
        (&world.server, ["ca.pem", "server.pem", "server.key"]),
        (&world.proxy, ["ca.pem", "proxy.pem", "proxy.key"]),
    ];
    for (directory, names) in sides {
        let look = || if *directory == world.server { server.look(false) } else { proxy.look(false) };
        let good: Vec<_> = names.map(|name| (name, fs::read(directory.join(name)).unwrap())).to_vec();
        for (way, files) in unusable(&world, directory, names) {
            let before = shown(&server, &proxy).await.unwrap();
            for (name, bytes) in &files {
                fs::write(directory.join(name), bytes).unwrap();
            }
            assert!(matches!(look(), Looked::Kept { news: true, .. }), "{way}");
            assert!(matches!(look(), Looked::Kept { news: false, .. }), "{way}: said once");
            assert_eq!(shown(&server, &proxy).await.unwrap(), before, "{way}");
            call(&connect(&served, &proxy).await.unwrap()).await;
            for (name, bytes) in &good {
                fs::write(directory.join(name), bytes).unwrap();
            }
            assert_eq!(look(), Looked::Loaded, "{way}: mended");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_vanished_changes_nothing_and_one_that_others_may_read_is_not_taken() {
    use std::os::unix::fs::PermissionsExt;
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let (served, server) = world.serve_reloading(&handler).await;
    let proxy = proxy_tls(&world);
    let key = world.server.join("server.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(server.look(false), Looked::Kept { what, .. } if what.contains("chmod 600")));
    fs::rename(&key, key.with_extension("away")).unwrap();
    assert!(matches!(server.look(false), Looked::Kept { news: true, .. }));
    call(&connect(&served, &proxy).await.unwrap()).await;
}

/// A new authority while both run: at every step each side accepts the other, whichever has its new files.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_authority_takes_the_old_ones_place_without_a_moment_of_refusal() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    // What the server's machine has is a copy that somebody must bring up to date.
    let there = World::new();
    let carry = || {
        for name in ["ca.pem", "server.pem", "server.key"] {
            fs::copy(world.server.join(name), there.server.join(name)).unwrap();
        }
    };
    carry();
    let (served, server) = there.serve_reloading(&handler).await;
    let proxy = proxy_tls(&world);
    let standing = connect(&served, &proxy).await.unwrap();
    let names = |directory: &Path| Certificate::read_all(&directory.join("ca.pem")).unwrap().len();
    let old = (serial(&there.server.join("server.pem")), serial(&world.proxy.join("proxy.pem")));
    fs::remove_file(world.proxy.join("ca.key")).unwrap();

    let lost = certificates::renew(&world.proxy, &world.server, Wish::Renew, now()).unwrap_err().to_string();
    assert!(lost.contains("ca.key") && lost.contains("--new-authority"), "{lost}");
    renew(&world, Wish::NewAuthority);
    assert_eq!(proxy.look(false), Looked::Loaded);
    assert_eq!((server.look(false), names(&world.proxy)), (Looked::Same, 2));
    assert_eq!(shown(&server, &proxy).await.unwrap(), old, "the server knows the old authority only");
    call(&connect(&served, &proxy).await.unwrap()).await;

    carry();
    assert_eq!(server.look(false), Looked::Loaded);
    let new = (serial(&world.server.join("server.pem")), serial(&world.proxy.join("proxy.pem")));
    assert_eq!(shown(&server, &proxy).await.unwrap(), new, "it knows both: the new one is shown");
    call(&connect(&served, &proxy).await.unwrap()).await;

    renew(&world, Wish::Finish);
    carry();
    assert_eq!((server.look(false), proxy.look(false)), (Looked::Loaded, Looked::Loaded));
    assert_eq!((names(&world.proxy), names(&there.server)), (1, 1));
    assert_eq!(shown(&server, &proxy).await.unwrap(), new);
    call(&connect(&served, &proxy).await.unwrap()).await;
    call(&standing).await;
    // And the new authority renews as the old one did.
    renew(&world, Wish::Renew);
    carry();
    assert_eq!((server.look(false), proxy.look(false)), (Looked::Loaded, Looked::Loaded));
    call(&connect(&served, &proxy).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_would_end_before_what_it_signs_is_replaced_unasked() {
    let made = now() - certificates::AUTHORITY_LIFETIME.as_secs() + CERTIFICATE_LIFETIME.as_secs() / 2;
    let (world, handler) = (World::made_at(made), Arc::new(Scripted::new(1)));
    let done = certificates::renew(&world.proxy, &world.server, Wish::Renew, now()).unwrap();
    assert!(done.overlap_until.is_some());
    assert_eq!(Certificate::read_all(&world.proxy.join("ca.pem")).unwrap().len(), 2);
    for file in [world.proxy.join("proxy.pem"), world.server.join("server.pem")] {
        let own = &Certificate::read_all(&file).unwrap()[0];
        let signer = &Certificate::read_all(&world.proxy.join("ca.pem")).unwrap()[0];
        assert!(own.issuer_name == signer.subject_name && own.until <= signer.until);
    }
    let (served, _) = world.serve_reloading(&handler).await;
    call(&world.connect(&served).await).await;
}

#[test]
fn ends_are_warned_of_from_thirty_days_before() {
    let made = now();
    let world = World::made_at(made);
    let files = [world.proxy.join("ca.pem"), world.proxy.join("proxy.pem"), world.server.join("server.pem")];
    let end = made + CERTIFICATE_LIFETIME.as_secs();
    let at = |clock: u64| ending(&files, clock);
    assert_eq!(at(made), Vec::<String>::new());
    assert_eq!(at(end - 30 * DAY_SECONDS), Vec::<String>::new());
    let lines = at(end - 30 * DAY_SECONDS + 1);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("proxy.pem") && lines[1].contains("server.pem"), "{lines:?}");
    for line in lines {
        assert!(line.contains("ends in 29 days") && line.contains("arras certificates renew"), "{line}");
    }
    assert!(at(end + 1).iter().all(|line| line.contains("ended on")) && at(end + 1).len() == 2);
    let authority_end = made + certificates::AUTHORITY_LIFETIME.as_secs();
    assert_eq!(at(authority_end - DAY_SECONDS).len(), 3);
}
