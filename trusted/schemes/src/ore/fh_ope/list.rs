//! The search tree's content: ciphertexts ascending, each run of equal plaintexts held once.
//!
//! A sorted array cut into chunks. A binary tree of pointers costs a cache miss a level; here a search is two
//! binary searches in memory that lies together, and an insertion moves a few hundred bytes. The tree's shape
//! need not be stored: it is in the ciphertexts (see [`super`]).

use zeroize::Zeroize;

/// Ciphertexts in a chunk at most.
const CHUNK_LEN: usize = 256;

/// Neighbouring ciphertexts, and whose they are.
struct Chunk {
    /// Ascending.
    ciphertexts: Vec<u64>,
    /// Plaintexts, strictly ascending.
    plaintexts: Vec<u64>,
    /// Where each plaintext's ciphertexts end in `ciphertexts`.
    ends: Vec<u16>,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.plaintexts.zeroize();
    }
}

impl Chunk {
    fn new() -> Self {
        Self { ciphertexts: Vec::new(), plaintexts: Vec::new(), ends: Vec::new() }
    }

    /// The plaintext of the ciphertext at `position`.
    fn plaintext(&self, position: usize) -> u64 {
        self.plaintexts[self.ends.partition_point(|end| usize::from(*end) <= position)]
    }

    fn insert(&mut self, position: usize, plaintext: u64, ciphertext: u64) {
        self.ciphertexts.insert(position, ciphertext);
        let run = self.plaintexts.partition_point(|other| *other < plaintext);
        if self.plaintexts.get(run) != Some(&plaintext) {
            insert_wiping(&mut self.plaintexts, run, plaintext);
            self.ends.insert(run, to_u16(position));
        }
        for end in &mut self.ends[run..] {
            *end += 1;
        }
    }

    fn remove(&mut self, position: usize) {
        self.ciphertexts.remove(position);
        let run = self.ends.partition_point(|end| usize::from(*end) <= position);
        for end in &mut self.ends[run..] {
            *end -= 1;
        }
        let start = if run == 0 { 0 } else { self.ends[run - 1] };
        if self.ends[run] == start {
            self.plaintexts.remove(run);
            self.ends.remove(run);
        }
    }

    /// Takes the second half off.
    fn split(&mut self) -> Self {
        let middle = self.ciphertexts.len() / 2;
        let mut second = Self::new();
        second.ciphertexts = self.ciphertexts.split_off(middle);
        let run = self.ends.partition_point(|end| usize::from(*end) <= middle);
        second.plaintexts.extend_from_slice(&self.plaintexts[run..]);
        second.ends.extend(self.ends[run..].iter().map(|end| end - to_u16(middle)));
        // The run that the cut divides stays in both.
        let kept = if run > 0 && usize::from(self.ends[run - 1]) == middle { run } else { run + 1 };
        self.plaintexts[kept..].zeroize();
        self.plaintexts.truncate(kept);
        self.ends.truncate(kept);
        self.ends[kept - 1] = to_u16(middle);
        second
    }

    /// Puts the next chunk's content behind this one's.
    fn append(&mut self, next: &Self) {
        let len = to_u16(self.ciphertexts.len());
        self.ciphertexts.extend_from_slice(&next.ciphertexts);
        let shared = self.plaintexts.last() == next.plaintexts.first();
        if shared && let (Some(end), Some(more)) = (self.ends.last_mut(), next.ends.first()) {
            *end += more;
        }
        for (plaintext, end) in next.plaintexts.iter().zip(&next.ends).skip(usize::from(shared)) {
            let run = self.plaintexts.len();
            insert_wiping(&mut self.plaintexts, run, *plaintext);
            self.ends.push(end + len);
        }
    }
}

/// An offset within a chunk: at most [`CHUNK_LEN`] + 1.
fn to_u16(offset: usize) -> u16 {
    u16::try_from(offset).unwrap_or(u16::MAX)
}

/// Like `insert`, but leaves no copy behind in memory when the vector grows.
fn insert_wiping(values: &mut Vec<u64>, position: usize, value: u64) {
    if values.len() == values.capacity() {
        let mut grown = Vec::with_capacity((values.len() * 2).max(4));
        grown.extend_from_slice(values);
        values.zeroize();
        *values = grown;
    }
    values.insert(position, value);
}

/// A place between two neighbouring ciphertexts, or before the first or behind the last. A change of the list's
/// length makes it stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    chunk: usize,
    /// How many ciphertexts of the chunk are before it.
    position: usize,
}

/// Pairs of plaintext and ciphertext, ascending in both.
pub(super) struct List {
    chunks: Vec<Chunk>,
    /// Of each chunk, its first plaintext.
    first_plaintexts: Vec<u64>,
    /// Of each chunk, its first ciphertext.
    first_ciphertexts: Vec<u64>,
    len: usize,
}

impl Drop for List {
    fn drop(&mut self) {
        self.first_plaintexts.zeroize();
    }
}

impl List {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), first_plaintexts: Vec::new(), first_ciphertexts: Vec::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Runs of equal plaintexts, those that a chunk's border divides counted on both sides.
    pub(super) fn run_count(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.plaintexts.len()).sum()
    }

    /// The gap before the first ciphertext of `plaintext`, or where it would be.
    pub(super) fn before(&self, plaintext: u64) -> Gap {
        let next = self.first_plaintexts.partition_point(|first| *first < plaintext);
        let chunk = next.saturating_sub(1);
        self.gap_of_run(chunk, |chunk| chunk.plaintexts.partition_point(|other| *other < plaintext))
    }

    /// The gap behind the last ciphertext of `plaintext`, or where it would be.
    pub(super) fn behind(&self, plaintext: u64) -> Gap {
        let next = self.first_plaintexts.partition_point(|first| *first <= plaintext);
        let chunk = next.saturating_sub(1);
        self.gap_of_run(chunk, |chunk| chunk.plaintexts.partition_point(|other| *other <= plaintext))
    }

    fn gap_of_run(&self, chunk: usize, run: impl Fn(&Chunk) -> usize) -> Gap {
        let position = self.chunks.get(chunk).map_or(0, |chunk| {
            let run = run(chunk);
            if run == 0 { 0 } else { usize::from(chunk.ends[run - 1]) }
        });
        Gap { chunk, position }
    }

    /// The gap before the first ciphertext greater than `ciphertext`.
    pub(super) fn behind_ciphertext(&self, ciphertext: u64) -> Gap {
        let next = self.first_ciphertexts.partition_point(|first| *first <= ciphertext);
        let chunk = next.saturating_sub(1);
        let position = self
            .chunks
            .get(chunk)
            .map_or(0, |chunk| chunk.ciphertexts.partition_point(|other| *other <= ciphertext));
        Gap { chunk, position }
    }

    /// The (plaintext, ciphertext) before a gap.
    pub(super) fn last_before(&self, gap: Gap) -> Option<(u64, u64)> {
        if gap.position > 0 {
            self.at(gap.chunk, gap.position - 1)
        } else {
            self.last_of(gap.chunk.checked_sub(1)?)
        }
    }

    fn last_of(&self, chunk: usize) -> Option<(u64, u64)> {
        let last = self.chunks.get(chunk)?.ciphertexts.len().checked_sub(1)?;
        self.at(chunk, last)
    }

    fn at(&self, chunk: usize, position: usize) -> Option<(u64, u64)> {
        let chunk = self.chunks.get(chunk)?;
        let ciphertext = *chunk.ciphertexts.get(position)?;
        Some((chunk.plaintext(position), ciphertext))
    }

    /// The ciphertext before a gap; 0, which is none, at the start.
    pub(super) fn ciphertext_before(&self, gap: Gap) -> u64 {
        let found = match (gap.position.checked_sub(1), gap.chunk.checked_sub(1)) {
            (Some(position), _) => {
                self.chunks.get(gap.chunk).and_then(|chunk| chunk.ciphertexts.get(position))
            }
            (None, Some(chunk)) => self.chunks.get(chunk).and_then(|chunk| chunk.ciphertexts.last()),
            (None, None) => None,
        };
        found.copied().unwrap_or(0)
    }

    /// The ciphertext behind a gap; the greatest number, which is none, at the end.
    pub(super) fn ciphertext_behind(&self, gap: Gap) -> u64 {
        let here = self.chunks.get(gap.chunk).and_then(|chunk| chunk.ciphertexts.get(gap.position));
        here.or_else(|| self.first_ciphertexts.get(gap.chunk + 1)).copied().unwrap_or(u64::MAX)
    }

    /// Puts a pair into a gap. The caller vouches that order holds.
    pub(super) fn insert(&mut self, gap: Gap, plaintext: u64, ciphertext: u64) {
        if self.chunks.is_empty() {
            self.chunks.push(Chunk::new());
            self.first_plaintexts.push(plaintext);
            self.first_ciphertexts.push(ciphertext);
        }
        let chunk = &mut self.chunks[gap.chunk];
        chunk.insert(gap.position, plaintext, ciphertext);
        self.len += 1;
        if gap.position == 0 {
            self.first_plaintexts[gap.chunk] = plaintext;
            self.first_ciphertexts[gap.chunk] = ciphertext;
        }
        if chunk.ciphertexts.len() > CHUNK_LEN {
            let second = chunk.split();
            insert_wiping(&mut self.first_plaintexts, gap.chunk + 1, second.plaintexts[0]);
            self.first_ciphertexts.insert(gap.chunk + 1, second.ciphertexts[0]);
            self.chunks.insert(gap.chunk + 1, second);
        }
    }

    /// Puts a pair behind all others.
    pub(super) fn push(&mut self, plaintext: u64, ciphertext: u64) {
        let chunk = self.chunks.len().saturating_sub(1);
        let position = self.chunks.last().map_or(0, |chunk| chunk.ciphertexts.len());
        self.insert(Gap { chunk, position }, plaintext, ciphertext);
    }

    /// The plaintext of a ciphertext.
    pub(super) fn plaintext(&self, ciphertext: u64) -> Option<u64> {
        let (plaintext, found) = self.last_before(self.behind_ciphertext(ciphertext))?;
        (found == ciphertext).then_some(plaintext)
    }

    /// Removes a ciphertext; whether it was there.
    pub(super) fn remove(&mut self, ciphertext: u64) -> bool {
        let gap = self.behind_ciphertext(ciphertext);
        if gap.position == 0 || self.ciphertext_before(gap) != ciphertext {
            return false;
        }
        self.chunks[gap.chunk].remove(gap.position - 1);
        self.len -= 1;
        self.mend(gap.chunk);
        true
    }

    /// Drops a chunk that is empty, joins one that became small with its next.
    fn mend(&mut self, at: usize) {
        let next_len = self.chunks.get(at + 1).map(|next| next.ciphertexts.len());
        let chunk = &mut self.chunks[at];
        if chunk.ciphertexts.is_empty() {
            self.drop_chunk(at);
            return;
        }
        self.first_plaintexts[at] = chunk.plaintexts[0];
        self.first_ciphertexts[at] = chunk.ciphertexts[0];
        if next_len.is_some_and(|next_len| chunk.ciphertexts.len() + next_len <= CHUNK_LEN / 2) {
            let next = self.drop_chunk(at + 1);
            self.chunks[at].append(&next);
        }
    }

    fn drop_chunk(&mut self, at: usize) -> Chunk {
        self.first_plaintexts.remove(at);
        self.first_ciphertexts.remove(at);
        self.chunks.remove(at)
    }

    /// How many ciphertexts before and behind a gap are at least `least` and at most `greatest`. Counts no further
    /// than `limit`.
    pub(super) fn count_around(&self, gap: Gap, least: u64, greatest: u64, limit: usize) -> (usize, usize) {
        let before = self.walk_back(gap).take_while(|ciphertext| *ciphertext >= least).take(limit).count();
        let behind = self.walk(gap).take_while(|ciphertext| *ciphertext <= greatest).take(limit).count();
        (before, behind)
    }

    fn walk_back(&self, gap: Gap) -> impl Iterator<Item = u64> {
        let here = self.chunks.get(gap.chunk).map_or(&[][..], |chunk| &chunk.ciphertexts[..gap.position]);
        let earlier = self.chunks[..gap.chunk].iter().rev().flat_map(|chunk| chunk.ciphertexts.iter().rev());
        here.iter().rev().chain(earlier).copied()
    }

    fn walk(&self, gap: Gap) -> impl Iterator<Item = u64> {
        let here = self.chunks.get(gap.chunk).map_or(&[][..], |chunk| &chunk.ciphertexts[gap.position..]);
        let later = self.chunks.iter().skip(gap.chunk + 1).flat_map(|chunk| &chunk.ciphertexts);
        here.iter().chain(later).copied()
    }

    /// Writes `renewed` over the ciphertexts that start `before` of them before a gap; the old ones. The caller
    /// vouches that order holds.
    pub(super) fn rewrite(&mut self, gap: Gap, before: usize, renewed: &[u64]) -> Vec<u64> {
        let (mut chunk, mut position) = (gap.chunk, gap.position);
        let mut left = before;
        while left > position {
            left -= position;
            chunk -= 1;
            position = self.chunks[chunk].ciphertexts.len();
        }
        position -= left;
        let mut old = Vec::with_capacity(renewed.len());
        for ciphertext in renewed {
            while position == self.chunks[chunk].ciphertexts.len() {
                chunk += 1;
                position = 0;
            }
            old.push(std::mem::replace(&mut self.chunks[chunk].ciphertexts[position], *ciphertext));
            if position == 0 {
                self.first_ciphertexts[chunk] = *ciphertext;
            }
            position += 1;
        }
        old
    }

    /// Puts a pair where its ciphertext belongs; false, and nothing changes, if order would not hold.
    pub(super) fn restore(&mut self, plaintext: u64, ciphertext: u64) -> bool {
        let gap = self.behind_ciphertext(ciphertext);
        let fits = ciphertext > self.ciphertext_before(gap)
            && ciphertext < u64::MAX
            && self.last_before(gap).is_none_or(|(before, _)| before <= plaintext)
            && self.plaintext(self.ciphertext_behind(gap)).is_none_or(|behind| plaintext <= behind);
        if fits {
            self.insert(gap, plaintext, ciphertext);
        }
        fits
    }

    /// Gives ciphertexts new numbers, all at once; false, and nothing changes, if one is not there. The caller vouches
    /// that order holds.
    pub(super) fn rename(&mut self, pairs: &[(u64, u64)]) -> bool {
        let mut places = Vec::with_capacity(pairs.len());
        for (old, _) in pairs {
            let gap = self.behind_ciphertext(*old);
            match gap.position.checked_sub(1) {
                Some(position) if self.ciphertext_before(gap) == *old => places.push((gap.chunk, position)),
                _ => return false,
            }
        }
        for ((chunk, position), (_, new)) in places.into_iter().zip(pairs) {
            self.chunks[chunk].ciphertexts[position] = *new;
            if position == 0 {
                self.first_ciphertexts[chunk] = *new;
            }
        }
        true
    }

    /// All ciphertexts, ascending.
    pub(super) fn ciphertexts(&self) -> impl Iterator<Item = u64> {
        self.chunks.iter().flat_map(|chunk| &chunk.ciphertexts).copied()
    }

    /// All plaintexts, strictly ascending, with the number of their ciphertexts.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u64, usize)> {
        let mut pieces = self.chunks.iter().flat_map(|chunk| {
            let mut start = 0;
            chunk.plaintexts.iter().zip(&chunk.ends).map(move |(plaintext, end)| {
                let count = usize::from(*end - start);
                start = *end;
                (*plaintext, count)
            })
        });
        let mut pending = pieces.next();
        std::iter::from_fn(move || {
            let (plaintext, mut count) = pending.take()?;
            for (next, more) in pieces.by_ref() {
                if next != plaintext {
                    pending = Some((next, more));
                    break;
                }
                count += more;
            }
            Some((plaintext, count))
        })
    }
}
