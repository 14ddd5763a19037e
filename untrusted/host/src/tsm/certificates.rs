//! The table of certificates that a hypervisor hands to its machines with a report ("SEV-ES Guest-Hypervisor Communication Block
//! Standardization", 56421, section 4.1.8.1): entries of a GUID, an offset and a length, up to one of zeros, and behind them what they name.
//!
//! The hypervisor writes it, which nobody trusts: what it has counts as far as clients verify it. The crate `sev` reads such tables, too;
//! it brings the control of hypervisors, for the forty lines here.

/// Bytes of an entry.
const ENTRY_BYTES: usize = 24;

/// The chip's certificate, for its firmware as it is: 63da758d-e664-4564-adc5-f4b93be8accd. GUIDs stand in the table as they are written.
pub const VCEK: [u8; 16] =
    [0x63, 0xda, 0x75, 0x8d, 0xe6, 0x64, 0x45, 0x64, 0xad, 0xc5, 0xf4, 0xb9, 0x3b, 0xe8, 0xac, 0xcd];
/// That of a cloud's key: a8074bc2-a25a-483e-aae6-39c045a0b8a1.
pub const VLEK: [u8; 16] =
    [0xa8, 0x07, 0x4b, 0xc2, 0xa2, 0x5a, 0x48, 0x3e, 0xaa, 0xe6, 0x39, 0xc0, 0x45, 0xa0, 0xb8, 0xa1];
/// That which signed the chip's: 4ab7b379-bbac-4fe4-a02f-05aef327c782.
pub const ASK: [u8; 16] =
    [0x4a, 0xb7, 0xb3, 0x79, 0xbb, 0xac, 0x4f, 0xe4, 0xa0, 0x2f, 0x05, 0xae, 0xf3, 0x27, 0xc7, 0x82];
/// AMD's root: c0b406a4-a803-4952-9743-3fb6014cd0ae.
pub const ARK: [u8; 16] =
    [0xc0, 0xb4, 0x06, 0xa4, 0xa8, 0x03, 0x49, 0x52, 0x97, 0x43, 0x3f, 0xb6, 0x01, 0x4c, 0xd0, 0xae];

/// What a table has, as it stands there. Clients have the root (ARK) themselves; other entries are passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Certificates<'t> {
    /// The chip's.
    pub vcek: Option<&'t [u8]>,
    /// That of a cloud's key.
    pub vlek: Option<&'t [u8]>,
    /// That which signed the chip's.
    pub ask: Option<&'t [u8]>,
}

/// What is wrong with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It ends before its entry of zeros.
    #[error("it ends within its entries")]
    Truncated,
    /// An entry names bytes that are not there.
    #[error("an entry is of bytes behind its end")]
    Outside,
    /// An entry names bytes of the entries, or of another's certificate.
    #[error("entries overlap")]
    Overlapping,
    /// Two entries of one kind.
    #[error("it has two certificates of one kind")]
    Twice,
}

/// Reads a table. No bytes at all are one without certificates, and so is an entry without a length.
///
/// # Errors
/// [`TableError`].
pub fn read(table: &[u8]) -> Result<Certificates<'_>, TableError> {
    let mut found = Certificates::default();
    if table.is_empty() {
        return Ok(found);
    }
    let mut ranges = Vec::new();
    let mut rest = table;
    loop {
        let Some((entry, behind)) = rest.split_first_chunk::<ENTRY_BYTES>() else {
            return Err(TableError::Truncated);
        };
        rest = behind;
        if *entry == [0; ENTRY_BYTES] {
            break;
        }
        let (guid, start, length) = fields(entry);
        let end = start.checked_add(length).ok_or(TableError::Outside)?;
        let certificate = table.get(start..end).ok_or(TableError::Outside)?;
        if certificate.is_empty() {
            continue;
        }
        ranges.push(start..end);
        let place = match guid {
            VCEK => &mut found.vcek,
            VLEK => &mut found.vlek,
            ASK => &mut found.ask,
            _ => continue,
        };
        if place.replace(certificate).is_some() {
            return Err(TableError::Twice);
        }
    }
    ranges.push(0..table.len() - rest.len());
    ranges.sort_by_key(|range| range.start);
    let apart = ranges.iter().zip(ranges.iter().skip(1)).all(|(one, next)| one.end <= next.start);
    if apart { Ok(found) } else { Err(TableError::Overlapping) }
}

/// An entry's GUID, offset and length.
fn fields(entry: &[u8; ENTRY_BYTES]) -> ([u8; 16], usize, usize) {
    let guid = std::array::from_fn(|place| entry.get(place).copied().unwrap_or(0));
    let number = |at: usize| {
        let bytes = std::array::from_fn(|place| entry.get(at + place).copied().unwrap_or(0));
        usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX)
    };
    (guid, number(16), number(20))
}

#[cfg(test)]
pub(super) mod tests;
