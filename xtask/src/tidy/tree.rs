//! The repository's files in memory, so that a rule is a pure function and its test needs no disk.

use crate::metadata::{self, Metadata};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A file.
pub(super) struct File {
    /// Length in bytes.
    pub(super) bytes: usize,
    /// Content; empty if it is not text.
    pub(super) text: String,
    /// The syntax tree of a `.rs` file, or why there is none.
    pub(super) syntax: Option<Result<syn::File, syn::Error>>,
}

/// A crate.
#[derive(Debug)]
pub(super) struct Crate {
    /// Folder from the root, e.g. `trusted/keys`.
    pub(super) folder: String,
    /// Root files of its targets with their kind (`lib`, `bin`, `test`, ...), paths from the root.
    pub(super) targets: Vec<(String, String)>,
}

/// What is let pass by name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Exceptions {
    /// Files over the limit: path to lines.
    pub(super) file_lines: BTreeMap<String, usize>,
    /// Functions over the limit: `path::name` to lines.
    pub(super) function_lines: BTreeMap<String, usize>,
    /// Protocols that more files name than there should be: name to files.
    pub(super) protocol_files: BTreeMap<String, usize>,
    /// Files over the size limit: path to the reason.
    pub(super) large_files: BTreeMap<String, String>,
}

/// The repository.
pub(super) struct Tree {
    /// Files by path from the root, with forward slashes.
    pub(super) files: BTreeMap<String, File>,
    /// Crates of the workspace and those that are workspaces of their own.
    pub(super) crates: Vec<Crate>,
    /// What is let pass.
    pub(super) exceptions: Exceptions,
}

impl File {
    pub(super) fn new(path: &str, content: &[u8]) -> Self {
        let text = std::str::from_utf8(content).unwrap_or_default().to_owned();
        let syntax = path.ends_with(".rs").then(|| syn::parse_file(&text));
        Self { bytes: content.len(), text, syntax }
    }
}

impl Tree {
    /// Reads the repository at `root`.
    pub(super) fn load(root: &Path) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        for path in crate::files::list(root)? {
            let content = std::fs::read(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
            files.insert(path.clone(), File::new(&path, &content));
        }
        let crates = crates(&metadata::load_all(root)?, root);
        let exceptions = files.get("xtask/exceptions.toml").map_or("", |file| &file.text);
        let exceptions =
            toml::from_str(exceptions).map_err(|error| format!("xtask/exceptions.toml: {error}"))?;
        Ok(Self { files, crates, exceptions })
    }

    /// The folder of the crate that `path` belongs to, or the empty string.
    pub(super) fn crate_of(&self, path: &str) -> &str {
        let owns =
            |member: &&Crate| path.strip_prefix(&member.folder).is_some_and(|rest| rest.starts_with('/'));
        let deepest = self.crates.iter().filter(owns).max_by_key(|member| member.folder.len());
        deepest.map_or("", |member| &member.folder)
    }

    /// Every `.rs` file that parses, with its syntax tree.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &syn::File)> {
        self.files.iter().filter_map(|(path, file)| match &file.syntax {
            Some(Ok(syntax)) => Some((path.as_str(), syntax)),
            _ => None,
        })
    }

    /// Every text file that people write: no licence, no lock file, no vectors, and not the samples of these
    /// rules' own tests.
    pub(super) fn prose_and_code(&self) -> impl Iterator<Item = (&str, &str)> {
        let written = |path: &str| {
            !path.starts_with("kat/")
                && !path.starts_with("xtask/src/tidy/")
                && !path.starts_with("LICENSE")
                && !path.ends_with(".lock")
        };
        self.files
            .iter()
            .filter(move |(path, _)| written(path))
            .map(|(path, file)| (path.as_str(), file.text.as_str()))
    }
}

fn crates(workspace: &Metadata, root: &Path) -> Vec<Crate> {
    let describe = |package: &metadata::Package| Crate {
        folder: package.folder(root),
        targets: package
            .targets
            .iter()
            .map(|target| {
                let path = target.src_path.strip_prefix(root).unwrap_or(&target.src_path);
                (path.to_string_lossy().replace('\\', "/"), target.kind.first().cloned().unwrap_or_default())
            })
            .collect(),
    };
    workspace.packages.iter().map(describe).collect()
}
