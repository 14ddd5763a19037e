//! An enclave in SGX, under Gramine, from what the processor would say of it to the client that judges it. There is neither here: Gramine is
//! played by a script that starts the program with a folder of such files, the processor by the sample of `kat/attestation`, which is
//! signed, and so about what it was asked for.

use crate::attested::refusal;
use crate::deployment::Deployment;
use crate::process::{Ended, command, executable, run};
use arras_attestation::evidence::Refusal;
use arras_attestation::policy::ReleasePolicy;
use arras_host::gramine::GramineQuotes;
use arras_protocol::evidence::Evidence;
use arras_schemes::bisen::channel::SECURITY_VERSION;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use tempfile::TempDir;

const QUOTE: &[u8] = include_bytes!("../../../kat/attestation/sgx_quote.bin");
const COLLATERAL: &str = include_str!("../../../kat/attestation/sgx_quote_collateral.json");
const MANIFEST: &str = include_str!("../../../enclave/gramine/arras-enclave.manifest.template");

/// When the collateral held: 25 June 2025.
const NOW: u64 = 1_750_809_600;

/// Where a quote of SGX has its report data.
const DATA: std::ops::Range<usize> = 368..432;

/// What the sample's platform was told, and a policy that puts up with it.
const HARDENING: &str = "statuses = [\"ConfigurationAndSWHardeningNeeded\"]";

fn policy(measurement: &str, more: &str) -> ReleasePolicy {
    let text = format!(
        "administrator = \"ada\"\n[[accept]]\nbackend = \"sgx\"\nmeasurements = [\"{measurement}\"]\n{HARDENING}\n{more}"
    );
    ReleasePolicy::read(&text).unwrap()
}

#[test]
fn a_quote_of_sgx_comes_to_a_client_that_accepts_it() {
    let data: [u8; 64] = QUOTE[DATA].try_into().unwrap();
    let measured: String = QUOTE[112..144].iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("collateral.json");
    fs::write(&file, COLLATERAL).unwrap();
    let judged = |brought: Option<PathBuf>, measurement: &str, more: &str| {
        let evidence = GramineQuotes::new(brought).evidence(QUOTE, &data).unwrap();
        // As it comes out of the enclave's certificate.
        let evidence = Evidence::decode(&arras_protocol::codec::encode(&evidence)).unwrap();
        policy(measurement, more).judge_room(&evidence, &data, NOW)
    };
    let newest = "evaluation_min = 17";
    assert_eq!(judged(Some(file.clone()), &measured, newest).unwrap().measurement, QUOTE[112..144]);
    let other = judged(Some(file), &"00".repeat(32), newest);
    assert_eq!(other, Err(Refusal::Measurement(measured.clone())));
    // Collateral that the host does not bring, the policy has.
    assert_eq!(judged(None, &measured, newest), Err(Refusal::Collateral));
    assert!(judged(None, &measured, &format!("collateral = '''{COLLATERAL}'''")).is_ok());
}

/// Gramine, and its files.
struct Gramine {
    folder: TempDir,
}

impl Gramine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let gramine = Self { folder };
        fs::create_dir(gramine.at("keys")).unwrap();
        fs::write(gramine.at("keys/_sgx_mrenclave"), [7; 16]).unwrap();
        fs::write(gramine.at("user_report_data"), [0xff; 64]).unwrap();
        symlink(executable("arras-enclave"), gramine.at("arras-enclave")).unwrap();
        fs::write(gramine.at("arras-enclave.sig"), signature()).unwrap();
        assert!(Command::new("mkfifo").arg(gramine.at("quote")).status().unwrap().success());
        // It is told the program's name, in the program's folder, and puts what a program says on standard error where its frames are.
        gramine.starts(&format!("exec \"./$1\" --gramine '{}' 2>&1", gramine.folder.path().display()));
        gramine
    }

    fn at(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn starts(&self, script: &str) {
        fs::write(self.at("gramine-sgx"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.at("gramine-sgx"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Gives one quote, made of what is to be bound.
    fn quotes(&self, quote: impl FnOnce(&[u8]) -> Vec<u8> + Send + 'static) {
        let [pipe, data] = [self.at("quote"), self.at("user_report_data")];
        thread::spawn(move || {
            // Opened when the enclave opens it.
            let mut pipe = fs::File::options().write(true).open(pipe).unwrap();
            pipe.write_all(&quote(&fs::read(data).unwrap())).unwrap();
        });
    }

    /// A host that has it start the enclave.
    fn host(&self, deployment: &Deployment) -> Command {
        let mut host = of(deployment, &self.at("arras-enclave"));
        host.arg("--gramine").arg("--gramine-loader").arg(self.at("gramine-sgx"));
        host
    }
}

/// A host that is yet to be told how the enclave is started, and who vouches for it.
fn bare(deployment: &Deployment) -> Command {
    of(deployment, &executable("arras-enclave"))
}

fn of(deployment: &Deployment, enclave: &Path) -> Command {
    let folder = deployment.folder.path();
    let mut host = command("arras-host", "info");
    host.args(["--listen", "127.0.0.1:0", "--administrator", "ada", "--data-dir"]).arg(folder.join("data"));
    host.arg("--authority").arg(folder.join("ca.pem"));
    host.arg("--enclave").arg(enclave);
    host
}

/// A signature of nobody's (SIGSTRUCT), of an enclave that measures [7; 32].
fn signature() -> Vec<u8> {
    let mut signature = vec![0; 1808];
    for (at, words) in [(0, [6, 0xe1, 0x10000, 0]), (24, [0x101, 0x60, 0x60, 1_u32])] {
        signature[at..at + 16].copy_from_slice(&words.map(u32::to_le_bytes).concat());
    }
    signature[960..992].fill(7);
    signature
}

/// The sample about something else, as nobody but the processor can sign it.
fn forged(data: &[u8]) -> Vec<u8> {
    let mut quote = QUOTE.to_vec();
    quote[DATA].copy_from_slice(data);
    quote
}

#[test]
fn the_enclave_s_own_quote_comes_to_clients_who_see_that_it_is_forged() {
    let (deployment, gramine) = (Deployment::new(), Gramine::new());
    gramine.quotes(forged);
    let file = deployment.folder.path().join("collateral.json");
    fs::write(&file, COLLATERAL).unwrap();
    let mut host = gramine.host(&deployment);
    host.arg("--collateral").arg(&file);
    let (host, address) = deployment.begin(host);
    let log = fs::read_to_string(deployment.folder.path().join("log")).unwrap();
    let measured = format!("mrenclave=\"{}\"", "07".repeat(32));
    assert!(log.contains(&measured) && !log.contains("measurement="), "{log}");
    let refused = refusal(&address, &deployment, policy(&"00".repeat(32), "evaluation_min = 17"));
    assert!(matches!(refused, Refusal::Quote(_)), "{refused}");
    host.kill();
}

#[test]
fn an_enclave_without_walls_is_vouched_for_by_its_quote_alone() {
    let (deployment, gramine) = (Deployment::new(), Gramine::new());
    gramine.quotes(forged);
    let mut host = bare(&deployment);
    host.arg("--development-root").arg(deployment.folder.path().join("root"));
    host.args(["--enclave-argument=--gramine", "--enclave-argument"]).arg(gramine.folder.path());
    let (host, address) = deployment.begin(host);
    assert_eq!(refusal(&address, &deployment, deployment.policy()), Refusal::Debug);
    host.kill();
}

#[test]
fn a_host_says_what_is_missing_and_ends() {
    let deployment = Deployment::new();
    let says = |ended: Ended, what: &str| {
        assert!(ended.code != Some(0) && ended.stderr.contains(what), "{what}: {}", ended.stderr);
    };
    let gramine = Gramine::new();
    gramine.quotes(|_| QUOTE.to_vec());
    says(run(gramine.host(&deployment)), "does not hold what the enclave asked");
    gramine.quotes(|_| Vec::new());
    says(run(gramine.host(&deployment)), "no quote of its own");
    gramine.quotes(|_| b"no quote".to_vec());
    says(run(gramine.host(&deployment)), "none of SGX, version 3: it has 8 bytes");
    fs::remove_file(gramine.at("quote")).unwrap();
    says(run(gramine.host(&deployment)), "sgx.remote_attestation = \"dcap\"");
    fs::remove_dir_all(gramine.at("keys")).unwrap();
    says(run(gramine.host(&deployment)), "it does not run in SGX");
    // A manifest that has the program run as a process.
    let key = deployment.folder.path().join("key");
    gramine.starts(&format!("exec \"./$1\" --sealing-key '{}'", key.display()));
    says(run(gramine.host(&deployment)), "no quote of its own");
    fs::remove_file(gramine.at("gramine-sgx")).unwrap();
    says(run(gramine.host(&deployment)), "gramine-sgx: No such file");
    fs::write(gramine.at("arras-enclave.sig"), &signature()[1..]).unwrap();
    says(run(gramine.host(&deployment)), "arras-enclave.sig: a signature by gramine-sgx-sign is expected");
    fs::remove_file(gramine.at("arras-enclave.sig")).unwrap();
    says(run(gramine.host(&deployment)), "arras-enclave.sig: No such file");
}

/// What is waited for the log says; then the host ends, though what it waits for does not.
#[test]
fn who_hangs_instead_of_quoting_is_named_and_not_waited_for_ever() {
    let (deployment, gramine) = (Deployment::new(), Gramine::new());
    let mut sgx = gramine.host(&deployment);
    sgx.args(["--evidence-wait", "5"]);
    // Another tool of the name, which hangs as long as it is there.
    let tools = tempfile::tempdir().unwrap();
    let tool = tools.path().join("tpm2_quote");
    fs::write(&tool, "#!/bin/sh\nwhile [ -e \"$0\" ]; do sleep 0.1; done\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let mut tpm = deployment.unvouched(&[]);
    tpm.arg("--authority").arg(deployment.folder.path().join("ca.pem"));
    tpm.args(["--tpm-key", "0x81010002", "--tpm-registers", "sha256:0", "--evidence-wait", "5"]);
    tpm.env("PATH", format!("{}:/usr/bin:/bin", tools.path().display()));
    for (host, what) in [(sgx, "Intel's quoting service (aesmd)"), (tpm, "the TPM's quote (tpm2_quote)")] {
        let ended = run(host);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let said = |words: &str| {
            let mut lines = ended.stderr.lines();
            assert!(lines.any(|line| line.contains(what) && line.contains(words)), "{}", ended.stderr);
        };
        said("has not come in 1 s; it is waited for 5 s");
        said("arras-host: evidence of the enclave: ");
        said("has not come in 5 s");
    }
}

#[test]
fn options_for_gramine_go_with_nothing_else() {
    let (deployment, gramine) = (Deployment::new(), Gramine::new());
    let ended = |arguments: &[&str]| {
        let mut host = bare(&deployment);
        host.args(arguments);
        run(host)
    };
    let loader = gramine.at("gramine-sgx");
    let loader = ["--gramine-loader", loader.to_str().unwrap()];
    for (given, others) in [
        (&["--gramine"][..], &["--tsm"][..]),
        (&["--gramine"], &["--development-root", "root"]),
        (&["--gramine"], &["--tpm-key", "1", "--tpm-registers", "sha256:0"]),
        (&["--gramine"], &["--vcek", "file"]),
        (&["--gramine"], &["--tsm-folder", "folder"]),
        (&["--gramine"], &["--enclave-argument=--debug"]),
        (&loader, &[]),
        (&loader, &["--tsm"]),
        (&loader, &["--development-root", "root"]),
        (&["--collateral", "file"], &["--development-root", "root"]),
    ] {
        let ended = ended(&[given, others].concat());
        assert_eq!(ended.code, Some(2), "{given:?} {others:?}: {}", ended.stderr);
    }
}

/// What the documentation promises of it, read as what it will be.
#[test]
fn the_manifest_leaves_nothing_to_the_host() {
    let manifest: toml::Table = MANIFEST.parse().unwrap();
    let (loader, sgx) = (&manifest["loader"], &manifest["sgx"]);
    let texts = |value: &toml::Value| {
        let texts = value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts(&loader["argv"]), ["arras-enclave", "--gramine", "/dev/attestation"]);
    assert_eq!(sgx["debug"].as_bool(), Some(false));
    assert_eq!(sgx["edmm_enable"].as_bool(), Some(false));
    assert_eq!(sgx["remote_attestation"].as_str(), Some("dcap"));
    assert_eq!(sgx["isvsvn"].as_integer(), Some(SECURITY_VERSION.into()));
    assert_eq!(loader["log_level"].as_str(), Some("error"), "others may say what is secret");
    // The environment is this variable, and no file is not measured.
    let environment: Vec<&String> = loader["env"].as_table().unwrap().keys().collect();
    assert_eq!(environment, ["LD_LIBRARY_PATH"]);
    assert_eq!((sgx["enclave_size"].as_str(), sgx["max_threads"].as_integer()), (Some("1G"), Some(4)));
    assert!(manifest["fs"].get("root").is_none(), "all files that it has are named");
    let whole = ["insecure", "passthrough", "allowed_files", "file_check_policy", "use_exinfo", "encrypted"];
    for without in whole.into_iter().chain(["argv_src_file", "env_src_file", "seal_key"]) {
        assert!(!MANIFEST.lines().any(|line| !line.starts_with('#') && line.contains(without)), "{without}");
    }
    let mounted = |mount: &toml::Value| mount["uri"].as_str().unwrap().to_owned();
    let trusted = texts(&sgx["trusted_files"]);
    for file in manifest["fs"]["mounts"].as_array().unwrap().iter().map(mounted) {
        assert!(trusted.iter().any(|of| of.trim_end_matches('/') == file), "{file}");
    }
    assert!(Path::new(manifest["libos"]["entrypoint"].as_str().unwrap()).ends_with("arras-enclave"));
}
