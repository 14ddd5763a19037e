//! The administrator's authority: who is a client of an enclave, and under which name.
//!
//! A client's certificate has its name as the one common name of its subject; that name is what the enclave's access policy goes by. The
//! authority's key makes clients, the administrator too: it is the administrator's own, and stays off the enclave's machine.

use crate::hexadecimal;
use arras_protocol::iee::IDENTITY_BYTES_MAX;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::time::Duration;
use webpki::EndEntityCert;
use zeroize::Zeroizing;

/// How long an authority lasts.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(20 * 365 * DAY_SECONDS);

/// How long a client's certificate lasts.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(2 * 365 * DAY_SECONDS);

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The signing library declines.
    #[error("cannot make a certificate: {0}")]
    Signing(#[from] rcgen::Error),
    /// A file is not PEM of what it should be.
    #[error("not PEM of a certificate and its key: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// A name that the enclave would not take.
    #[error("a client's name has between 1 and {IDENTITY_BYTES_MAX} bytes")]
    Name,
}

/// An authority that signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its private key, as PEM (RFC 7468).
pub type Issued = (String, Zeroizing<String>);

fn params(name: &str, now: u64, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = date_time_ymd(1970, 1, 1) + Duration::from_secs(now);
    // For clocks that are behind.
    params.not_before = now - Duration::from_secs(DAY_SECONDS);
    params.not_after = now + lifetime;
    params
}

impl Authority {
    /// A new authority and its key; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`AuthorityError::Signing`].
    pub fn create(now: u64) -> Result<(Self, Issued), AuthorityError> {
        let private = KeyPair::generate()?;
        let mut params = params("Arras enclave clients", now, AUTHORITY_LIFETIME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&private)?.pem();
        let issued = (pem.clone(), Zeroizing::new(private.serialize_pem()));
        Ok((Self { issuer: Issuer::new(params, private), pem }, issued))
    }

    /// An authority from its certificate and its key, as PEM.
    ///
    /// # Errors
    /// [`AuthorityError`] if they are not that.
    pub fn read(certificate: &str, private: &str) -> Result<Self, AuthorityError> {
        let issuer = Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(private)?)?;
        Ok(Self { issuer, pem: certificate.to_owned() })
    }

    /// Its certificate, as PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.pem
    }

    /// Makes a client's certificate; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn issue(&self, name: &str, now: u64) -> Result<Issued, AuthorityError> {
        if !(1..=IDENTITY_BYTES_MAX).contains(&name.len()) {
            return Err(AuthorityError::Name);
        }
        let private = KeyPair::generate()?;
        let mut params = params(name, now, CERTIFICATE_LIFETIME);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&private, &self.issuer)?.pem();
        Ok((certificate, Zeroizing::new(private.serialize_pem())))
    }
}

/// A certificate from PEM.
///
/// # Errors
/// [`AuthorityError::Pem`] if it is none.
pub fn certificate(pem: &str) -> Result<CertificateDer<'static>, AuthorityError> {
    Ok(CertificateDer::from_pem_slice(pem.as_bytes())?)
}

/// A private key from PEM.
///
/// # Errors
/// [`AuthorityError::Pem`] if it is none.
pub fn private(pem: &str) -> Result<PrivateKeyDer<'static>, AuthorityError> {
    Ok(PrivateKeyDer::from_pem_slice(pem.as_bytes())?)
}

/// A serial number from hexadecimal digits, with colons or without.
#[must_use]
pub fn serial_from(written: &str) -> Option<Vec<u8>> {
    let written = hexadecimal::read(&written.replace(':', ""))?;
    let zeros = written.iter().take_while(|byte| **byte == 0).count();
    let number = written.get(zeros..).filter(|number| !number.is_empty())?;
    // As a certificate has it: a positive number, and no shorter than that takes.
    let sign: &[u8] = if number.first().is_some_and(|byte| *byte >= 0x80) { &[0] } else { &[] };
    Some([sign, number].concat())
}

/// A certificate's serial number, as an enclave is told to revoke it, and in hexadecimal.
#[must_use]
pub fn serial(certificate: &CertificateDer<'_>) -> Option<(Vec<u8>, String)> {
    let serial = EndEntityCert::try_from(certificate).ok()?.serial().to_vec();
    let written = hexadecimal::written(&serial);
    Some((serial, written))
}
