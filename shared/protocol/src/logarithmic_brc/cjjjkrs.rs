//! How lists of the encrypted multimap are packed: a few records in cells of the dictionary, the rest in blocks of a page.
//!
//! *Paper.* Cash, Jaeger, Jarecki, Jutla, Krawczyk, Rosu, Steiner, NDSS 2014 (ePrint 2014/853): packing, and two
//! levels of blocks.
//!
//! *Deviations.* A block is found by a label of its own, as a cell is, in place of a pointer into an array: there are
//! no pointer blocks to read, and the server needs no array. A list's length is masked in its first cell, so the server
//! knows how many cells and blocks to look up and needs no failing look-up to find the end.

use super::RECORDS_MAX;
use super::cjjkrs::{HEADER_BYTES, LABEL_BYTES};
use serde::{Deserialize, Serialize};

/// Bytes that sealing adds to a cell's or a block's records: the synthetic vector of AES-SIV.
pub const SEAL_BYTES: usize = 16;

/// Largest page, in bytes.
pub const PAGE_BYTES_MAX: u32 = 1 << 20;

/// Records of a cell under [`Shape::packed`].
const CELL_RECORDS: u32 = 2;

/// Records beyond a list's first cell and its full blocks that are put into cells rather than into a block of their
/// own, under [`Shape::packed`].
const LOOSE_RECORDS_MAX: u32 = 16;

/// A bin is filled to this part, in tenths, on average.
const BIN_FILL_TENTHS: u64 = 8;

/// Sizes of an instance's parts; public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Bytes of a record.
    pub record_bytes: u32,
    /// Records of a cell.
    pub cell_records: u32,
    /// Bytes of a cell before its records, of the client's own; none in blocks.
    pub fence_bytes: u32,
    /// Records of a block; 0 if there are no blocks.
    pub block_records: u32,
    /// Records beyond a list's first cell and its full blocks that go to cells; more get a block.
    pub loose_records_max: u32,
    /// Cells of a bin.
    pub bin_cells: u32,
    /// Bins, without those at the end that take what does not fit.
    pub bins: u32,
}

/// The parts of one list. Its first records are in cells, in order, the others in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Cells; at least 1.
    pub cells: u32,
    /// Blocks.
    pub blocks: u32,
    /// How many of the records are in cells.
    pub in_cells: u32,
}

impl Layout {
    /// Cells and blocks together: the labels of the list.
    #[must_use]
    pub fn parts(&self) -> u32 {
        self.cells.saturating_add(self.blocks)
    }
}

impl Shape {
    /// Cells and page-sized blocks; the shape that search is fast with. `None` if a page is too small for a cell.
    /// `bins` is 1 until [`Shape::for_cells`].
    #[must_use]
    pub fn packed(page_bytes: u32, record_bytes: u32) -> Option<Self> {
        let room = page_bytes.checked_sub(u32::try_from(SEAL_BYTES).ok()?)?;
        let block_records = room.checked_div(record_bytes)?;
        let loose_records_max = LOOSE_RECORDS_MAX.min(block_records / 2);
        Self { block_records, loose_records_max, ..Self::sized(page_bytes, record_bytes, CELL_RECORDS)? }
            .checked()
    }

    /// One record a cell and no blocks: the number of cells tells the number of records and nothing else.
    /// `None` if a page is too small for a cell.
    #[must_use]
    pub fn basic(page_bytes: u32, record_bytes: u32) -> Option<Self> {
        Self::sized(page_bytes, record_bytes, 1)?.checked()
    }

    fn sized(page_bytes: u32, record_bytes: u32, cell_records: u32) -> Option<Self> {
        let mut shape = Self {
            record_bytes,
            cell_records,
            fence_bytes: 0,
            block_records: 0,
            loose_records_max: 0,
            bin_cells: 0,
            bins: 1,
        };
        shape.bin_cells = page_bytes.checked_div(u32::try_from(shape.cell_bytes()).ok()?)?;
        (page_bytes <= PAGE_BYTES_MAX).then_some(shape)
    }

    /// The shape with so many bytes before the records of each cell. `None` if a page is too small for such a cell.
    #[must_use]
    pub fn fenced(self, page_bytes: u32, fence_bytes: u32) -> Option<Self> {
        let mut shape = Self { fence_bytes, ..self };
        shape.bin_cells = page_bytes.checked_div(u32::try_from(shape.cell_bytes()).ok()?)?;
        shape.checked()
    }

    /// The shape with as many bins as `cells` cells need.
    #[must_use]
    pub fn for_cells(self, cells: u64) -> Option<Self> {
        let filled = u64::from(self.bin_cells).saturating_mul(BIN_FILL_TENTHS).max(10);
        let bins = u32::try_from(cells.saturating_mul(10).div_ceil(filled).max(1)).ok()?;
        Self { bins, ..self }.checked()
    }

    /// The shape, if its numbers make sense and its pages are within limits.
    #[must_use]
    pub fn checked(self) -> Option<Self> {
        let page = u64::from(PAGE_BYTES_MAX);
        let records = u64::from(self.cell_records.max(self.block_records));
        let fits = self.record_bytes > 0
            && self.cell_records > 0
            && self.bin_cells > 0
            && self.bins > 0
            && self.bins < u32::MAX / 2
            && records * u64::from(self.record_bytes) <= page
            && u64::from(self.bin_cells).saturating_mul(self.cell_bytes() as u64) <= page;
        fits.then_some(self)
    }

    /// Bytes of a sealed cell, without label and length.
    #[must_use]
    pub fn sealed_cell_bytes(&self) -> usize {
        let records = (self.cell_records as usize).saturating_mul(self.record_bytes as usize);
        records.saturating_add(self.fence_bytes as usize).saturating_add(SEAL_BYTES)
    }

    /// Bytes of a cell in its bin.
    #[must_use]
    pub fn cell_bytes(&self) -> usize {
        self.sealed_cell_bytes().saturating_add(LABEL_BYTES + HEADER_BYTES)
    }

    /// Bytes of a sealed block.
    #[must_use]
    pub fn sealed_block_bytes(&self) -> usize {
        SEAL_BYTES.saturating_add((self.block_records as usize).saturating_mul(self.record_bytes as usize))
    }

    /// The parts of a list of `records` records; `None` above [`RECORDS_MAX`].
    #[must_use]
    pub fn layout(&self, records: u32) -> Option<Layout> {
        if records > RECORDS_MAX {
            return None;
        }
        let beyond = records.saturating_sub(self.cell_records);
        let (full, rest) =
            match (beyond.checked_div(self.block_records), beyond.checked_rem(self.block_records)) {
                (Some(full), Some(rest)) => (full, rest),
                _ => (0, beyond),
            };
        let (blocks, loose) = if self.block_records > 0 && rest > self.loose_records_max {
            (full + 1, 0)
        } else {
            (full, rest)
        };
        let cells = 1 + loose.div_ceil(self.cell_records.max(1));
        Some(Layout { cells, blocks, in_cells: records.min(self.cell_records + loose) })
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_all_records_and_no_part_is_empty() {
        for shape in [Shape::packed(4096, 21), Shape::packed(128, 21), Shape::basic(4096, 25)] {
            let shape = shape.expect("the page is large enough");
            for records in 1..3000 {
                let layout = shape.layout(records).expect("within the limit");
                let in_blocks = records - layout.in_cells;
                assert!(layout.in_cells <= layout.cells * shape.cell_records);
                assert!(layout.in_cells > (layout.cells - 1) * shape.cell_records);
                assert!(in_blocks <= layout.blocks * shape.block_records);
                assert!(layout.blocks == 0 || in_blocks > (layout.blocks - 1) * shape.block_records);
            }
        }
    }

    #[test]
    fn pages_hold_what_they_are_for() {
        for page_bytes in [128, 512, 4096, 65_536] {
            let shape = Shape::packed(page_bytes, 25).expect("the page is large enough");
            assert!(shape.sealed_block_bytes() <= page_bytes as usize);
            for shape in [Some(shape), shape.fenced(page_bytes, 16)].into_iter().flatten() {
                assert!(shape.bin_cells as usize * shape.cell_bytes() <= page_bytes as usize);
            }
        }
        let fenced = Shape::packed(96, 25).and_then(|shape| shape.fenced(96, 16));
        assert_eq!(fenced, None, "a fenced cell has 102 bytes");
        assert_eq!(Shape::packed(64, 25), None, "a cell has 86 bytes");
        assert_eq!(Shape::packed(0, 25), None);
        assert_eq!(Shape::packed(4096, 0), None);
        assert_eq!(Shape::packed(PAGE_BYTES_MAX + 1, 25), None);
    }

    #[test]
    fn a_list_beyond_the_limit_has_no_layout() {
        let shape = Shape::packed(4096, 21).expect("the page is large enough");
        assert!(shape.layout(RECORDS_MAX).is_some());
        assert_eq!(shape.layout(RECORDS_MAX + 1), None);
    }
}
