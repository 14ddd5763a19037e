//! Every scheme through the test body.

use super::{Over, OverStateful, Short, ShortStateful, Slow};
use crate::world::key;
use arras_lab::plain_scheme::PlainScheme;
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

range_tests!(cloz_32, Slow(Over { width: Bits32, page_bytes: 5060, make: |width| Cloz::new(&key(), width) }));
range_tests!(
    cloz_64,
    Slow(Over { width: Bits64, page_bytes: 10_120, make: |width| Cloz::new(&key(), width) })
);
