//! Reading lists.

use super::LogarithmicBrc;
use super::cover::Node;
use super::fences::{Found, Head, Known, are_all, beside};
use super::instance::{Part, Room, part_records, token_input};
use super::record::Record;
use super::state::{Facts, Instance};
use crate::error::{IndexError, OpenFailed};
use arras_protocol::logarithmic_brc::cjjkrs::SearchToken;
use arras_protocol::logarithmic_brc::{
    Asked, InstanceId, LogarithmicBrc as Protocol, Request, Response, TOKENS_MAX,
};
use arras_protocol::ore::Width;
use arras_protocol::{Blob, Channel};
use std::collections::BTreeSet;
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
    ///
    /// # Errors
    /// [`IndexError`]; [`IndexError::Peer`] also if the server denies a list.
    pub(super) async fn read_range(&self, lower: u64, upper: u64) -> Result<Vec<Record>, IndexError> {
        let cover = self.parameters.cover.of(lower, upper);
        let root = [Node::root(self.parameters.domain_bits)];
        let state = self.state.read().await;
        let nodes = |instance: &Instance| if instance.facts.flat { &root[..] } else { &cover[..] };
        let wanted = state
            .instances
            .iter()
            .rev()
            .flat_map(|instance| nodes(instance).iter().map(move |node| (Arc::clone(instance), *node)));
        let mut lists = self.read_lists(wanted.collect()).await?.into_iter();
        let (mut records, mut empty) = (Vec::new(), Vec::new());
        for instance in state.instances.iter().rev() {
            let found: Vec<Found> = lists.by_ref().take(nodes(instance).len()).collect();
            if !instance.facts.flat {
                match are_all(&found, lower, upper) {
                    Known::All => {}
                    Known::Nothing => empty.push(Arc::clone(instance)),
                    Known::Denied => return Err(DENIED),
                }
            }
            records.extend(found.into_iter().flat_map(|list| list.records));
        }
        self.show_empty(&empty, &cover, (lower, upper)).await?;
        Ok(records)
    }

    /// Has the server show that some instances have nothing in a range.
    async fn show_empty(
        &self,
        instances: &[Arc<Instance>],
        cover: &[Node],
        (lower, upper): (u64, u64),
    ) -> Result<(), IndexError> {
        let nodes = beside(cover, self.parameters.domain_bits);
        let wanted = instances
            .iter()
            .flat_map(|instance| nodes.iter().map(move |node| (Arc::clone(instance), *node)))
            .collect();
        let mut shown = BTreeSet::new();
        for (instance, head) in self.read_heads(wanted).await? {
            if head.shows_empty(lower, upper) {
                shown.insert(instance);
            }
        }
        if instances.iter().all(|instance| shown.contains(&instance.facts.id)) { Ok(()) } else { Err(DENIED) }
    }

    /// All records of some instances, in the order they are given.
    pub(super) async fn read_all(&self, instances: &[Arc<Instance>]) -> Result<Vec<Record>, IndexError> {
        let root = Node::root(self.parameters.domain_bits);
        let wanted = instances.iter().map(|instance| (Arc::clone(instance), root)).collect();
        Ok(self.read_lists(wanted).await?.into_iter().flat_map(|list| list.records).collect())
    }

    /// First cells of those of the lists that are there.
    async fn read_heads(
        &self,
        lists: Vec<(Arc<Instance>, Node)>,
    ) -> Result<Vec<(InstanceId, Head)>, IndexError> {
        let wanted = wanted(lists);
        let (mut rest, mut heads) = (&wanted[..], Vec::new());
        while !rest.is_empty() {
            let asked = ask(&rest[..rest.len().min(TOKENS_MAX)]);
            let request = Request::Heads { index: self.index, asked };
            let Response::Found { records, sealed } = self.channel.call(request).await? else {
                return Err(IndexError::Peer("something else than lists"));
            };
            let Some((answered, further)) =
                rest.split_at_checked(records.len()).filter(|_| !records.is_empty())
            else {
                return Err(IndexError::Peer("more lists than were asked for, or none"));
            };
            rest = further;
            let mut sealed = sealed.as_slice();
            for (list, records) in answered.iter().zip(records).filter(|(_, records)| *records > 0) {
                let head = self.head(list, records, &mut sealed)?;
                heads.push((list.instance.facts.id, head));
            }
            if !sealed.is_empty() {
                return Err(IndexError::Peer("more than the lists asked for"));
            }
        }
        Ok(heads)
    }

    /// Opens the first cell of a list of so many records.
    fn head(&self, list: &Wanted, records: u32, sealed: &mut &[u8]) -> Result<Head, IndexError> {
        let shape = list.instance.facts.shape;
        let layout = shape.layout(records).ok_or(IndexError::Peer("a list that is too long"))?;
        let (body, rest) =
            sealed.split_at_checked(shape.sealed_cell_bytes()).ok_or(IndexError::Peer("no whole cell"))?;
        *sealed = rest;
        let part = Part { node: list.node, records, position: 0 };
        let (first, until) = part_records(&shape, &layout, records, 0);
        let room = Room::of(self.parameters.width, &shape, &layout, 0);
        let mut found = Vec::new();
        let fences = list.instance.keys.open(room, part, (until - first) as usize, body, &mut found)?;
        let (Some(first), Some(fences)) = (found.first(), fences) else { return Err(OpenFailed.into()) };
        Ok(Head { node: list.node, first: *first, fences })
    }

    /// What is found of lists, in the order they are given. What the server sees is their instances' order by name and, within one,
    /// a random one.
    async fn read_lists(&self, lists: Vec<(Arc<Instance>, Node)>) -> Result<Vec<Found>, IndexError> {
        let wanted = wanted(lists);
        let mut gathered = Gathered {
            width: self.parameters.width,
            root: Node::root(self.parameters.domain_bits),
            found: wanted.iter().map(|_| Found::default()).collect(),
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
        Ok(gathered.found)
    }
}

const DENIED: IndexError = IndexError::Peer("a list of a range is denied");

/// Lists with their tokens, in the order in which they are asked for.
fn wanted(lists: Vec<(Arc<Instance>, Node)>) -> Vec<Wanted> {
    let wanted = lists.into_iter().zip(0..).map(|((instance, node), place)| {
        let mut token = [token_input(node)];
        instance.keys.tokens(&mut token);
        Wanted { instance, node, token: SearchToken(token[0]), place }
    });
    let mut wanted: Vec<Wanted> = wanted.collect();
    // Tokens are pseudorandom: their order is a random one.
    wanted.sort_unstable_by_key(|list| (list.instance.facts.id, list.token.0));
    wanted
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
    found: Vec<Found>,
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
            let (first, until) = part_records(&shape, &layout, count, self.parts);
            let room = Room::of(self.width, &shape, &layout, self.parts);
            let found = self.found.get_mut(list.place).ok_or(OpenFailed)?;
            let held = (until - first) as usize;
            let fences = list.instance.keys.open(room, part, held, body, &mut found.records)?;
            found.fences = found.fences.or(fences);
            self.parts += 1;
        }
        Ok(self.parts >= layout.parts())
    }
}
