//! A state of FH-OPE: what is read is what was written, and the scheme goes on from it.
#![no_main]

use arras_fuzz::seed;
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::ore::{End, OrderScheme};
use libfuzzer_sys::fuzz_target;

fn state(width: Width, values: impl Iterator<Item = u64>, forgotten: usize) -> Vec<u8> {
    let (mut scheme, mut prg) = (FhOpe::new(width), Prg::new(&[1; 16]));
    let encrypted: Vec<_> =
        values.map(|value| scheme.encrypt(value, &mut prg).expect("room for a few").stored).collect();
    encrypted.iter().take(forgotten).for_each(|stored| scheme.forget(stored));
    scheme.to_bytes().to_vec()
}

fn seeds() -> Vec<Vec<u8>> {
    vec![
        state(Width::Bits32, 0..0, 0),
        state(Width::Bits32, (0..20).map(|number| number * 7 % 5), 0),
        state(Width::Bits64, (0..60).map(|number| u64::MAX - number), 20),
        state(Width::Bits64, (0..100).map(|number| number * number), 50),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Ok(mut scheme) = FhOpe::from_bytes(bytes) else { return };
    assert_eq!(scheme.to_bytes().as_slice(), bytes, "one state, one encoding");
    let mut prg = Prg::new(&[2; 16]);
    for value in [0, 3, 3, 1 << 31, u64::from(u32::MAX)] {
        let Ok(encrypted) = scheme.encrypt(value, &mut prg) else { continue };
        assert_eq!(scheme.decrypt(&encrypted.stored), Ok(value));
        let [lower, upper] =
            [End::Lower, End::Upper].map(|end| scheme.bound(value, end, &mut prg).expect("in the domain"));
        assert!(lower <= encrypted.stored && encrypted.stored <= upper);
        scheme.forget(&encrypted.stored);
        assert!(scheme.decrypt(&encrypted.stored).is_err());
    }
    assert!(FhOpe::from_bytes(&scheme.to_bytes()).is_ok_and(|again| again.to_bytes() == scheme.to_bytes()));
});
