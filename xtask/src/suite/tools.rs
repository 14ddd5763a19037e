//! What the tests need beside Rust, installed with apt where it is missing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Something a step needs.
#[derive(Debug)]
pub(super) struct Tool {
    /// Its name in messages.
    pub(super) name: &'static str,
    /// A command that succeeds if it is there.
    probe: &'static [&'static str],
    /// The Debian and Ubuntu packages that bring it.
    packages: &'static [&'static str],
}

/// A C++ compiler, for libFuzzer.
pub(super) const CXX: Tool =
    Tool { name: "a C++ compiler", probe: &["c++", "--version"], packages: &["g++"] };

/// Chromium, and Node.js 18 or newer with npm to drive it.
pub(super) const BROWSER: [Tool; 3] =
    [Tool { name: "Chromium", probe: &["chromium", "--version"], packages: &["chromium"] }, NODE, NPM];

const NODE: Tool = Tool {
    name: "Node.js 18 or newer",
    probe: &["node", "-e", "process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)"],
    packages: &["nodejs"],
};

const NPM: Tool = Tool { name: "npm", probe: &["npm", "--version"], packages: &["npm"] };

/// PostgreSQL's server and its own programs, where Debian's packages put them or where the tests are told that they are.
pub(super) const POSTGRES: Tool = Tool {
    name: "PostgreSQL",
    probe: &[
        "sh",
        "-c",
        "for at in \"$ARRAS_POSTGRES_BIN\" /usr/lib/postgresql/*/bin \"$(dirname \"$(command -v initdb)\")\"; do \
         test -x \"$at/initdb\" && test -x \"$at/psql\" && exit 0; done; exit 1",
    ],
    packages: &["postgresql"],
};

/// Redis's server and its command line.
pub(super) const REDIS: Tool = Tool {
    name: "Redis",
    probe: &["sh", "-c", "redis-server --version && redis-cli --version"],
    packages: &["redis-server", "redis-tools"],
};

/// A TPM in software, and what asks it.
pub(super) const TPM: Tool = Tool {
    name: "a TPM in software",
    probe: &["sh", "-c", "swtpm --version && tpm2_quote --version"],
    packages: &["swtpm", "tpm2-tools"],
};

const PYTHON: Tool = Tool {
    name: "Python 3 with venv",
    probe: &["python3", "-c", "import venv, ensurepip"],
    packages: &["python3", "python3-venv", "python3-pip"],
};

/// What compiles and runs Java.
pub(super) const JDK: Tool = Tool {
    name: "a JDK 17 or newer",
    probe: &["javac", "--release", "17", "--version"],
    packages: &["default-jdk-headless"],
};

/// What brings and builds Java.
pub(super) const MAVEN: Tool = Tool { name: "Maven", probe: &["mvn", "--version"], packages: &["maven"] };

/// Python with venv and pip, Node.js 18 or newer with npm, Maven with a JDK 17 or newer.
pub(super) const DRIVERS: [Tool; 5] = [PYTHON, NODE, NPM, JDK, MAVEN];

/// The same, and PostgreSQL.
pub(super) const POSTGRES_DRIVERS: [Tool; 6] = [POSTGRES, PYTHON, NODE, NPM, JDK, MAVEN];

/// Where a command's executable is.
pub(super) fn on_path(command: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|path| path.is_file())
}

fn succeeds(command: &[&str]) -> bool {
    let Some((program, arguments)) = command.split_first() else {
        return false;
    };
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Installs what is missing; for each tool that is still missing then, what to do about it.
pub(super) fn install<'a>(needed: impl Iterator<Item = &'a Tool>) -> BTreeMap<&'static str, String> {
    let mut missing: BTreeMap<&'static str, &Tool> = BTreeMap::new();
    for tool in needed.filter(|tool| !succeeds(tool.probe)) {
        missing.insert(tool.name, tool);
    }
    if missing.is_empty() {
        return BTreeMap::new();
    }
    let packages: Vec<&str> = missing.values().flat_map(|tool| tool.packages.iter().copied()).collect();
    println!("missing: {}", missing.keys().copied().collect::<Vec<_>>().join(", "));
    let attempt = apt(&packages);
    let mut unmet = BTreeMap::new();
    for (name, tool) in missing.iter().filter(|(_, tool)| !succeeds(tool.probe)) {
        let why = attempt.as_ref().err().map_or("the packages do not bring it", String::as_str);
        unmet.insert(
            *name,
            format!("{name} is missing ({why}); install it, e.g. {}", tool.packages.join(" ")),
        );
    }
    unmet
}

fn apt(packages: &[&str]) -> Result<(), String> {
    if !succeeds(&["apt-get", "--version"]) {
        return Err("there is no apt-get here".into());
    }
    let prefix: &[&str] = if nix::unistd::geteuid().is_root() { &[] } else { &["sudo", "-n"] };
    if !prefix.is_empty() && !succeeds(&["sudo", "-n", "true"]) {
        return Err("installing needs root, or sudo without a password".into());
    }
    let update = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "update"];
    let install = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-q",
        "install",
        "-y",
        "--no-install-recommends",
    ];
    for command in [update.to_vec(), [&install, packages].concat()] {
        let command = [prefix, &command].concat();
        println!("running: {}", command.join(" "));
        let (program, arguments) = command.split_first().ok_or("no command")?;
        let status =
            Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("`{}` failed", command.join(" ")));
        }
    }
    Ok(())
}
