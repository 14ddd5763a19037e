//! The workspace as `cargo metadata` describes it, reduced to what the checks read.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A workspace.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    /// Its member packages (asked with `--no-deps`, so nothing else).
    pub packages: Vec<Package>,
    /// The folder of the root manifest.
    pub workspace_root: PathBuf,
}

/// A member package.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    /// Name on the registry.
    pub name: String,
    /// Path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// Every declared dependency: of any kind, optional or not, for any platform.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
    /// Feature names and what each turns on.
    #[serde(default)]
    pub features: std::collections::BTreeMap<String, Vec<String>>,
    /// What cargo builds from it.
    #[serde(default)]
    pub targets: Vec<Target>,
}

/// A declared dependency.
#[derive(Clone, Debug, Deserialize)]
pub struct Dependency {
    /// Name of the package depended on.
    pub name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub kind: Option<String>,
    /// Whether a feature must turn it on.
    #[serde(default)]
    pub optional: bool,
    /// Features of it that are asked for.
    #[serde(default)]
    pub features: Vec<String>,
    /// The folder it is in, if it is given by path.
    pub path: Option<PathBuf>,
    /// Where it comes from, if not by path.
    pub source: Option<String>,
    /// The name it has inside the package, if another.
    pub rename: Option<String>,
}

/// A library, binary, test, bench, example or build script.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// `lib`, `bin`, `test`, `bench`, `example`, `custom-build`.
    pub kind: Vec<String>,
    /// Its root source file.
    pub src_path: PathBuf,
}

impl Package {
    /// The package's folder relative to `root`, with forward slashes.
    pub fn folder(&self, root: &Path) -> String {
        let folder = self.manifest_path.parent().unwrap_or(Path::new(""));
        folder.strip_prefix(root).unwrap_or(folder).to_string_lossy().replace('\\', "/")
    }
}

/// The repository's root folder.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Asks cargo for the workspace whose manifest is `manifest`.
///
/// # Errors
/// What cargo said, if it could not read the manifests.
pub fn load(manifest: &Path) -> Result<Metadata, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"])
        .arg(manifest)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// The workspace at `root`, and beside its members every crate of the repository that is a workspace of its own
/// (`fuzz`, a comparison with rivals).
///
/// # Errors
/// What cargo said, if it could not read a manifest.
pub fn load_all(root: &Path) -> Result<Metadata, String> {
    let mut workspace = load(&root.join("Cargo.toml"))?;
    for manifest in outlying(root, &workspace)? {
        workspace.packages.extend(load(&manifest)?.packages);
    }
    Ok(workspace)
}

/// The manifests of crates that are not members of `workspace`.
///
/// # Errors
/// If the repository's files cannot be listed.
pub fn outlying(root: &Path, workspace: &Metadata) -> Result<Vec<PathBuf>, String> {
    let files = crate::files::list(root)?;
    let manifests = files.iter().filter(|path| path.ends_with("/Cargo.toml")).map(|path| root.join(path));
    let member =
        |manifest: &PathBuf| workspace.packages.iter().any(|package| package.manifest_path == *manifest);
    Ok(manifests.filter(|manifest| !member(manifest)).collect())
}
