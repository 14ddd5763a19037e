//! Reading lists.

use super::LogarithmicBrc;
use super::cover::Node;
use super::instance::{Part, part_records, token_input};
use super::record::Record;
use super::state::{Facts, Instance};
use crate::error::{IndexError, OpenFailed};
use arras_protocol::logarithmic_brc::cjjkrs::SearchToken;
use arras_protocol::logarithmic_brc::{Asked, LogarithmicBrc as Protocol, Request, Response, TOKENS_MAX};
use arras_protocol::ore::Width;
use arras_protocol::{Blob, Channel};
use std::sync::Arc;

/// One list to be read.
struct Wanted {
    instance: Arc<Instance>,
    node: Node,
    token: SearchToken,
    /// Where its records go.
    place: usize,
}

impl<C: Channel<Protocol>> LogarithmicBrc<C> {
    /// The records of a range, of the newest instance first; those of the buffer may be outside the range.
    pub(super) async fn read_range(&self, lower: u64, upper: u64) -> Result<Vec<Record>, IndexError> {
        let cover = self.parameters.cover.of(lower, upper);
        let root = [Node::root(self.parameters.domain_bits)];
        let state = self.state.read().await;
        let wanted = state.instances.iter().rev().flat_map(|instance| {
            let nodes = if instance.facts.flat { &root[..] } else { &cover[..] };
            nodes.iter().map(move |node| (Arc::clone(instance), *node))
        });
        self.read_lists(wanted.collect()).await
    }

    /// All records of some instances, in the order they are given.
    pub(super) async fn read_all(&self, instances: &[Arc<Instance>]) -> Result<Vec<Record>, IndexError> {
        let root = Node::root(self.parameters.domain_bits);
        self.read_lists(instances.iter().map(|instance| (Arc::clone(instance), root)).collect()).await
    }

    /// The records of lists, in the order they are given. What the server sees is their instances' order by name and, within one,
    /// a random one.
    async fn read_lists(&self, lists: Vec<(Arc<Instance>, Node)>) -> Result<Vec<Record>, IndexError> {
        let mut wanted: Vec<Wanted> = lists
            .into_iter()
            .zip(0..)
            .map(|((instance, node), place)| {
                let mut token = [token_input(node)];
                instance.keys.tokens(&mut token);
                Wanted { instance, node, token: SearchToken(token[0]), place }
            })
            .collect();
        // Tokens are pseudorandom: their order is a random one.
        wanted.sort_unstable_by_key(|list| (list.instance.facts.id, list.token.0));
        let mut gathered = Gathered {
            width: self.parameters.width,
            root: Node::root(self.parameters.domain_bits),
            found: vec![Vec::new(); wanted.len()],
            at: 0,
            parts: 0,
        };
        while gathered.at < wanted.len() {
            let until = wanted.len().min(gathered.at + TOKENS_MAX);
            let asked = ask(&wanted[gathered.at..until]);
            let request = Request::Search { index: self.index, asked, skip: gathered.parts };
            let Response::Found { records, sealed } = self.channel.call(request).await? else {
                return Err(IndexError::Peer("something else than lists"));
            };
            gathered.take(&wanted[..until], &records, &sealed)?;
        }
        Ok(gathered.found.concat())
    }
}

fn ask(wanted: &[Wanted]) -> Vec<Asked> {
    wanted
        .chunk_by(|left, right| left.instance.facts.id == right.instance.facts.id)
        .filter_map(|lists| {
            let instance = lists.first()?.instance.facts.id;
            Some(Asked { instance, tokens: lists.iter().map(|list| list.token).collect() })
        })
        .collect()
}

/// What has come of the lists.
struct Gathered {
    width: Width,
    root: Node,
    found: Vec<Vec<Record>>,
    /// The list that is not complete yet.
    at: usize,
    /// Its cells and blocks that are there.
    parts: u32,
}

impl Gathered {
    /// Takes a reply apart, opens what is in it, and goes on by at least a cell.
    fn take(&mut self, wanted: &[Wanted], records: &[u32], sealed: &Blob) -> Result<(), IndexError> {
        let mut sealed = sealed.as_slice();
        if records.is_empty() {
            return Err(IndexError::Peer("a reply without lists"));
        }
        for (position, count) in records.iter().enumerate() {
            let list = wanted.get(self.at).ok_or(IndexError::Peer("more lists than were asked for"))?;
            let before = self.parts;
            if self.list(list, *count, &mut sealed)? {
                (self.at, self.parts) = (self.at + 1, 0);
            } else if position + 1 < records.len() || self.parts == before {
                return Err(IndexError::Peer("a list that ends early"));
            }
        }
        if sealed.is_empty() { Ok(()) } else { Err(IndexError::Peer("more than the lists asked for")) }
    }

    /// Opens the parts of a list of `count` records that are there; true if it is complete.
    fn list(&mut self, list: &Wanted, count: u32, sealed: &mut &[u8]) -> Result<bool, IndexError> {
        let Facts { shape, records, .. } = list.instance.facts;
        if count > records || (list.node == self.root && count != records) {
            return Err(IndexError::Peer("a list of another length"));
        }
        if count == 0 {
            return if self.parts == 0 { Ok(true) } else { Err(IndexError::Peer("a list that vanishes")) };
        }
        let layout = shape.layout(count).ok_or(IndexError::Peer("a list that is too long"))?;
        while self.parts < layout.parts() {
            let bytes = if self.parts < layout.cells {
                shape.sealed_cell_bytes()
            } else {
                shape.sealed_block_bytes()
            };
            let Some((body, rest)) = sealed.split_at_checked(bytes) else {
                break;
            };
            *sealed = rest;
            let part = Part { node: list.node, records: count, position: self.parts };
            let (first, until, _) = part_records(&shape, &layout, count, self.parts);
            let found = self.found.get_mut(list.place).ok_or(OpenFailed)?;
            list.instance.keys.open(self.width, part, (until - first) as usize, body, found)?;
            self.parts += 1;
        }
        Ok(self.parts >= layout.parts())
    }
}
