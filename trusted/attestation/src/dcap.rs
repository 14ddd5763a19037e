//! Quotes of Intel's DCAP: what a platform says of an enclave (SGX) or of a virtual machine (TDX), under Intel's root.
//!
//! A quote is judged with its *collateral*: certificates, lists of revoked ones, what Intel says of the platform's firmware (TCB
//! information) and of the enclave that signs quotes. It comes with the evidence, or from the policy, whose collateral goes first. Nothing is
//! fetched. The crate `dcap-qvl` verifies it all; here is what the policy asks beyond that.
//!
//! *Refused by the library, whatever the policy says*: platforms whose TCB is revoked, or older than all that Intel names; and, as
//! [`Refusal::Signature`], virtual machines that may migrate or that are bound to service machines.

use crate::evidence::{Claims, Refusal, Verifier};
use arras_protocol::evidence::Evidence;
use chrono::DateTime;
use dcap_qvl::configs::RingConfig;
use dcap_qvl::quote::{EnclaveReport, Quote, Report, TDReport10};
use dcap_qvl::verify::QuoteVerifier;
use dcap_qvl::{Policy, QeIdentity, QuoteClaims, QuoteCollateralV3, TcbInfo, TcbStatus};
use serde::Deserialize;

/// The attribute of an SGX enclave that can be looked into (`SGX_FLAGS_DEBUG`), in the first byte.
const SGX_DEBUG: u8 = 0x02;

/// How the library words that a platform is older than all that Intel names, or revoked.
const TCB_REFUSED: [&str; 2] = ["No matching TCB level", "TCB status is invalid"];

/// What a policy says of quotes.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Dcap {
    /// Collateral, JSON as Intel's and others' services for it give it: goes before what comes with the evidence.
    #[serde(default)]
    pub collateral: Option<String>,
    /// What Intel may say of the platform's firmware.
    #[serde(default = "up_to_date")]
    pub statuses: Vec<TcbStatus>,
    /// The number of Intel's evaluation that the collateral must be of at least (`tcbEvaluationDataNumber`): collateral is old if newer says
    /// more, though it may hold for a month.
    #[serde(default)]
    pub evaluation_min: u32,
}

fn up_to_date() -> Vec<TcbStatus> {
    vec![TcbStatus::UpToDate]
}

/// What a quote may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An enclave.
    Sgx,
    /// A virtual machine.
    Tdx,
}

/// Verifies quotes of one kind.
pub struct DcapVerifier<'p> {
    policy: &'p Dcap,
    kind: Kind,
    quotes: QuoteVerifier<RingConfig>,
}

impl Dcap {
    /// The verifier under Intel's root.
    #[must_use]
    pub fn verifier(&self, kind: Kind) -> DcapVerifier<'_> {
        let quotes = QuoteVerifier::new_prod().with_config().allow_debug(true);
        DcapVerifier { policy: self, kind, quotes }
    }
}

/// What the library could ask of a quote's claims is asked here.
struct AskedHere;

impl Policy for AskedHere {
    fn validate(&self, _: &QuoteClaims) -> anyhow::Result<()> {
        Ok(())
    }
}

impl Verifier for DcapVerifier<'_> {
    fn verify(&self, evidence: &Evidence, now: u64) -> Result<Claims, Refusal> {
        let Evidence::Dcap { quote, collateral } = evidence else {
            return Err(Refusal::Backend);
        };
        let parsed = Quote::parse(quote.as_slice()).map_err(|_| Refusal::Malformed)?;
        if parsed.report.is_sgx() != (self.kind == Kind::Sgx) {
            return Err(Refusal::Backend);
        }
        let collateral = self.collateral(collateral.as_slice())?;
        let claims = self
            .claims(quote.as_slice(), &collateral, now)
            .map_err(|error| self.refusal(quote.as_slice(), &collateral, now, &error))?;
        self.platform(&claims)?;
        Ok(match &claims.report {
            Report::SgxEnclave(report) => enclave(report),
            Report::TD10(report) => machine(report),
            Report::TD15(report) => machine(&report.base),
            Report::TD15Ex(report) => machine(&report.base.base),
        })
    }
}

impl DcapVerifier<'_> {
    fn collateral(&self, brought: &[u8]) -> Result<QuoteCollateralV3, Refusal> {
        let text = self.policy.collateral.as_ref().map_or(brought, |text| text.as_bytes());
        if text.is_empty() {
            return Err(Refusal::Collateral);
        }
        serde_json::from_slice(text).map_err(|_| Refusal::Malformed)
    }

    fn claims(&self, quote: &[u8], collateral: &QuoteCollateralV3, at: u64) -> anyhow::Result<QuoteClaims> {
        self.quotes.verify_with_policy(quote, collateral, at, &AskedHere)
    }

    /// Why a quote does not hold now: if it held when its collateral was new, for its age alone.
    fn refusal(
        &self,
        quote: &[u8],
        collateral: &QuoteCollateralV3,
        now: u64,
        error: &anyhow::Error,
    ) -> Refusal {
        // The library has no other names for its errors. One that it words anew is refused as well, by another name.
        let said = error.to_string();
        if TCB_REFUSED.iter().any(|words| said.contains(words)) {
            return Refusal::Platform(said);
        }
        let new = issued(collateral).and_then(|then| self.claims(quote, collateral, then).ok());
        match new {
            Some(claims) if now > claims.earliest_expiration_date => {
                Refusal::Ended(now - claims.earliest_expiration_date)
            }
            Some(claims) if now < claims.latest_issue_date => Refusal::Early(claims.latest_issue_date - now),
            _ => Refusal::Signature,
        }
    }

    fn platform(&self, claims: &QuoteClaims) -> Result<(), Refusal> {
        let verdict = &claims.tcb;
        if !self.policy.statuses.contains(&verdict.status) {
            let advisories = verdict.advisory_ids.join(", ");
            return Err(Refusal::Platform(format!("its TCB is {} ({advisories})", verdict.status)));
        }
        let (found, least) = (verdict.eval_data_number, self.policy.evaluation_min);
        if found < least {
            return Err(Refusal::Platform(format!(
                "its collateral is of evaluation {found}, {least} is asked for"
            )));
        }
        Ok(())
    }
}

/// When all of the collateral's signed parts were made, in seconds since 1970, by what they say unverified.
fn issued(collateral: &QuoteCollateralV3) -> Option<u64> {
    let tcb: TcbInfo = serde_json::from_str(&collateral.tcb_info).ok()?;
    let identity: QeIdentity = serde_json::from_str(&collateral.qe_identity).ok()?;
    let seconds = |date: &str| DateTime::parse_from_rfc3339(date).ok()?.timestamp().try_into().ok();
    let list = |der: &[u8]| {
        use x509_parser::prelude::{CertificateRevocationList, FromDer};
        let (_, list) = CertificateRevocationList::from_der(der).ok()?;
        u64::try_from(list.last_update().timestamp()).ok()
    };
    let times = [
        seconds(&tcb.issue_date)?,
        seconds(&identity.issue_date)?,
        list(&collateral.root_ca_crl)?,
        list(&collateral.pck_crl)?,
    ];
    times.into_iter().max()
}

fn enclave(report: &EnclaveReport) -> Claims {
    let product = [&report.mr_signer[..], &report.isv_prod_id.to_be_bytes()].concat();
    Claims {
        measurement: report.mr_enclave.to_vec(),
        product: Some(product),
        binding: report.report_data,
        made: None,
        debug: report.attributes[0] & SGX_DEBUG != 0,
        version: report.isv_svn.into(),
    }
}

fn machine(report: &TDReport10) -> Claims {
    let registers = [&report.mr_td, &report.rt_mr0, &report.rt_mr1, &report.rt_mr2, &report.rt_mr3];
    Claims {
        measurement: registers.into_iter().flatten().copied().collect(),
        product: None,
        binding: report.report_data,
        made: None,
        // Debugging and profiling, and what later processors may add to them.
        debug: report.td_attributes[0] != 0,
        version: 0,
    }
}

#[cfg(test)]
mod tests;
