//! A server of ours as the keeper of a tree.

use arras_protocol::mope::index::{ASKED_MAX, Change, Mope, Request, Response, Update};
use arras_protocol::mope::{Fetch, Fetched, Round, TreeChange, TreeStore};
use arras_protocol::{Channel, ChannelError, IndexId, Refusal};

/// Times that a fetch of several requests is begun anew because the tree changed in between.
const TRIES: usize = 8;

/// The tree of one index at the other end of a channel.
pub(super) struct Keeper<C> {
    pub(super) channel: C,
    pub(super) index: IndexId,
}

fn unexpected<T>() -> Result<T, ChannelError> {
    Err(ChannelError::Malformed("not the answer to a request for a tree".into()))
}

impl<C: Channel<Mope>> Keeper<C> {
    /// One request of a fetch, checked for what was asked.
    async fn some(&self, fetch: Fetch) -> Result<Fetched, ChannelError> {
        let (nodes, labels) = (fetch.nodes.len() + usize::from(fetch.root), fetch.ciphertexts.len());
        match self.channel.call(Request::Fetch { index: self.index, fetch }).await? {
            Response::Fetched(fetched) if fetched.nodes.len() == nodes && fetched.labels.len() == labels => {
                Ok(fetched)
            }
            _ => unexpected(),
        }
    }

    /// The requests that a fetch is cut into: what a server takes at once, and nodes of some megabytes.
    fn cut(fetch: Fetch) -> Vec<Fetch> {
        /// Nodes of at most some kilobytes each.
        const NODES_MAX: usize = 512;
        let Fetch { nodes, root, ciphertexts } = fetch;
        let mut cut = vec![Fetch { nodes: Vec::new(), root, ciphertexts: Vec::new() }];
        for some in nodes.chunks(NODES_MAX) {
            match cut.last_mut().filter(|first| first.nodes.is_empty()) {
                Some(first) => first.nodes = some.to_vec(),
                None => cut.push(Fetch { nodes: some.to_vec(), ..Fetch::default() }),
            }
        }
        for some in ciphertexts.chunks(ASKED_MAX) {
            match cut.first_mut().filter(|first| first.ciphertexts.is_empty()) {
                Some(first) => first.ciphertexts = some.to_vec(),
                None => cut.push(Fetch { ciphertexts: some.to_vec(), ..Fetch::default() }),
            }
        }
        cut
    }

    async fn whole(&self, fetch: Fetch) -> Result<Fetched, ChannelError> {
        let cut = Self::cut(fetch);
        for _ in 0..TRIES {
            let mut requests = cut.iter().cloned();
            let Some(first) = requests.next() else { return unexpected() };
            let mut whole = self.some(first.clone()).await?;
            // The root comes last, whatever is asked for with it.
            let root = if first.root { whole.nodes.pop() } else { None };
            let mut is_one = true;
            for next in requests {
                let Fetched { head, nodes, labels } = self.some(next).await?;
                is_one &= head == whole.head;
                whole.nodes.extend(nodes);
                whole.labels.extend(labels);
            }
            whole.nodes.extend(root);
            if is_one {
                return Ok(whole);
            }
        }
        Err(ChannelError::Malformed("a tree that does not stay".into()))
    }
}

impl<C: Channel<Mope>> TreeStore for Keeper<C> {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        Box::pin(self.whole(fetch))
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        let update = Update { tree: Some(Box::new(change)), ..Update::default() };
        let request = Request::Change(Change::Update { index: self.index, update });
        Box::pin(async move {
            match self.channel.call(request).await {
                Ok(Response::Done) => Ok(true),
                Ok(_) => unexpected(),
                Err(ChannelError::Refused(Refusal::OtherVersion { .. })) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// A server takes changes within writes alone.
    fn is_alone(&self) -> bool {
        false
    }
}
