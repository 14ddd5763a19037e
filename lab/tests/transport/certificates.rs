//! Who gets in: both sides' verdict on each other's certificates, and what they say.

use crate::world::*;
use arras_protocol::hello::SERVER_NAME;
use arras_protocol::{Channel, ChannelError};
use arras_proxy::certificates::{self, CERTIFICATE_LIFETIME, Wish};
use arras_proxy::connection::{ConnectError, Connection};
use arras_server::listener::Limits;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A client that trusts `world`'s authority and shows the certificate in these two files, or none.
fn client(world: &World, shown: Option<(&Path, &Path)>) -> Arc<ClientConfig> {
    let mut authority = RootCertStore::empty();
    authority.add(CertificateDer::from_pem_file(world.proxy.join("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(authority);
    Arc::new(match shown {
        None => builder.with_no_client_auth(),
        Some((certificate, private)) => {
            let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(private).unwrap()).unwrap()
        }
    })
}

/// Signs a certificate of `world`'s authority with another name or purpose.
fn signed_by(world: &World, name: &str, purpose: ExtendedKeyUsagePurpose) -> (String, String) {
    let authority = KeyPair::from_pem(&fs::read_to_string(world.proxy.join("ca.key")).unwrap()).unwrap();
    let mut issuer = CertificateParams::default();
    issuer.distinguished_name = rcgen::DistinguishedName::new();
    issuer.distinguished_name.push(rcgen::DnType::CommonName, "Arras deployment");
    let issuer = Issuer::new(issuer, authority);
    let private = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.extended_key_usages = vec![purpose];
    (params.signed_by(&private, &issuer).unwrap().pem(), private.serialize_pem())
}

/// Tries to say hello; the server must close without a reply and log `words`.
async fn turned_away(served: &Served, handler: &Scripted, tls: Arc<ClientConfig>, words: &str) {
    use tokio::io::AsyncWriteExt;
    let tcp = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let peer = tcp.local_addr().unwrap();
    let connector = tokio_rustls::TlsConnector::from(tls);
    // In TLS 1.3 the client's side of the handshake ends before the server has judged its certificate.
    if let Ok(mut stream) = connector.connect(SERVER_NAME.try_into().unwrap(), tcp).await {
        let _ = stream.write_all(&hello_frame()).await;
        let _ = stream.flush().await;
        assert_eq!(read_to_close(&mut stream).await, b"");
    }
    logged_about(peer, words).await;
    assert_eq!(handler.greetings.load(Ordering::SeqCst), 0);
}

/// Why the proxy cannot connect: the words of a [`ConnectError::Tls`].
async fn refused_by_tls(world: &World, served: &Served) -> String {
    match Connection::open(world.settings(served.address)).await {
        Err(ConnectError::Tls { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_certificate() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    turned_away(&served, &handler, client(&world, None), "showed no certificate").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_another_authority() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let other = World::new();
    let shown = (other.proxy.join("proxy.pem"), other.proxy.join("proxy.key"));
    let tls = client(&world, Some((&shown.0, &shown.1)));
    turned_away(&served, &handler, tls, "another certificate authority").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_certificate_does_not_make_a_client() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let shown = (world.server.join("server.pem"), world.server.join("server.key"));
    turned_away(&served, &handler, client(&world, Some((&shown.0, &shown.1))), "not made for clients").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_authority_with_another_name() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let shown = (world.proxy.join("other.pem"), world.proxy.join("other.key"));
    let signing = |name| {
        let (certificate, private) = signed_by(&world, name, ExtendedKeyUsagePurpose::ClientAuth);
        fs::write(&shown.0, certificate).unwrap();
        fs::write(&shown.1, private).unwrap();
        client(&world, Some((&shown.0, &shown.1)))
    };
    for name in ["arras-proxy.example", "someone", SERVER_NAME] {
        turned_away(&served, &handler, signing(name), "not for the name arras-proxy").await;
    }
    // The signing above is good: with the right name it gets in.
    let mut stream = raw(served.address, signing("arras-proxy")).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, &hello_frame()).await.unwrap();
    read_frame(&mut stream).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_authority() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let other = World::new();
    let what = refused_by_tls(&other, &served).await;
    assert!(what.contains("another certificate authority") && what.contains("arras init"), "{what}");
    until(|| log().contains("the client does not accept this server's certificate")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxys_own_certificate_does_not_make_a_server() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    fs::copy(world.proxy.join("proxy.pem"), world.server.join("server.pem")).unwrap();
    fs::copy(world.proxy.join("proxy.key"), world.server.join("server.key")).unwrap();
    let served = world.serve(&handler, Limits::default()).await;
    let what = refused_by_tls(&world, &served).await;
    assert!(what.contains("not that of arras-server"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_certificates_are_named_and_renewal_mends_them() {
    // Long enough ago that the certificates have expired, and the authority has not.
    let world = World::made_at(now() - CERTIFICATE_LIFETIME.as_secs() - 1);
    let handler = Arc::new(Scripted::new(1));
    let served = world.serve(&handler, Limits::default()).await;
    let what = refused_by_tls(&world, &served).await;
    assert!(what.contains("the server's certificate has expired"), "{what}");
    served.kill().await;

    let expired = (world.proxy.join("old.pem"), world.proxy.join("old.key"));
    fs::copy(world.proxy.join("proxy.pem"), &expired.0).unwrap();
    fs::copy(world.proxy.join("proxy.key"), &expired.1).unwrap();
    certificates::renew(&world.proxy, &world.server, Wish::Renew, now()).unwrap();
    let served = world.serve(&handler, Limits::default()).await;
    let tls = client(&world, Some((&expired.0, &expired.1)));
    turned_away(&served, &handler, tls, "the client's certificate has expired").await;

    let connection = world.connect(&served).await;
    Channel::<Script>::call(&connection, ask(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_is_told_what_the_server_thinks_of_its_certificate() {
    let (world, handler) = (World::made_at(now() - CERTIFICATE_LIFETIME.as_secs() - 1), Scripted::new(1));
    let old =
        (fs::read(world.proxy.join("proxy.pem")).unwrap(), fs::read(world.proxy.join("proxy.key")).unwrap());
    certificates::renew(&world.proxy, &world.server, Wish::Renew, now()).unwrap();
    let served = world.serve(&Arc::new(handler), Limits::default()).await;
    let connection = world.connect(&served).await;

    fs::write(world.proxy.join("proxy.pem"), old.0).unwrap();
    fs::write(world.proxy.join("proxy.key"), old.1).unwrap();
    let what = refused_by_tls(&world, &served).await;
    assert!(what.contains("this proxy's certificate has expired"), "{what}");

    let other = World::new();
    for file in ["proxy.pem", "proxy.key"] {
        fs::copy(other.proxy.join(file), world.proxy.join(file)).unwrap();
    }
    let what = refused_by_tls(&world, &served).await;
    assert!(what.contains("does not accept this proxy's certificate"), "{what}");

    // A connection that stands is not touched.
    let answered: Result<Answer, ChannelError> = Channel::<Script>::call(&connection, ask(1)).await;
    answered.unwrap();
}
