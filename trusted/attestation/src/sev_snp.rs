//! Attestation reports of AMD's SEV-SNP ("SEV Secure Nested Paging Firmware ABI Specification", 56860): what a chip says of a virtual machine.
//!
//! A report is signed by the chip's key for the firmware that it has (VCEK), whose certificate is AMD's: signed by a product's intermediate
//! key (ASK) under its root (ARK). The roots lie here as AMD publishes them. There is no list of revoked certificates among what is looked at;
//! keys of a cloud's own (VLEK) are not accepted.
//!
//! Of libraries there is the crate `sev`; its verification without OpenSSL takes another implementation of RSA, with an open advisory,
//! and its parser comes with the control of hypervisors. A report is fields at fixed places.

use crate::evidence::{Claims, ROOM, Refusal, Verifier};
use crate::hexadecimal;
use arras_protocol::evidence::Evidence;
use ring::signature::{ECDSA_P384_SHA384_FIXED, RSA_PSS_2048_8192_SHA384, UnparsedPublicKey};
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm, UnixTime, alg_id,
};
use serde::{Deserialize, Deserializer, de};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::prelude::{FromDer, X509Certificate};

/// What a policy says of reports.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct SevSnp {
    /// The processors.
    pub product: Product,
    /// Versions of their firmware at least, each by itself: what the chip reports, what it cannot be set back from any more, and what
    /// it had when the machine began.
    pub tcb_min: Tcb,
    /// The privilege level from which the report was asked for: 0 is that of a machine without a service module of its own.
    #[serde(default)]
    pub vmpl: u32,
    /// Whether the machine's own policy may let it share cores with other threads (SMT), which see through what a core has in common. Its
    /// policy decides, for all of its life: that the platform has this off today says nothing of tomorrow.
    #[serde(default)]
    pub allow_smt: bool,
    /// Bits that the platform must have (`PLATFORM_INFO`), for instance 0x08: its meter of energy is off (RAPL); 0x10: nobody outside sees
    /// ciphertexts in memory change; 0x20: no two addresses were the same memory when it was started. Bit 0 is SMT itself.
    #[serde(default)]
    pub platform_info: u64,
    /// SHA-384 of the key that the machine's ID block must be signed by, as reports have it (`ID_KEY_DIGEST`). Without one a machine has
    /// no security version: whoever starts it may sign a block of its own.
    #[serde(default, deserialize_with = "digest")]
    pub id_key_digest: Option<[u8; 48]>,
}

fn digest<'d, D: Deserializer<'d>>(from: D) -> Result<Option<[u8; 48]>, D::Error> {
    let text = String::deserialize(from)?;
    let bytes = hexadecimal::read(&text).and_then(|bytes| bytes.try_into().ok());
    bytes.map(Some).ok_or_else(|| de::Error::custom("96 hexadecimal digits are expected"))
}

/// Processors that have a root of their own.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Product {
    /// EPYC 7003.
    Milan,
    /// EPYC 9004 and 8004.
    Genoa,
    /// EPYC 9005.
    Turin,
}

/// Versions of a chip's firmware (`TCB_VERSION`).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Tcb {
    /// Of the boot loader of the secure processor.
    pub bootloader: u8,
    /// Of its operating system.
    pub tee: u8,
    /// Of SEV-SNP.
    pub snp: u8,
    /// Of the microcode.
    pub microcode: u8,
    /// Of the mediator of firmware, since Turin; none before.
    #[serde(default)]
    pub fmc: Option<u8>,
}

impl Product {
    /// Its root and its first intermediate certificate, DER.
    fn authorities(self) -> [&'static [u8]; 2] {
        match self {
            Self::Milan => [include_bytes!("sev_snp/milan_ark.der"), include_bytes!("sev_snp/milan_ask.der")],
            Self::Genoa => [include_bytes!("sev_snp/genoa_ark.der"), include_bytes!("sev_snp/genoa_ask.der")],
            Self::Turin => [include_bytes!("sev_snp/turin_ark.der"), include_bytes!("sev_snp/turin_ask.der")],
        }
    }

    /// Versions from their eight bytes.
    fn tcb(self, bytes: [u8; 8]) -> Tcb {
        match (self, bytes) {
            (Self::Milan | Self::Genoa, [bootloader, tee, _, _, _, _, snp, microcode]) => {
                Tcb { bootloader, tee, snp, microcode, fmc: None }
            }
            (Self::Turin, [fmc, bootloader, tee, snp, _, _, _, microcode]) => {
                Tcb { bootloader, tee, snp, microcode, fmc: Some(fmc) }
            }
        }
    }

    /// Bytes of a chip's identity in its certificate.
    fn identity_bytes(self) -> usize {
        match self {
            Self::Milan | Self::Genoa => 64,
            Self::Turin => 8,
        }
    }
}

impl Tcb {
    /// Whether nothing is older than in another.
    fn reaches(&self, least: &Self) -> bool {
        self.bootloader >= least.bootloader
            && self.tee >= least.tee
            && self.snp >= least.snp
            && self.microcode >= least.microcode
            && self.fmc >= least.fmc
    }
}

impl Verifier for SevSnp {
    fn verify(&self, evidence: &Evidence, now: u64) -> Result<Claims, Refusal> {
        let Evidence::SevSnp { report, certificates } = evidence else {
            return Err(Refusal::Backend);
        };
        let report = Report::read(report.as_slice(), self.product)?;
        let (chip, others) = certificates.split_first().ok_or(Refusal::Malformed)?;
        let chip = CertificateDer::from(chip.as_slice());
        let others = others.iter().map(|other| CertificateDer::from(other.as_slice()));
        certified(self.product, &chip, others, now)?;
        Chip::read(&chip, self.product)?.signed(&report)?;
        self.claims(&report)
    }
}

impl SevSnp {
    /// Why this may not stand in a policy.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match (self.product, self.tcb_min.fmc) {
            (Product::Turin, None) => Some("tcb_min: fmc is missing"),
            (Product::Milan | Product::Genoa, Some(_)) => Some("tcb_min: fmc is of Turin alone"),
            (Product::Turin, Some(_)) | (Product::Milan | Product::Genoa, None) => None,
        }
    }

    /// What a report says that is known to be a chip's, if the policy accepts the platform.
    fn claims(&self, report: &Report<'_>) -> Result<Claims, Refusal> {
        self.platform(report).map_err(Refusal::Platform)?;
        Ok(Claims {
            measurement: report.measurement.to_vec(),
            product: None,
            binding: report.data,
            made: None,
            debug: report.policy & POLICY_DEBUG != 0,
            version: if self.id_key_digest.is_some() { report.version } else { 0 },
        })
    }

    fn platform(&self, report: &Report<'_>) -> Result<(), String> {
        let least = &self.tcb_min;
        let all = [("reported", report.tcb), ("committed", report.committed), ("first", report.launched)];
        for (name, tcb) in all {
            if !tcb.reaches(least) {
                return Err(format!("its {name} TCB is {tcb:?}, {least:?} is asked for"));
            }
        }
        if report.vmpl != self.vmpl {
            return Err(format!("the report is from VMPL {}, {} is asked for", report.vmpl, self.vmpl));
        }
        if report.policy & POLICY_MIGRATE != 0 {
            return Err("the machine's policy lets an agent migrate it".into());
        }
        if report.policy & POLICY_SMT != 0 && !self.allow_smt {
            return Err("the machine's policy lets it share cores (SMT)".into());
        }
        let missing = self.platform_info & !report.platform_info;
        if missing != 0 {
            return Err(format!("its information is without the bits {missing:#x}"));
        }
        if let Some(asked) = self.id_key_digest.filter(|asked| *asked != report.id_key_digest) {
            let [found, asked] = [report.id_key_digest, asked].map(|digest| hexadecimal::written(&digest));
            return Err(format!("the machine's ID block is by the key {found}, {asked} is asked for"));
        }
        Ok(())
    }
}

/// Whether AMD vouches for a chip's certificate.
fn certified<'c>(
    product: Product,
    chip: &CertificateDer<'_>,
    others: impl Iterator<Item = CertificateDer<'c>>,
    now: u64,
) -> Result<(), Refusal> {
    let [root, first] = product.authorities().map(CertificateDer::from);
    let anchor = anchor_from_trusted_cert(&root).map_err(|_| Refusal::Malformed)?;
    let between: Vec<CertificateDer<'_>> = others.chain([first]).collect();
    let chip = EndEntityCert::try_from(chip).map_err(|_| Refusal::Malformed)?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    let usage = KeyUsage::client_auth();
    match chip.verify_for_usage(&[&AmdPss], &[anchor], &between, now, usage, None, None) {
        Ok(_) => Ok(()),
        Err(webpki::Error::CertExpired { time, not_after }) => {
            Err(Refusal::Ended(time.as_secs().saturating_sub(not_after.as_secs())))
        }
        Err(webpki::Error::CertNotValidYet { time, not_before }) => {
            Err(Refusal::Early(not_before.as_secs().saturating_sub(time.as_secs())))
        }
        Err(_) => Err(Refusal::Signature),
    }
}

/// RSASSA-PSS with SHA-384 as AMD's certificates name it: with the trailer field, which DER leaves out.
#[derive(Debug)]
struct AmdPss;

/// `AlgorithmIdentifier`, without its first tag and length: SHA-384, MGF1 with SHA-384, 48 bytes of salt, trailer 1 (RFC 4055).
const AMD_PSS: [u8; 70] = [
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a, 0x30, 0x39, 0xa0, 0x0f, 0x30, 0x0d,
    0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, 0xa1, 0x1c, 0x30, 0x1a,
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86,
    0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, 0xa2, 0x03, 0x02, 0x01, 0x30, 0xa3, 0x03, 0x02,
    0x01, 0x01,
];

impl SignatureVerificationAlgorithm for AmdPss {
    fn verify_signature(
        &self,
        issuer: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA384, issuer);
        key.verify(message, signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        AlgorithmIdentifier::from_slice(&AMD_PSS)
    }
}

/// What a chip's certificate has.
struct Chip {
    public: Vec<u8>,
    tcb: Tcb,
    identity: Vec<u8>,
}

impl Chip {
    fn read(certificate: &CertificateDer<'_>, product: Product) -> Result<Self, Refusal> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| Refusal::Malformed)?;
        let extension = |end: &str| {
            let oid = format!("1.3.6.1.4.1.3704.1.{end}");
            let mut all = parsed.extensions().iter();
            all.find(|extension| extension.oid.to_id_string() == oid).map(|extension| extension.value)
        };
        // A version is a small INTEGER.
        let version = |end: &str| match extension(end) {
            Some([0x02, 0x01, version] | [0x02, 0x02, 0x00, version]) => Ok(*version),
            _ => Err(Refusal::Malformed),
        };
        let tcb = Tcb {
            bootloader: version("3.1")?,
            tee: version("3.2")?,
            snp: version("3.3")?,
            microcode: version("3.8")?,
            fmc: if product == Product::Turin { Some(version("3.9")?) } else { None },
        };
        let identity = extension("4").ok_or(Refusal::Malformed)?;
        let identity = read_identity(identity, product.identity_bytes()).ok_or(Refusal::Malformed)?;
        let public = parsed.public_key().subject_public_key.data.to_vec();
        Ok(Self { public, tcb, identity: identity.to_vec() })
    }

    /// Whether a report is this chip's, with the firmware that the certificate is for.
    fn signed(&self, report: &Report<'_>) -> Result<(), Refusal> {
        let hidden = report.chip.iter().all(|byte| *byte == 0);
        if !(hidden || report.chip.starts_with(&self.identity)) {
            return Err(Refusal::Signature);
        }
        let key = UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, &self.public);
        key.verify(report.signed, &report.signature).map_err(|_| Refusal::Signature)?;
        if self.tcb != report.tcb {
            let (found, certified) = (&report.tcb, &self.tcb);
            return Err(Refusal::Platform(format!(
                "its TCB is {found:?}, the chip's certificate is for {certified:?}"
            )));
        }
        Ok(())
    }
}

/// A chip's identity: so many bytes, by themselves, which may begin as an OCTET STRING does, or in such a string.
fn read_identity(value: &[u8], bytes: usize) -> Option<&[u8]> {
    match value {
        raw if raw.len() == bytes => Some(raw),
        [0x04, length, inner @ ..] if inner.len() == bytes && usize::from(*length) == bytes => Some(inner),
        _ => None,
    }
}

/// Bytes of a report.
const REPORT_BYTES: usize = 0x4a0;
/// As many are signed.
const SIGNED_BYTES: usize = 0x2a0;
/// ECDSA with P-384 and SHA-384 (`SIGNATURE_ALGO`).
const ECDSA_P384: u32 = 1;
/// The guest's policy allows debugging.
const POLICY_DEBUG: u64 = 1 << 19;
/// It allows an agent to migrate the machine: who has it has the machine.
const POLICY_MIGRATE: u64 = 1 << 18;
/// It allows a platform whose cores have several threads.
const POLICY_SMT: u64 = 1 << 16;

/// A report (table "ATTESTATION_REPORT").
struct Report<'r> {
    signed: &'r [u8],
    /// Both halves as ring takes them: the high byte first.
    signature: [u8; 96],
    /// `GUEST_SVN`.
    version: u32,
    policy: u64,
    vmpl: u32,
    platform_info: u64,
    data: [u8; ROOM],
    measurement: [u8; 48],
    id_key_digest: [u8; 48],
    /// `REPORTED_TCB`: what the key is of that signs.
    tcb: Tcb,
    chip: [u8; 64],
    committed: Tcb,
    launched: Tcb,
}

impl<'r> Report<'r> {
    fn read(bytes: &'r [u8], product: Product) -> Result<Self, Refusal> {
        let whole: &[u8; REPORT_BYTES] = bytes.try_into().map_err(|_| Refusal::Malformed)?;
        let algorithm = u32::from_le_bytes(at(whole, 0x34));
        // Which key signs: the chip's (0), a cloud's (1), none (7).
        let key = u32::from_le_bytes(at(whole, 0x48)) >> 2 & 7;
        let version = u32::from_le_bytes(at(whole, 0));
        if version < 2 || algorithm != ECDSA_P384 {
            return Err(Refusal::Malformed);
        }
        if key != 0 {
            return Err(Refusal::Signature);
        }
        if whole[SIGNED_BYTES + 144..].iter().any(|byte| *byte != 0) {
            return Err(Refusal::Malformed);
        }
        let mut signature = [0; 96];
        for (half, start) in signature.chunks_exact_mut(48).zip([SIGNED_BYTES, SIGNED_BYTES + 72]) {
            let number: [u8; 72] = at(whole, start);
            if number[48..].iter().any(|byte| *byte != 0) {
                return Err(Refusal::Malformed);
            }
            half.copy_from_slice(&number[..48]);
            half.reverse();
        }
        Ok(Self {
            signed: &bytes[..SIGNED_BYTES],
            signature,
            version: u32::from_le_bytes(at(whole, 0x04)),
            policy: u64::from_le_bytes(at(whole, 0x08)),
            vmpl: u32::from_le_bytes(at(whole, 0x30)),
            platform_info: u64::from_le_bytes(at(whole, 0x40)),
            data: at(whole, 0x50),
            measurement: at(whole, 0x90),
            id_key_digest: at(whole, 0xe0),
            tcb: product.tcb(at(whole, 0x180)),
            chip: at(whole, 0x1a0),
            committed: product.tcb(at(whole, 0x1e0)),
            launched: product.tcb(at(whole, 0x1f0)),
        })
    }
}

/// A field. Its place is a constant inside the report.
fn at<const N: usize>(report: &[u8; REPORT_BYTES], place: usize) -> [u8; N] {
    std::array::from_fn(|byte| report[place + byte])
}

#[cfg(test)]
mod tests;
