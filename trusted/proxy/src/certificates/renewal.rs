//! New certificates in place of those that end.
//!
//! *Under the same authority* both sides go on working with what they have, so the two may be replaced one after the
//! other. *A new authority* takes three steps, at none of which a side refuses the other: this directory gets both
//! authorities and both of the proxy's certificates, of which it shows the one that the server accepts
//! ([`crate::connection::tls`]); the server is given its new files, which name both authorities too; and the old authority is
//! forgotten, by [`Wish::Finish`] or by a renewal after the proxy's old certificate has ended.
//!
//! *A crash* leaves each file with its old content or its new one. A key beside the certificate of another one is all that can
//! come of it: running processes go on with what they have, and renewing again in the same way mends it. Until the proxy's
//! new certificate is there, which is written last, its old one is also the one that was put aside: by that a new authority
//! that was not completed is known, and it is begun again.

use super::{
    AUTHORITY_NAME, CERTIFICATE_LIFETIME, CertificateError, Role, authority_params, io_error, issue, pem_of,
    replace,
};
use arras_certificates::{Certificate, date};
use arras_storage::private;
use rcgen::{Issuer, KeyPair, PublicKeyData};
use rustls::pki_types::CertificateDer;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// What the administrator asks of a renewal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// New certificates, under the authority that is there; under a new one if that would end before them.
    #[default]
    Renew,
    /// New certificates under a new authority.
    NewAuthority,
    /// No new certificates: the authority before is forgotten.
    Finish,
}

/// What a renewal has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Files that must be carried to the server's machine.
    pub carry: Vec<PathBuf>,
    /// A new authority was made. The old one is accepted beside it until it is forgotten; the proxy's certificate of it
    /// ends at this time (seconds since 1970), and the server must have its files by then.
    pub overlap_until: Option<u64>,
}

/// One authority in the file of authorities.
struct Authority {
    pem: String,
    certificate: Certificate,
}

/// The two directories, and the proxy's files of the authority before.
struct Places<'a> {
    proxy: &'a Path,
    server: &'a Path,
    former: [(PathBuf, PathBuf); 2],
}

impl<'a> Places<'a> {
    fn new(proxy: &'a Path, server: &'a Path) -> Self {
        let pair = |now: &str, then: &str| (proxy.join(now), proxy.join(then));
        // The key first: a certificate whose key is not there is no identity.
        let former = [pair("proxy.key", "proxy.former.key"), pair("proxy.pem", "proxy.former.pem")];
        Self { proxy, server, former }
    }

    fn authorities(&self) -> Result<Vec<Authority>, CertificateError> {
        let path = self.proxy.join("ca.pem");
        let certificates = Certificate::read_all(&path)?;
        let der = arras_transport::tls::certificates(&path)?;
        let paired = der.iter().zip(certificates);
        Ok(paired.map(|(der, certificate)| Authority { pem: pem_of_der(der), certificate }).collect())
    }

    /// The authority's key; `None` if there is no file.
    fn authority_key(&self) -> Result<Option<KeyPair>, CertificateError> {
        let path = self.proxy.join("ca.key");
        if !path.try_exists().map_err(io_error(&path))? {
            return Ok(None);
        }
        private::require_closed(&path).map_err(io_error(&path))?;
        let text = Zeroizing::new(fs::read_to_string(&path).map_err(io_error(&path))?);
        let key = KeyPair::from_pem(&text);
        key.map(Some).map_err(|error| CertificateError::Authority { path, what: error.to_string() })
    }

    /// Until when the certificate of the authority before lasts, if there is one.
    fn former_until(&self) -> Result<Option<u64>, CertificateError> {
        let [_, (_, certificate)] = &self.former;
        if !certificate.try_exists().map_err(io_error(certificate))? {
            return Ok(None);
        }
        Ok(Certificate::read_all(certificate)?.first().map(|first| first.until))
    }

    /// True if a new authority was begun, and the proxy has no certificate of it yet.
    fn is_interrupted(&self) -> Result<bool, CertificateError> {
        let [_, (now, then)] = &self.former;
        if !then.try_exists().map_err(io_error(then))? {
            return Ok(false);
        }
        let read = |path: &PathBuf| fs::read(path).map_err(io_error(path));
        Ok(read(now)? == read(then)?)
    }

    /// The authority that both sides' certificates are of, as far as they are in these directories.
    fn in_use<'p>(&self, authorities: &'p [Authority]) -> Result<&'p Authority, CertificateError> {
        let own = self.proxy.join(Role::Proxy.certificate_file());
        let failed = |what: &str| CertificateError::Authority { path: own.clone(), what: what.into() };
        if self.is_interrupted()? {
            return Err(failed("it is still of the authority before, as the new one was not completed"));
        }
        let issuer = |path: &Path| {
            let issuer = Certificate::read_all(path)?.into_iter().next().map(|first| first.issuer_name);
            Ok::<_, CertificateError>(issuer)
        };
        let proxys = issuer(&own)?;
        let found = authorities.iter().find(|it| Some(&it.certificate.subject_name) == proxys.as_ref());
        let found = found.ok_or_else(|| failed("it is of no authority in ca.pem"))?;
        let servers = self.server.join(Role::Server.certificate_file());
        if servers.try_exists().map_err(io_error(&servers))? && issuer(&servers)? != proxys {
            return Err(failed("it is of another authority than the server's"));
        }
        Ok(found)
    }

    /// Puts the proxy's certificate aside, to be shown to a server that knows the old authority only.
    fn set_former_aside(&self) -> Result<(), CertificateError> {
        for (now, then) in &self.former {
            let text = Zeroizing::new(fs::read_to_string(now).map_err(io_error(now))?);
            replace(then, &text)?;
        }
        Ok(())
    }

    /// Forgets the authority before: only this one is accepted from now on.
    fn forget_former(&self, authority: &Authority) -> Result<(), CertificateError> {
        replace(&self.proxy.join("ca.pem"), &authority.pem)?;
        for (_, then) in self.former.iter().rev() {
            match fs::remove_file(then) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(then)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes new certificates of both sides, and the authorities beside the server's.
    fn issue_both(&self, issuer: &Issuer<'_, KeyPair>, now: u64) -> Result<Vec<PathBuf>, CertificateError> {
        self.copy_authorities()?;
        for (role, directory) in [(Role::Server, self.server), (Role::Proxy, self.proxy)] {
            let (certificate, private) = issue(role, issuer, now)?;
            replace(&directory.join(role.private_file()), &private)?;
            replace(&directory.join(role.certificate_file()), &certificate)?;
        }
        Ok(["ca.pem", "server.pem", "server.key"].map(|name| self.server.join(name)).to_vec())
    }

    fn copy_authorities(&self) -> Result<PathBuf, CertificateError> {
        let path = self.proxy.join("ca.pem");
        let authorities = fs::read_to_string(&path).map_err(io_error(&path))?;
        private::make_directory(self.server).map_err(io_error(self.server))?;
        let copy = self.server.join("ca.pem");
        replace(&copy, &authorities)?;
        Ok(copy)
    }
}

/// Makes both certificates anew, with new keys, as `wish` says. `now` is in seconds since 1970.
///
/// # Errors
/// [`CertificateError`]; each file holds its old content or its new one, and renewing again completes it.
pub fn renew(
    proxy_directory: &Path,
    server_directory: &Path,
    wish: Wish,
    now: u64,
) -> Result<Renewed, CertificateError> {
    let places = Places::new(proxy_directory, server_directory);
    let authorities = places.authorities()?;
    let new_authority = |authorities| under_new_authority(&places, authorities, now);
    if wish == Wish::NewAuthority {
        return new_authority(&authorities);
    }
    if wish == Wish::Finish {
        // The authority's key may be elsewhere, or lost.
        places.forget_former(places.in_use(&authorities)?)?;
        return Ok(Renewed { carry: vec![places.copy_authorities()?], overlap_until: None });
    }
    let path = places.proxy.join("ca.key");
    let key = places.authority_key()?.ok_or_else(|| CertificateError::AuthorityAway(path.clone()))?;
    let public = key.subject_public_key_info();
    let current = authorities.iter().find(|authority| authority.certificate.public == public);
    let current = current.ok_or_else(|| {
        let what = "it is not the key of an authority in ca.pem".into();
        CertificateError::Authority { path, what }
    })?;
    // What it signs must not outlive it.
    if current.certificate.until < now.saturating_add(CERTIFICATE_LIFETIME.as_secs()) {
        return new_authority(&authorities);
    }
    if places.former_until()?.is_some_and(|until| until < now) {
        places.forget_former(current)?;
    }
    let issuer = Issuer::from_ca_cert_pem(&current.pem, key)?;
    let carry = places.issue_both(&issuer, now)?;
    Ok(Renewed { carry, overlap_until: None })
}

fn under_new_authority(
    places: &Places<'_>,
    authorities: &[Authority],
    now: u64,
) -> Result<Renewed, CertificateError> {
    let is_interrupted = places.is_interrupted()?;
    if !is_interrupted && places.former_until()?.is_some_and(|until| until >= now) {
        return Err(CertificateError::Overlap(places.proxy.to_path_buf()));
    }
    let own = places.proxy.join("proxy.pem");
    let overlap_until = Certificate::read_all(&own)?.first().map_or(now, |own| own.until);
    // What was put aside fits together; what is here may be a new key beside the old certificate.
    if !is_interrupted {
        places.set_former_aside()?;
    }
    // A name of its own: by it the server says which authorities it accepts.
    let name = format!("{AUTHORITY_NAME} since {}, {:08x}", date(now), rand::random::<u32>());
    let key = KeyPair::generate()?;
    let params = authority_params(&name, now);
    let mut accepted = params.self_signed(&key)?.pem();
    for old in authorities.iter().filter(|old| !old.certificate.has_ended(now)) {
        accepted.push_str(&old.pem);
    }
    // Until its key is there, too, the old authority is the one that signs.
    replace(&places.proxy.join("ca.pem"), &accepted)?;
    replace(&places.proxy.join("ca.key"), &pem_of(&key))?;
    let carry = places.issue_both(&Issuer::new(params, key), now)?;
    Ok(Renewed { carry, overlap_until: Some(overlap_until) })
}

/// A certificate as PEM (RFC 7468).
fn pem_of_der(der: &CertificateDer<'_>) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new("CERTIFICATE", der.as_ref()), config)
}
