//! Every scheme through the test body.

use super::{Over, Short};
use crate::world::key;
use arras_client::ore::bclo::Bclo;
use arras_client::ore::clww::Clww;
use arras_client::ore::fh_ope::FhOpe;
use arras_client::ore::lewi_wu::{BlockBits, LewiWu};
use arras_lab::plain_scheme::PlainScheme;
use arras_protocol::ore::Width;
use arras_protocol::ore::Width::{Bits32, Bits64};

range_tests!(plain_32, Over { width: Bits32, page_bytes: 128, make: PlainScheme });
range_tests!(plain_64, Over { width: Bits64, page_bytes: 4096, make: PlainScheme });
range_tests!(plain_of_three_entries, Over { width: Bits64, page_bytes: 11 + 3 * 32, make: PlainScheme });
range_tests!(plain_of_short_replies, Short(Over { width: Bits32, page_bytes: 200, make: PlainScheme }));

range_tests!(fh_ope_32, Over { width: Bits32, page_bytes: 160, make: FhOpe::new });
range_tests!(fh_ope_64, Over { width: Bits64, page_bytes: 4096, make: FhOpe::new });
range_tests!(fh_ope_of_short_replies, Short(Over { width: Bits64, page_bytes: 120, make: FhOpe::new }));

fn lewi_wu(width: Width) -> LewiWu {
    LewiWu::new(&key(), width, BlockBits::Four)
}

range_tests!(bclo_32, Over { width: Bits32, page_bytes: 160, make: |width| Bclo::new(&key(), width) });
range_tests!(clww_64, Over { width: Bits64, page_bytes: 256, make: |width| Clww::new(&key(), width) });
range_tests!(lewi_wu_32, Over { width: Bits32, page_bytes: 640, make: lewi_wu });
range_tests!(lewi_wu_of_short_replies, Short(Over { width: Bits64, page_bytes: 4096, make: lewi_wu }));
