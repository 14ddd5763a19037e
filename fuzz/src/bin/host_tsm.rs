//! What a kernel hands out as a report, and a hypervisor as a table of certificates: it is refused, or what is handed on binds what it was
//! asked to and has certificates out of the table.
#![no_main]

use arras_fuzz::seed;
use arras_host::tsm::certificates::{self, VCEK};
use arras_host::tsm::{Brought, Entry, Interface, TsmError, TsmReports};
use arras_protocol::evidence::Evidence;
use libfuzzer_sys::fuzz_target;
use std::cell::Cell;
use std::io;

const REPORT: &[u8] = include_bytes!("../../../kat/attestation/sev_snp_report_milan.bin");
const CHIP: &[u8] = include_bytes!("../../../kat/attestation/sev_snp_vcek_milan.der");
const QUOTE: &[u8] = include_bytes!("../../../kat/attestation/tdx_quote.bin");
const QUOTE_5: &[u8] = include_bytes!("../../../kat/attestation/tdx_quote_outdated.bin");

/// Where reports of SEV-SNP and quotes of versions 4 and 5 have their data.
const PLACES: [usize; 3] = [0x50, 568, 574];

#[derive(Clone)]
struct Kernel {
    provider: &'static str,
    outblob: Vec<u8>,
    auxblob: Vec<u8>,
}

struct Played(Kernel, Cell<u64>);

impl Interface for Kernel {
    type Entry = Played;

    fn make(&self) -> Result<Played, TsmError> {
        Ok(Played(self.clone(), Cell::new(0)))
    }
}

impl Entry for Played {
    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        match file {
            "provider" => Ok(self.0.provider.into()),
            "generation" => Ok(self.1.get().to_string().into()),
            "outblob" => Ok(self.0.outblob.clone()),
            "auxblob" => Ok(self.0.auxblob.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn write(&self, _file: &str, _bytes: &[u8]) -> io::Result<()> {
        self.1.set(self.1.get() + 1);
        Ok(())
    }
}

/// An input: the place of the data, the report's length, the report, the table.
fn input(place: u8, report: &[u8], table: &[u8]) -> Vec<u8> {
    [&[place][..], &(report.len() as u16).to_le_bytes(), report, table].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let entry = [&VCEK[..], &48_u32.to_le_bytes(), &(CHIP.len() as u32).to_le_bytes()].concat();
    let table = [&entry[..], &[0; 24], CHIP].concat();
    vec![input(0, REPORT, &table), input(0, REPORT, b""), input(1, QUOTE, b""), input(2, QUOTE_5, b"")]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Some(([place, low, high], rest)) = bytes.split_first_chunk::<3>() else { return };
    let Some((outblob, auxblob)) = rest.split_at_checked(u16::from_le_bytes([*low, *high]).into()) else { return };
    let place = PLACES[usize::from(*place) % PLACES.len()];
    let provider = if place == PLACES[0] { "sev_guest" } else { "tdx_guest" };
    let data = outblob.get(place..place + 64).map_or([0; 64], |data| data.try_into().expect("64 bytes"));
    if let Ok(found) = certificates::read(auxblob) {
        let bytes: usize = [found.vcek, found.vlek, found.ask].into_iter().flatten().map(<[u8]>::len).sum();
        assert!(bytes <= auxblob.len());
    }
    let kernel = Kernel { provider, outblob: outblob.to_vec(), auxblob: auxblob.to_vec() };
    match TsmReports::new(kernel, Brought::default()).evidence(&data) {
        Err(_) => {}
        Ok(Evidence::SevSnp { report, certificates }) => {
            assert_eq!(report.as_slice()[0x50..0x90], data);
            assert!((1..=2).contains(&certificates.len()));
        }
        Ok(Evidence::Dcap { quote, .. }) => assert_eq!(quote.as_slice()[place..place + 64], data),
        Ok(other) => panic!("{other:?}"),
    }
});
