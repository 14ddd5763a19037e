//! The release policy: which enclaves are told secrets. A file of the administrator's for clients, in TOML.
//!
//! ```toml
//! administrator = "administrator"      # whose the enclave must be
//! max_age_seconds = 3600               # of evidence that says when it was made
//!
//! [[accept]]                           # any number of them; one that agrees is enough
//! backend = "process"
//! root = "5b0c..."                     # the development root's public key: 64 hexadecimal digits
//! measurements = ["90af..."]           # SHA-256 of the programs
//! version_min = 1                      # security version
//! allow_debug = false
//! ```
//!
//! What else an entry has depends on its backend ([`Source`]).

use crate::evidence::{Claims, DevelopmentRoot, PRODUCT_BYTES, ROOM, Refusal, Verifier, report_data};
use crate::hexadecimal;
use crate::sev_snp::SevSnp;
use crate::tpm::Tpm;
use arras_protocol::evidence::Evidence;
use serde::{Deserialize, Deserializer, de};

/// How far clocks may be apart, in seconds.
const CLOCKS_APART: u64 = 300;

/// How old evidence may be if the policy does not say, in seconds. An enclave's host renews it every ten minutes.
const MAX_AGE_SECONDS: u64 = 3600;

/// A release policy.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ReleasePolicy {
    /// Whose the enclave must be: who may make collections and say what others may do.
    pub administrator: String,
    /// How old evidence may be, in seconds.
    #[serde(default = "max_age")]
    pub max_age_seconds: u64,
    /// What is accepted.
    #[serde(default)]
    pub accept: Vec<Accepted>,
}

/// Enclaves that are accepted.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "toml::Table")]
pub struct Accepted {
    /// Where their evidence comes from, and who vouches for it.
    pub source: Source,
    /// What they are, each as [`Claims::measurement`] has it or the name of a [`Claims::product`].
    pub measurements: Vec<Vec<u8>>,
    /// Their security version at least. A policy that names a product says it, because the name is that of all its versions.
    pub version_min: u32,
    /// Whether they may be looked into.
    pub allow_debug: bool,
}

/// Where evidence comes from, with what the policy says of such evidence alone.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "backend", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// A host that measures the program and signs with a development root: for trials.
    Process {
        /// Who signs.
        #[serde(deserialize_with = "root")]
        root: DevelopmentRoot,
    },
    /// An enclave of Intel's SGX.
    #[cfg(feature = "dcap")]
    Sgx(crate::dcap::Dcap),
    /// A virtual machine under Intel's TDX.
    #[cfg(feature = "dcap")]
    Tdx(crate::dcap::Dcap),
    /// A virtual machine under AMD's SEV-SNP.
    SevSnp(SevSnp),
    /// A machine with a TPM 2.0.
    Tpm(Tpm),
}

impl Source {
    fn verify(&self, evidence: &Evidence, now: u64) -> Result<Claims, Refusal> {
        match self {
            Self::Process { root } => root.verify(evidence, now),
            #[cfg(feature = "dcap")]
            Self::Sgx(dcap) => dcap.verifier(crate::dcap::Kind::Sgx).verify(evidence, now),
            #[cfg(feature = "dcap")]
            Self::Tdx(dcap) => dcap.verifier(crate::dcap::Kind::Tdx).verify(evidence, now),
            Self::SevSnp(sev_snp) => sev_snp.verify(evidence, now),
            Self::Tpm(tpm) => tpm.verify(evidence, now),
        }
    }

    /// Why an entry with this source may not stand in a policy.
    fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Process { .. } | Self::Tpm(_) => None,
            #[cfg(feature = "dcap")]
            Self::Sgx(dcap) | Self::Tdx(dcap) => dcap.fault(),
            Self::SevSnp(sev_snp) => sev_snp.fault(),
        }
    }
}

/// What an entry has whatever its backend.
#[derive(Deserialize)]
struct Program {
    #[serde(deserialize_with = "measurements")]
    measurements: Vec<Vec<u8>>,
    #[serde(default)]
    version_min: Option<u32>,
    #[serde(default)]
    allow_debug: bool,
}

impl Program {
    fn fault(&self) -> Option<&'static str> {
        let product = self.measurements.iter().any(|name| name.len() == PRODUCT_BYTES);
        let said = self.version_min.is_some();
        (product && !said).then_some("version_min is missing: a product's name is that of all its versions")
    }
}

impl TryFrom<toml::Table> for Accepted {
    type Error = toml::de::Error;

    /// Sorts what every entry has from what its backend asks for; of the latter, nothing may be unknown.
    fn try_from(mut entry: toml::Table) -> Result<Self, Self::Error> {
        let mut program = toml::Table::new();
        for name in ["measurements", "version_min", "allow_debug"] {
            program.extend(entry.remove_entry(name));
        }
        let program: Program = program.try_into()?;
        let source: Source = entry.try_into()?;
        if let Some(fault) = source.fault().or_else(|| program.fault()) {
            return Err(de::Error::custom(fault));
        }
        let Program { measurements, version_min, allow_debug } = program;
        Ok(Self { source, measurements, version_min: version_min.unwrap_or(0), allow_debug })
    }
}

impl Accepted {
    /// The security version by the word of whoever vouches for the name that is accepted; none if none is.
    pub(crate) fn version(&self, claims: &Claims) -> Option<u32> {
        let accepted = |name: &Vec<u8>| self.measurements.contains(name);
        match &claims.product {
            Some(product) if accepted(&product.name) => Some(product.version),
            Some(_) | None => accepted(&claims.measurement).then_some(claims.version),
        }
    }
}

fn max_age() -> u64 {
    MAX_AGE_SECONDS
}

fn root<'d, D: Deserializer<'d>>(from: D) -> Result<DevelopmentRoot, D::Error> {
    let text = String::deserialize(from)?;
    DevelopmentRoot::read(&text).map_err(|_| de::Error::custom("64 hexadecimal digits are expected"))
}

fn measurements<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<Vec<u8>>, D::Error> {
    let texts: Vec<String> = Vec::deserialize(from)?;
    let read = |text: String| hexadecimal::read(&text).filter(|bytes| bytes.len() >= 32);
    let read: Option<Vec<Vec<u8>>> = texts.into_iter().map(read).collect();
    read.ok_or_else(|| de::Error::custom("a measurement is 64 hexadecimal digits or more"))
}

/// A policy that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the release policy: {0}")]
pub struct PolicyError(#[from] toml::de::Error);

impl ReleasePolicy {
    /// Reads a policy's text.
    ///
    /// # Errors
    /// [`PolicyError`], which says where.
    pub fn read(text: &str) -> Result<Self, PolicyError> {
        Ok(toml::from_str(text)?)
    }

    /// Whether an enclave with this evidence is told secrets. `binding` is what it must bind; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`Refusal`]: of several that are accepted, what came closest says why.
    pub fn judge(&self, evidence: &Evidence, binding: &[u8; 32], now: u64) -> Result<Claims, Refusal> {
        self.judge_room(evidence, &report_data(binding), now)
    }

    /// The same, by all of the room that evidence has: for evidence of others' machines, which may bind more.
    ///
    /// # Errors
    /// As of [`ReleasePolicy::judge`].
    pub fn judge_room(&self, evidence: &Evidence, binding: &[u8; ROOM], now: u64) -> Result<Claims, Refusal> {
        let mut closest = Refusal::Backend;
        for accepted in &self.accept {
            match self.accepts(accepted, evidence, binding, now) {
                Ok(claims) => return Ok(claims),
                Err(refusal) => closest = closest.max(refusal),
            }
        }
        Err(closest)
    }

    fn accepts(
        &self,
        accepted: &Accepted,
        evidence: &Evidence,
        binding: &[u8; ROOM],
        now: u64,
    ) -> Result<Claims, Refusal> {
        let claims = accepted.source.verify(evidence, now)?;
        if claims.binding != *binding {
            return Err(Refusal::Replayed);
        }
        let Some(found) = accepted.version(&claims) else {
            return Err(Refusal::Measurement(hexadecimal::written(&claims.measurement)));
        };
        if claims.debug && !accepted.allow_debug {
            return Err(Refusal::Debug);
        }
        let least = accepted.version_min;
        if found < least {
            return Err(Refusal::Version { found, least });
        }
        if let Some(made) = claims.made {
            let (age, most) = (now.saturating_sub(made), self.max_age_seconds);
            if age > most {
                return Err(Refusal::Expired { age, most });
            }
            if made > now + CLOCKS_APART {
                return Err(Refusal::Early(made - now));
            }
        }
        Ok(claims)
    }
}

#[cfg(test)]
mod tests;
