//! Structure as the client asks for it: the directory, and trees.

use super::store::{TOP, View, damaged, storage};
use crate::keyspace::{borrow, prefix_range};
use arras_protocol::arx_range::{Response, TopNode};
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::{NodeId, Refusal, codec};
use arras_storage::{Direction, Read};
use std::ops::ControlFlow;

/// What a node costs in a reply besides its sealed record, in bytes, at most.
const NODE_BYTES: usize = 64;

/// Reads one entry of the directory.
fn top_entry(name: &[u8], value: &[u8]) -> Result<(NodeId, TopNode), Refusal> {
    let node = name.last_chunk::<{ NodeId::BYTES }>().ok_or_else(|| damaged(TOP.0))?;
    let record = codec::decode(value).map_err(|_| damaged(TOP.0))?;
    Ok((NodeId(*node), record))
}

/// The head and the top nodes named after `after`.
pub(super) fn load_top<R: Read>(view: &View<'_, R>, after: Option<NodeId>) -> Result<Response, Refusal> {
    let mut nodes = Vec::new();
    let mut more = false;
    let mut bytes = 0_usize;
    let mut failure = None;
    let range = prefix_range(view.index.as_bytes(), after.as_ref().map(|node| node.as_bytes().as_slice()));
    view.reader
        .scan(TOP, borrow(&range), Direction::Ascending, &mut |name, value| {
            if bytes > REPLY_BYTES_SOFT {
                more = true;
                return ControlFlow::Break(());
            }
            bytes = bytes.saturating_add(value.len()).saturating_add(NODE_BYTES);
            match top_entry(name, value) {
                Ok(entry) => nodes.push(entry),
                Err(refusal) => {
                    failure = Some(refusal);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })
        .map_err(storage)?;
    if let Some(refusal) = failure {
        return Err(refusal);
    }
    Ok(Response::Top { head_gap: view.head.gap, head_sealed: view.head.sealed.clone(), nodes, more })
}

/// Nodes below `roots`, parents first. Depth first, so that where the reply is cut few nodes are left to ask
/// for.
pub(super) fn load_trees<R: Read>(
    view: &View<'_, R>,
    roots: &[NodeId],
    depth: u32,
) -> Result<Response, Refusal> {
    let mut nodes = Vec::new();
    let mut bytes = 0_usize;
    // A structure that runs in circles ends with the reply's size: the client refuses a node it has seen.
    for &root in roots {
        let mut open = vec![(root, 1_u32)];
        while let Some((node, level)) = open.pop() {
            if level > depth {
                continue;
            }
            if bytes > REPLY_BYTES_SOFT {
                return Ok(Response::Trees(nodes));
            }
            let record = match view.node(node)? {
                Some(record) => record,
                None if level == 1 => return Err(Refusal::Malformed("no such tree node".into())),
                None => return Err(damaged("a child is missing")),
            };
            let below = level.saturating_add(1);
            open.extend(record.right.into_iter().chain(record.left).map(|child| (child, below)));
            bytes = bytes.saturating_add(record.sealed.len()).saturating_add(NODE_BYTES);
            nodes.push((node, record));
        }
    }
    Ok(Response::Trees(nodes))
}
