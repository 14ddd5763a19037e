//! A text that comes by pieces, cut where no word is, at places that do not depend on the pieces.

use std::mem;
use unicode_segmentation::UnicodeSegmentation;

/// Bytes of a block. A stretch without white space that is longer is cut at the end of one, and a word there in two.
pub(super) const BLOCK_BYTES: usize = 16 << 10;

/// The end of a text that came, less than a block.
#[derive(Default)]
pub(super) struct Blocks {
    carried: String,
}

impl Blocks {
    /// Takes a piece and passes on the blocks that are whole.
    pub(super) fn feed(&mut self, mut piece: &str, mut each: impl FnMut(&str)) {
        while self.carried.len() + piece.len() >= BLOCK_BYTES {
            if self.carried.is_empty() {
                let (block, rest) = piece.split_at(end_of_block(piece));
                each(block);
                piece = rest;
            } else {
                // Enough for a block, and for the letter over its end, which where to cut depends on.
                let mut wanted = (BLOCK_BYTES + 4).saturating_sub(self.carried.len()).min(piece.len());
                wanted = piece.ceil_char_boundary(wanted);
                let (more, rest) = piece.split_at(wanted);
                self.carried.push_str(more);
                piece = rest;
                let end = end_of_block(&self.carried);
                each(&self.carried[..end]);
                self.carried.drain(..end);
            }
        }
        self.carried.push_str(piece);
    }

    /// Passes on what is left: the text has ended.
    pub(super) fn end(&mut self, mut each: impl FnMut(&str)) {
        let mut carried = mem::take(&mut self.carried);
        each(&carried);
        carried.clear();
        self.carried = carried;
    }
}

/// Where the first block of a text ends that is at least a block long: behind the last white space in it.
fn end_of_block(text: &str) -> usize {
    let window = &text[..text.floor_char_boundary(BLOCK_BYTES)];
    let space = window.bytes().rposition(|byte| byte.is_ascii_whitespace());
    space.map_or(window.len(), |at| at + 1)
}

/// The words of a block, in order. Nearly all text has stretches of ASCII, whose words are found without a table; a stretch
/// between white spaces with anything else goes by the tables.
pub(super) fn words(mut block: &str, mut each: impl FnMut(&str)) {
    while !block.is_empty() {
        let foreign = block.bytes().position(|byte| !byte.is_ascii()).unwrap_or(block.len());
        let space = |byte: u8| byte.is_ascii_whitespace();
        let start = if foreign == block.len() {
            foreign
        } else {
            block.as_bytes()[..foreign].iter().rposition(|byte| space(*byte)).map_or(0, |at| at + 1)
        };
        let (plain, rest) = block.split_at(start);
        plain.unicode_words().for_each(&mut each);
        let end = if start == foreign { 0 } else { foreign - start };
        let end = rest.bytes().skip(end).position(space).map_or(rest.len(), |at| end + at + 1);
        let (mixed, rest) = rest.split_at(end);
        mixed.unicode_words().for_each(&mut each);
        block = rest;
    }
}
