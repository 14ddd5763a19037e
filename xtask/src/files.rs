//! Which files belong to the repository.

use std::path::Path;
use std::process::Command;

/// Folders that are built, not written.
const BUILT: [&str; 5] = [".git", "target", "node_modules", "__pycache__", ".venv"];

/// Tracked files and files git would track, sorted, with forward slashes; without git, every file outside of
/// build folders.
///
/// # Errors
/// If a folder cannot be read.
pub fn list(root: &Path) -> Result<Vec<String>, String> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    if let Ok(output) = Command::new("git").args(arguments).current_dir(root).output()
        && output.status.success()
    {
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut paths: Vec<String> =
            names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        // A file removed from the working copy but not yet from the index is no longer there.
        paths.retain(|path| root.join(path).is_file());
        paths.sort();
        paths.dedup();
        return Ok(paths);
    }
    let mut paths = Vec::new();
    walk(root, "", &mut paths)?;
    paths.sort();
    Ok(paths)
}

fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> Result<(), String> {
    let here = root.join(folder);
    let entries = std::fs::read_dir(&here).map_err(|error| format!("{}: {error}", here.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && !BUILT.contains(&name.as_str()) {
            walk(root, &path, paths)?;
        } else if !is_folder {
            paths.push(path);
        }
    }
    Ok(())
}
