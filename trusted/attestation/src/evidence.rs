//! What evidence says, once it is known who says so.

use crate::hexadecimal;
use arras_protocol::codec;
use arras_protocol::evidence::{Evidence, Statement};
use ring::signature::{ED25519, UnparsedPublicKey};

/// Room that evidence has for what it binds, in bytes: report data of SGX, TDX and SEV-SNP.
pub const ROOM: usize = 64;

/// What stands in the room of evidence that binds something.
#[must_use]
pub fn report_data(binding: &[u8; 32]) -> [u8; ROOM] {
    let mut room = [0; ROOM];
    room[..32].copy_from_slice(binding);
    room
}

/// What evidence says of an enclave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// What runs. Of TDX: MRTD and RTMR0 to RTMR3, one after the other; of a TPM: the digest of the registers.
    pub measurement: Vec<u8>,
    /// What else names it.
    pub product: Option<Product>,
    /// What it asked to have attested, and what there is of room behind it: zeros.
    pub binding: [u8; ROOM],
    /// When this was said, in seconds since 1970, if the evidence says so itself.
    pub made: Option<u64>,
    /// Whether it can be looked into.
    pub debug: bool,
    /// Its security version, or 0 if nobody vouches for one whom its measurement or the policy names.
    pub version: u32,
}

/// Bytes of a product's name: [`Product::name`]. No measurement is as long.
pub(crate) const PRODUCT_BYTES: usize = 34;

/// All versions of a product, by who has signed them. Of SGX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// MRSIGNER and the product's number, its high byte first.
    pub name: Vec<u8>,
    /// The security version, by the signer's word: another may sign the same program with any.
    pub version: u32,
}

/// Why an enclave is told nothing: in the order in which it is looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// The certificate has no evidence.
    #[error("the enclave's certificate has no evidence")]
    NoEvidence,
    /// The policy accepts nothing of this kind.
    #[error("the release policy accepts no evidence of this kind")]
    Backend,
    /// What is in the place of evidence is none.
    #[error("the enclave's evidence cannot be read")]
    Malformed,
    /// It was altered, or is signed by somebody whom the policy does not name.
    #[error("the enclave's evidence was altered, or is signed by nobody whom the release policy names")]
    Signature,
    /// A quote does not hold, in the words of what verifies it: altered, revoked, of another platform than its collateral.
    #[error("the enclave's quote does not hold: {0}")]
    Quote(String),
    /// A quote without what Intel says of its platform.
    #[error("neither the enclave's evidence nor the release policy has collateral for the quote")]
    Collateral,
    /// What vouches for the evidence holds no longer: certificates, lists of revoked ones, collateral.
    #[error("what vouches for the enclave's evidence ended {0} s ago")]
    Ended(u64),
    /// The platform below the enclave is not one that the policy accepts: its firmware is too old, or it is wrongly
    /// set up. So is what the enclave lets its host do: configure or migrate it.
    #[error("the enclave's platform is not one that the release policy accepts: {0}")]
    Platform(String),
    /// It is about another enclave's key, or the same enclave for another administrator or authority: replayed, or a host's own.
    #[error("the evidence is not about this channel: replayed, or for another authority or administrator")]
    Replayed,
    /// Another program runs.
    #[error("the enclave's measurement {0} is not one that the release policy accepts")]
    Measurement(String),
    /// It can be looked into.
    #[error("the enclave runs in debug mode: whoever has its machine can look into it")]
    Debug,
    /// A version with a known flaw.
    #[error("the enclave's security version is {found}; the release policy asks for {least}")]
    Version {
        /// What it is.
        found: u32,
        /// What it should be at least.
        least: u32,
    },
    /// The evidence is too old.
    #[error("the enclave's evidence is {age} s old; the release policy allows {most} s")]
    Expired {
        /// How old it is, in seconds.
        age: u64,
        /// How old it may be, in seconds.
        most: u64,
    },
    /// The evidence is of the future: one of the clocks is wrong.
    #[error("the enclave's evidence is {0} s ahead of this machine's clock")]
    Early(u64),
}

/// Whoever vouches for evidence of one kind.
pub trait Verifier {
    /// What the evidence says, if this verifier knows who says it.
    ///
    /// # Errors
    /// [`Refusal`]: [`Refusal::Backend`] if it is of another kind, [`Refusal::Malformed`], [`Refusal::Signature`] or [`Refusal::Quote`], and what the
    /// kind itself knows of age.
    fn verify(&self, evidence: &Evidence, now: u64) -> Result<Claims, Refusal>;
}

/// A development root's public key (Ed25519).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevelopmentRoot(pub [u8; 32]);

impl Verifier for DevelopmentRoot {
    fn verify(&self, evidence: &Evidence, _now: u64) -> Result<Claims, Refusal> {
        let Evidence::Process { statement, signature } = evidence else {
            return Err(Refusal::Backend);
        };
        let root = UnparsedPublicKey::new(&ED25519, &self.0);
        root.verify(&Statement::signed(statement.as_slice()), signature.as_slice())
            .map_err(|_| Refusal::Signature)?;
        let statement: Statement = codec::decode(statement.as_slice()).map_err(|_| Refusal::Malformed)?;
        Ok(Claims {
            measurement: statement.measurement.to_vec(),
            product: None,
            binding: report_data(&statement.binding),
            made: Some(statement.made),
            debug: statement.debug,
            version: statement.version,
        })
    }
}

impl DevelopmentRoot {
    /// Reads 64 hexadecimal digits, as a host writes them.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] if they are not.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let bytes = hexadecimal::read(text.trim()).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(Refusal::Malformed)
    }
}
