//! Quotes of Intel's DCAP: what a platform says of an enclave (SGX) or of a virtual machine (TDX), under Intel's root.
//!
//! A quote is judged with its *collateral*: certificates, lists of revoked ones, what Intel says of the platform's firmware (TCB
//! information) and of the enclave that signs quotes. It comes with the evidence, or from the policy, whose collateral goes first. Nothing is
//! fetched. The crate `dcap-qvl` verifies it all; here is what the policy asks beyond that.
//!
//! *Refused whatever the policy says*: platforms whose TCB is revoked, or older than all that Intel names; virtual machines that may
//! migrate, are bound to service machines, or have attributes that are not known here; enclaves that are not of 64 bits, that
//! their host configures (KSS), or that are told more of faults (MISCSELECT).

use crate::evidence::{Claims, Product, Refusal, Verifier};
use arras_protocol::evidence::Evidence;
use chrono::DateTime;
use dcap_qvl::configs::RingConfig;
use dcap_qvl::quote::{EnclaveReport, Quote, Report, TDReport10};
use dcap_qvl::verify::QuoteVerifier;
use dcap_qvl::{Policy, QeIdentity, QuoteClaims, QuoteCollateralV3, TcbInfo, TcbStatus};
use serde::Deserialize;

/// The attribute of an SGX enclave that can be looked into (`SGX_FLAGS_DEBUG`), in the first byte.
const SGX_DEBUG: u8 = 0x02;
/// Of an enclave of 64 bits (`SGX_FLAGS_MODE64BIT`), in the same byte. In the other mode the same pages are other instructions.
const SGX_64_BITS: u8 = 0x04;
/// Of one that its host gives a configuration, which no measurement has (`SGX_FLAGS_KSS`), in the same byte.
const SGX_CONFIGURED: u8 = 0x80;

/// The attributes of a TDX machine by which it can be looked into: debugging and profiling, and what later processors may add to them.
const TDX_LOOKED_INTO: u64 = 0xff;
/// Those that it may have beside them: that its host provokes no exceptions by taking pages away (`SEPT_VE_DISABLE`, which the library
/// asks for), and that its supervisor has protection keys (`PKS`).
const TDX_KNOWN: u64 = 1 << 28 | 1 << 30;

/// Characters of the library's that a refusal has at most.
const SAID_MOST: usize = 300;

/// How the library words that a platform is older than all that Intel names, or revoked, or that a machine is set up otherwise than it should be.
const PLATFORM_REFUSED: [&str; 8] = [
    "No matching TCB level",
    "TCB status is invalid",
    "below minimum required",
    "TD migration is enabled",
    "SERVTD_EXT is enabled",
    "SEPT_VE_DISABLE is not enabled",
    "Reserved bits in TD attributes",
    "Invalid MR service TD",
];

/// What a policy says of quotes.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Dcap {
    /// Collateral, JSON as Intel's and others' services for it give it: goes before what comes with the evidence.
    #[serde(default)]
    pub collateral: Option<String>,
    /// What Intel may say of the platform's firmware, and of the enclave that signs quotes: of the latter, `UpToDate` always.
    #[serde(default = "up_to_date")]
    pub statuses: Vec<TcbStatus>,
    /// The number of Intel's evaluation that the collateral must be of at least (`tcbEvaluationDataNumber`). Intel issues collateral of older
    /// evaluations anew for over a year, so that whoever brings it, the host, may choose one that does not know the latest flaws. A
    /// policy says it, unless it has collateral itself.
    #[serde(default)]
    pub evaluation_min: Option<u32>,
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
    /// What a policy should say of quotes, and this one does not.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let chosen_by_host = self.collateral.is_none() && self.evaluation_min.is_none();
        chosen_by_host
            .then_some("evaluation_min is missing: the host could bring collateral that is out of date")
    }

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
        match &claims.report {
            Report::SgxEnclave(report) => enclave(report),
            Report::TD10(report) => machine(report),
            Report::TD15(report) => machine(&report.base),
            Report::TD15Ex(report) => machine(&report.base.base),
        }
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
        let refusal = named(error);
        if matches!(refusal, Refusal::Platform(_)) {
            return refusal;
        }
        let new = issued(collateral).and_then(|then| self.claims(quote, collateral, then).ok());
        match new {
            Some(claims) if now > claims.earliest_expiration_date => {
                Refusal::Ended(now - claims.earliest_expiration_date)
            }
            Some(claims) if now < claims.latest_issue_date => Refusal::Early(claims.latest_issue_date - now),
            _ => refusal,
        }
    }

    fn platform(&self, claims: &QuoteClaims) -> Result<(), Refusal> {
        let verdict = &claims.tcb;
        if !self.policy.statuses.contains(&verdict.status) {
            let advisories = verdict.advisory_ids.join(", ");
            return Err(Refusal::Platform(format!("its TCB is {} ({advisories})", verdict.status)));
        }
        // The library's verdict has of this no more than whether it is out of date or revoked.
        let quoting = &claims.qe.tcb_level;
        if quoting.tcb_status != TcbStatus::UpToDate && !self.policy.statuses.contains(&quoting.tcb_status) {
            let (status, advisories) = (quoting.tcb_status, quoting.advisory_ids.join(", "));
            return Err(Refusal::Platform(format!("its quoting enclave is {status} ({advisories})")));
        }
        let (found, least) = (verdict.eval_data_number, self.policy.evaluation_min.unwrap_or(0));
        if found < least {
            return Err(Refusal::Platform(format!(
                "its collateral is of evaluation {found}, {least} is asked for"
            )));
        }
        Ok(())
    }
}

/// An error of the library's, which has no other names for them than words. One that it words anew is refused as well, by the other name.
fn named(error: &anyhow::Error) -> Refusal {
    let said = format!("{error:#}");
    let platform = PLATFORM_REFUSED.iter().any(|words| said.contains(words));
    // It may repeat what it was given.
    let said = said.chars().filter(|letter| !letter.is_control()).take(SAID_MOST).collect();
    if platform { Refusal::Platform(said) } else { Refusal::Quote(said) }
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

fn enclave(report: &EnclaveReport) -> Result<Claims, Refusal> {
    let flags = report.attributes[0];
    let refused = [
        (flags & SGX_64_BITS == 0, "the enclave is not one of 64 bits"),
        (flags & SGX_CONFIGURED != 0, "the host may configure the enclave (KSS)"),
        (report.misc_select != 0, "the enclave has features that are not known (MISCSELECT)"),
    ];
    if let Some((_, why)) = refused.into_iter().find(|(refused, _)| *refused) {
        return Err(Refusal::Platform(why.into()));
    }
    let name = [&report.mr_signer[..], &report.isv_prod_id.to_be_bytes()].concat();
    Ok(Claims {
        measurement: report.mr_enclave.to_vec(),
        product: Some(Product { name, version: report.isv_svn.into() }),
        binding: report.report_data,
        made: None,
        debug: flags & SGX_DEBUG != 0,
        version: 0,
    })
}

fn machine(report: &TDReport10) -> Result<Claims, Refusal> {
    let attributes = u64::from_le_bytes(report.td_attributes);
    let unknown = attributes & !(TDX_LOOKED_INTO | TDX_KNOWN);
    if unknown != 0 {
        return Err(Refusal::Platform(format!(
            "the machine has attributes that are not known: {unknown:#x}"
        )));
    }
    let registers = [&report.mr_td, &report.rt_mr0, &report.rt_mr1, &report.rt_mr2, &report.rt_mr3];
    Ok(Claims {
        measurement: registers.into_iter().flatten().copied().collect(),
        product: None,
        binding: report.report_data,
        made: None,
        debug: attributes & TDX_LOOKED_INTO != 0,
        version: 0,
    })
}

#[cfg(test)]
mod tests;
