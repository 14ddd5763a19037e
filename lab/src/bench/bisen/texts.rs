//! Real text, in documents of one length, and how many of them have each keyword.

use super::{BisenError, failed};
use arras_search::analysis::Collector;
use arras_search::language::Language;
use flate2::read::GzDecoder;
use std::collections::HashMap;
use std::fs;
use std::io::{BufReader, Read};
use std::path::Path;

/// Bytes of a document: an article's first paragraphs.
pub(super) const DOCUMENT_BYTES: usize = 2048;

/// Bytes of text that are read at most; more pairs than they have are made of them anew.
const BYTES_MAX: usize = 64 << 20;

/// Every so-manieth document is counted for the keywords' frequencies.
const SAMPLED: usize = 8;

/// From one keyword that is drawn to the next: a prime greater than there are keywords of that kind.
const STRIDE: usize = 1_000_003;

/// Documents, and keywords with the share of documents that have them.
pub(super) struct Texts {
    pub(super) documents: Vec<String>,
    /// Most frequent first.
    keywords: Vec<(String, f64)>,
}

impl Texts {
    /// Reads what is below a folder, compressed files too.
    pub(super) fn read(folder: &Path) -> Result<Self, BisenError> {
        let mut documents = Vec::new();
        let mut bytes = 0;
        gather(folder, &mut documents, &mut bytes).map_err(failed(folder.display().to_string()))?;
        let mut collector = Collector::new(Language::English);
        let mut counts: HashMap<String, u64> = HashMap::new();
        let mut sampled = 0_u64;
        for document in documents.iter().step_by(SAMPLED) {
            collector.begin();
            collector.feed(document);
            for keyword in collector.finish().iter() {
                *counts.entry(keyword.text.to_owned()).or_default() += 1;
            }
            sampled += 1;
        }
        let mut keywords: Vec<(String, f64)> =
            counts.into_iter().map(|(word, count)| (word, count as f64 / sampled as f64)).collect();
        // Ties by the word, so that a run can be repeated.
        keywords.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        if keywords.len() < 1000 {
            return Err(BisenError::Texts(folder.into()));
        }
        Ok(Self { documents, keywords })
    }

    /// The most frequent keywords.
    pub(super) fn popular(&self, count: usize) -> Vec<&str> {
        self.keywords.iter().take(count).map(|(word, _)| word.as_str()).collect()
    }

    /// Keywords that are drawn of all that more than one document in a thousand has: the same for the same number.
    pub(super) fn drawn(&self, count: usize, number: usize) -> Vec<&str> {
        let known = self.keywords.partition_point(|(_, share)| *share > 0.001).max(count);
        let place = |nth: usize| (number * count + nth + 1).wrapping_mul(STRIDE) % known;
        (0..count).filter_map(|nth| self.keywords.get(place(nth))).map(|(word, _)| word.as_str()).collect()
    }

    /// The keyword whose share of the documents is nearest to one.
    pub(super) fn nearest(&self, share: f64) -> (&str, f64) {
        let distance = |keyword: &&(String, f64)| (keyword.1 - share).abs();
        let nearest = self.keywords.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)));
        nearest.map_or(("", 0.0), |(word, share)| (word, *share))
    }
}

fn gather(path: &Path, documents: &mut Vec<String>, bytes: &mut usize) -> std::io::Result<()> {
    let about = fs::symlink_metadata(path)?;
    if about.is_dir() {
        let mut below: Vec<_> = fs::read_dir(path)?.flatten().map(|entry| entry.path()).collect();
        below.sort();
        below.iter().try_for_each(|path| gather(path, documents, bytes))?;
    } else if about.is_file() && *bytes < BYTES_MAX {
        let mut content = Vec::new();
        let mut file = BufReader::new(fs::File::open(path)?);
        // What is no such file after all is left out, like what is no text.
        let read = if path.extension().is_some_and(|ending| ending == "gz") {
            GzDecoder::new(file).read_to_end(&mut content)
        } else {
            file.read_to_end(&mut content)
        };
        if read.is_ok()
            && let Ok(text) = String::from_utf8(content)
        {
            *bytes += text.len();
            documents.extend(pieces(&text).map(str::to_owned));
        }
    }
    Ok(())
}

/// A text in pieces of about a document's length.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(DOCUMENT_BYTES.min(text.len())));
        text = rest;
        Some(piece).filter(|piece| !piece.is_empty())
    })
}
