//! What a kernel hands out as a report: whether it is one, and binds what it was asked to.

use super::TsmError;
use crate::attestation::DATA_BYTES;
use crate::hexadecimal;

/// Of an attestation report of SEV-SNP: its length, and places in it.
const SEV_SNP_BYTES: usize = 0x4a0;
const SEV_SNP_DATA: usize = 0x50;
const SEV_SNP_TCB: usize = 0x180;
const SEV_SNP_CHIP: usize = 0x1a0;
/// Which key signs, in bits 2 to 4: the chip's (0), a cloud's (1), none (7).
const SEV_SNP_KEYS: usize = 0x48;

/// Of a quote of TDX: what it is of, behind its version.
const QUOTE_OF: usize = 4;
const OF_TDX: [u8; 4] = [0x81, 0, 0, 0];
/// Where a quote's report begins: behind its header (version 4), and the report's kind and length (5).
const QUOTE_REPORT: [(u16, usize); 2] = [(4, 48), (5, 54)];
/// Where a report of TDX has its data.
const TDX_DATA: usize = 520;

/// The bytes at a place.
fn at<const N: usize>(report: &[u8], place: usize) -> Option<[u8; N]> {
    report.get(place..)?.first_chunk().copied()
}

/// Whether bytes are a report of SEV-SNP by the chip's own key, about this data.
///
/// # Errors
/// [`TsmError::Length`], [`TsmError::CloudKey`], [`TsmError::NoKey`], [`TsmError::OtherBinding`].
pub(super) fn sev_snp(report: &[u8], data: &[u8; DATA_BYTES]) -> Result<(), TsmError> {
    if report.len() != SEV_SNP_BYTES {
        return Err(TsmError::Length { kind: "a report of SEV-SNP", bytes: report.len() });
    }
    if at(report, SEV_SNP_DATA) != Some(*data) {
        return Err(TsmError::OtherBinding);
    }
    match at(report, SEV_SNP_KEYS).map(|[keys]: [u8; 1]| keys >> 2 & 7) {
        Some(0) => Ok(()),
        Some(1) => Err(TsmError::CloudKey),
        _ => Err(TsmError::NoKey),
    }
}

/// Whose certificate a report of SEV-SNP needs: the chip, and the versions of its firmware.
pub(super) fn chip(report: &[u8]) -> TsmError {
    let written = |bytes: Option<&[u8]>| bytes.map(hexadecimal::written).unwrap_or_default();
    TsmError::NoVcek {
        chip: written(report.get(SEV_SNP_CHIP..SEV_SNP_CHIP + 64)),
        tcb: written(report.get(SEV_SNP_TCB..SEV_SNP_TCB + 8)),
    }
}

/// Whether bytes are a quote of TDX, about this data.
///
/// # Errors
/// [`TsmError::Length`], [`TsmError::Quote`], [`TsmError::OtherBinding`].
pub(super) fn tdx(quote: &[u8], data: &[u8; DATA_BYTES]) -> Result<(), TsmError> {
    let short = TsmError::Length { kind: "a quote of TDX", bytes: quote.len() };
    let (Some(version), Some(of)) = (at(quote, 0).map(u16::from_le_bytes), at(quote, QUOTE_OF)) else {
        return Err(short);
    };
    let known = QUOTE_REPORT.iter().find(|(known, _)| *known == version);
    let Some((_, place)) = known.filter(|_| of == OF_TDX) else {
        return Err(TsmError::Quote(version));
    };
    match at(quote, place + TDX_DATA) {
        None => Err(short),
        Some(found) if found == *data => Ok(()),
        Some(_) => Err(TsmError::OtherBinding),
    }
}
