//! The dependency graph of the workspace's own crates.

use crate::metadata::{Dependency, Metadata};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// A crate of this repository.
#[derive(Clone, Debug)]
pub(super) struct Crate {
    /// Package name.
    pub(super) name: String,
    /// Folder from the repository's root, e.g. `trusted/keys`.
    pub(super) folder: String,
    /// Declared dependencies on registry crates and on folders, as cargo lists them.
    pub(super) dependencies: Vec<Dependency>,
    /// Feature names and what each turns on.
    pub(super) features: BTreeMap<String, Vec<String>>,
}

impl Crate {
    /// The trust zone: the first path component.
    pub(super) fn zone(&self) -> &str {
        self.folder.split('/').next().unwrap_or_default()
    }
}

/// A declared dependency between two crates of this repository.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    /// Offset of the depending crate in [`Graph::crates`].
    pub(super) from: usize,
    /// Offset of the crate depended on.
    pub(super) to: usize,
    /// `dependency`, `dev-dependency` or `build-dependency`.
    pub(super) kind: String,
    /// Whether a feature must turn it on.
    pub(super) optional: bool,
    /// The name it has inside the depending crate.
    pub(super) alias: String,
}

/// The workspace's own crates and the edges between them.
#[derive(Debug)]
pub(super) struct Graph {
    /// Every member.
    pub(super) crates: Vec<Crate>,
    /// Every declared dependency from one member to another.
    pub(super) edges: Vec<Edge>,
}

impl Graph {
    /// Reads the graph out of cargo's description.
    pub(super) fn new(workspace: &Metadata) -> Self {
        let root = &workspace.workspace_root;
        let crates: Vec<Crate> = workspace
            .packages
            .iter()
            .map(|package| Crate {
                name: package.name.clone(),
                folder: package.folder(root),
                dependencies: package.dependencies.clone(),
                features: package.features.clone(),
            })
            .collect();
        let mut edges = Vec::new();
        for (from, package) in crates.iter().enumerate() {
            for dependency in &package.dependencies {
                let Some(folder) = dependency.path.as_deref().map(|path| relative(root, path)) else {
                    continue;
                };
                let Some(to) = crates.iter().position(|other| other.folder == folder) else {
                    continue;
                };
                let kind = dependency
                    .kind
                    .as_deref()
                    .map_or("dependency".into(), |kind| format!("{kind}-dependency"));
                let alias = dependency.rename.clone().unwrap_or_else(|| dependency.name.clone());
                edges.push(Edge { from, to, kind, optional: dependency.optional, alias });
            }
        }
        Self { crates, edges }
    }

    /// For every crate reachable from `start`, the edges of one shortest way there.
    pub(super) fn ways_from(&self, start: usize) -> BTreeMap<usize, Vec<usize>> {
        let mut ways: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut seen = BTreeSet::from([start]);
        let mut queue = VecDeque::from([(start, Vec::new())]);
        while let Some((at, way)) = queue.pop_front() {
            for (offset, edge) in self.edges.iter().enumerate().filter(|(_, edge)| edge.from == at) {
                if seen.insert(edge.to) {
                    let longer: Vec<usize> = way.iter().copied().chain([offset]).collect();
                    ways.insert(edge.to, longer.clone());
                    queue.push_back((edge.to, longer));
                }
            }
        }
        ways
    }

    /// A way in words: `a -> b (dev-dependency) -> c`.
    pub(super) fn describe(&self, way: &[usize]) -> String {
        let mut words = String::new();
        for edge in way.iter().map(|offset| &self.edges[*offset]) {
            if words.is_empty() {
                words.push_str(&self.crates[edge.from].folder);
            }
            words.push_str(" -> ");
            words.push_str(&self.crates[edge.to].folder);
            if edge.kind != "dependency" {
                words.push_str(&format!(" ({})", edge.kind));
            }
            if edge.optional {
                words.push_str(" (optional)");
            }
        }
        words
    }
}

/// `path` from `root`, with forward slashes.
pub(super) fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
