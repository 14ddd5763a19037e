//! Every scheme through the test body.

use super::{Over, OverStateful, Short, ShortStateful};
use crate::body::Pair;
use crate::world::{key, memory, run};
use arras_lab::plain_scheme::PlainScheme;
use arras_protocol::Order;
use arras_protocol::ore::Width;
use arras_protocol::ore::Width::{Bits32, Bits64};
use arras_schemes::ore::bclo::Bclo;
use arras_schemes::ore::cloz::Cloz;
use arras_schemes::ore::clww::Clww;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu};

range_tests!(plain_32, Over { width: Bits32, page_bytes: 176, make: PlainScheme });
range_tests!(plain_64, Over { width: Bits64, page_bytes: 4096, make: PlainScheme });
range_tests!(plain_of_three_entries, Over { width: Bits64, page_bytes: 11 + 3 * 48, make: PlainScheme });
range_tests!(plain_of_short_replies, Short(Over { width: Bits32, page_bytes: 248, make: PlainScheme }));

range_tests!(fh_ope_32, OverStateful(Over { width: Bits32, page_bytes: 208, make: FhOpe::new }));
range_tests!(fh_ope_64, OverStateful(Over { width: Bits64, page_bytes: 4096, make: FhOpe::new }));
range_tests!(
    fh_ope_of_short_replies,
    ShortStateful(Over { width: Bits64, page_bytes: 168, make: FhOpe::new })
);

fn lewi_wu(width: Width) -> LewiWu {
    LewiWu::new(&key(), width, BlockBits::Four)
}

range_tests!(bclo_32, Over { width: Bits32, page_bytes: 208, make: |width| Bclo::new(&key(), width) });
range_tests!(bclo_64, Over { width: Bits64, page_bytes: 4096, make: |width| Bclo::new(&key(), width) });
range_tests!(clww_32, Over { width: Bits32, page_bytes: 208, make: |width| Clww::new(&key(), width) });
range_tests!(clww_64, Over { width: Bits64, page_bytes: 304, make: |width| Clww::new(&key(), width) });
range_tests!(lewi_wu_32, Over { width: Bits32, page_bytes: 704, make: lewi_wu });
range_tests!(lewi_wu_of_short_replies, Short(Over { width: Bits64, page_bytes: 4096, make: lewi_wu }));

/// A comparison takes most of a second: a root that splits, an entry that comes again, one that goes.
fn over_cloz(width: Width, page_bytes: u32) {
    run(async {
        let cloz = Over { width, page_bytes, make: |width| Cloz::new(&key(), width) };
        let world = memory();
        let pair = Pair::open(&cloz, &world).await;
        let greatest = u64::MAX >> (64 - width.bits());
        pair.insert(&[(70, 1), (greatest, 1), (0, 1)]).await;
        pair.insert(&[(70, 2), (70, 1)]).await;
        pair.check(0, 70, Order::Ascending, None).await;
        pair.remove(&[(70, 1), (3, 1)]).await;
        pair.check(1, greatest, Order::Descending, Some(2)).await;
    });
}

#[test]
fn over_cloz_a_few_values_of_32_bits() {
    over_cloz(Bits32, 5060);
}

#[test]
fn over_cloz_a_few_values_of_64_bits() {
    over_cloz(Bits64, 10_120);
}
