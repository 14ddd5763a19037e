//! A real Cassandra for measurements and tests: private nodes on addresses of the loopback, gone with their handle. Maven
//! brings it; it runs on a JDK of 17.

use crate::private_redis::free_port_on;
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a node may take until it is one of the ring, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(300);

/// What of the JDK's own Cassandra reaches into, as its own start script says.
const OPENED: [&str; 14] = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
];

/// The same, of what is not exported.
const EXPORTED: [&str; 6] = [
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
];

/// Says no more than what goes wrong.
const LOGGING: &str = include_str!("../cassandra/logging.xml");

/// What Maven has said, once it was asked.
static CLASS_PATH: Mutex<Option<String>> = Mutex::new(None);

/// The machine's turn for rings, as long as it or a ring that was started in it is there. Those of several processes, or of
/// several tests, at once are too much for a small machine, and answer too late.
#[derive(Clone)]
pub struct Turn {
    _locked: Arc<File>,
}

impl Turn {
    /// Waits for it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn take() -> io::Result<Self> {
        let file = File::create(std::env::temp_dir().join("arras-cassandra.lock"))?;
        file.lock()?;
        Ok(Self { _locked: Arc::new(file) })
    }
}

/// Nodes of one ring.
pub struct PrivateCassandra {
    nodes: Vec<Child>,
    port: u16,
    folder: TempDir,
    _turn: Turn,
}

impl PrivateCassandra {
    /// Starts a ring of so many nodes when there is no other.
    ///
    /// # Errors
    /// As [`Self::start_in`].
    pub fn start(nodes: u8) -> io::Result<Self> {
        Self::start_in(nodes, Turn::take()?)
    }

    /// Starts a ring of so many nodes, one after the other, as Cassandra wants it, beside others of the same turn.
    ///
    /// # Errors
    /// Maven or a JDK is not there, or a node does not come up.
    pub fn start_in(nodes: u8, turn: Turn) -> io::Result<Self> {
        let classes = class_path()?;
        let addresses: Vec<Ipv4Addr> = (1..=nodes).map(address).collect();
        let (inner, port) = (free_port_on(&addresses)?, free_port_on(&addresses)?);
        let mut started = Self { nodes: Vec::new(), port, folder: tempfile::tempdir()?, _turn: turn };
        for place in 0..nodes {
            started.start_node(place, inner, &classes)?;
        }
        Ok(started)
    }

    fn start_node(&mut self, place: u8, inner: u16, classes: &str) -> io::Result<()> {
        let directory = self.folder.path().join(place.to_string());
        fs::create_dir(&directory)?;
        let shown = directory.display();
        let logging = directory.join("logging.xml");
        fs::write(&logging, LOGGING)?;
        fs::write(
            directory.join("cassandra.yaml"),
            configuration(&directory, address(place + 1), inner, self.port),
        )?;
        let said = File::create(directory.join("said"))?;
        let mut node = Command::new("java");
        node.args(["-Xms512m", "-Xmx512m", "-Xss512k"]);
        for (flag, modules) in [("--add-opens", &OPENED[..]), ("--add-exports", &EXPORTED[..])] {
            for module in modules {
                node.arg(flag).arg(format!("{module}=ALL-UNNAMED"));
            }
        }
        node.arg("--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED");
        node.arg(format!("-Dcassandra.config=file://{shown}/cassandra.yaml"));
        node.arg(format!("-Dcassandra.storagedir={shown}"));
        node.arg(format!("-Dlogback.configurationFile={}", logging.display()));
        node.args(["-Dcassandra.ring_delay_ms=5000", "-Dcassandra.skip_wait_for_gossip_to_settle=0"]);
        node.args([
            "-Dcassandra-foreground=yes",
            "-cp",
            classes,
            "org.apache.cassandra.service.CassandraDaemon",
        ]);
        node.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        self.nodes.push(node.spawn()?);
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect((address(place + 1), self.port)).is_err() {
            let ended = self.nodes.last_mut().map(Child::try_wait).transpose()?.flatten();
            if ended.is_some() || Instant::now() > end {
                let said = fs::read_to_string(directory.join("said")).unwrap_or_default();
                return Err(io::Error::other(format!("Cassandra's node {place} does not come up:\n{said}")));
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The nodes' addresses.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        (1..).map(address).zip(&self.nodes).map(|(address, _)| format!("{address}:{}", self.port)).collect()
    }

    /// Numbers of the nodes' processes.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.nodes.iter().map(Child::id).collect()
    }

    /// Kills a node, as a lost machine would.
    ///
    /// # Errors
    /// There is none at that place, or it cannot be killed.
    pub fn kill(&mut self, place: usize) -> io::Result<()> {
        let node = self.nodes.get_mut(place).ok_or_else(|| io::Error::other("no such node"))?;
        node.kill()?;
        node.wait().map(drop)
    }
}

impl Drop for PrivateCassandra {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, last)
}

fn configuration(directory: &Path, address: Ipv4Addr, inner: u16, port: u16) -> String {
    let mut text = String::from(
        "cluster_name: arras\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\nnum_tokens: 16\n\
         endpoint_snitch: SimpleSnitch\ncommitlog_sync: periodic\ncommitlog_sync_period: 1000ms\n",
    );
    let first = self::address(1);
    let settings = [
        ("listen_address", address.to_string()),
        ("rpc_address", address.to_string()),
        ("storage_port", inner.to_string()),
        ("native_transport_port", port.to_string()),
        (
            "seed_provider",
            format!(
                "[{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: \"{first}:{inner}\"}}]}}]"
            ),
        ),
        ("data_file_directories", format!("[{}/data]", directory.display())),
    ];
    let folders = ["commitlog_directory", "saved_caches_directory", "hints_directory", "cdc_raw_directory"];
    let folders = folders.map(|name| (name, format!("{}/{name}", directory.display())));
    for (name, value) in settings.into_iter().chain(folders) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}: {value}");
    }
    text
}

/// Where Maven has put what Cassandra is made of.
fn class_path() -> io::Result<String> {
    let mut known = CLASS_PATH.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*known {
        return Ok(known.clone());
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("class-path");
    let mut maven = Command::new("mvn");
    maven.args([
        "--batch-mode",
        "--quiet",
        "--file",
        concat!(env!("CARGO_MANIFEST_DIR"), "/cassandra/pom.xml"),
    ]);
    maven.arg("dependency:build-classpath").arg(format!("-Dmdep.outputFile={}", file.display()));
    let asked = maven.stdin(Stdio::null()).output()?;
    let found = fs::read_to_string(&file);
    let found = found.map_err(|_| io::Error::other(String::from_utf8_lossy(&asked.stdout).into_owned()))?;
    Ok(known.insert(found).clone())
}
