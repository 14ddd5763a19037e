//! BCLO beside `pyope` of the Python package index, which runs as a child process and is asked for one encryption at a
//! time. `pip install pyope`; environment variable `PYTHON` names the interpreter if it is not `python3`.

use crate::table::{Table, Target};
use arras_keys::Key;
use arras_primitives::hypergeometric::Hypergeometric;
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_schemes::ore::OrderScheme;
use arras_schemes::ore::bclo::{Bclo, CACHED_STEPS};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Encrypts each line's number, and answers with the ciphertext.
const PYOPE: &str = "\
import sys
from pyope.ope import OPE, ValueRange
cipher = OPE(bytes(range(32)), ValueRange(0, 2**32 - 1), ValueRange(0, 2**64 - 1))
print('ready', flush=True)
for line in sys.stdin:
    print(cipher.encrypt(int(line)), flush=True)
";

struct Pyope {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Pyope {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Pyope {
    /// `None` if there is no Python or no `pyope`.
    fn start() -> Option<Self> {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| String::from("python3"));
        let mut process = Command::new(python)
            .args(["-c", PYOPE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .inspect_err(|error| eprintln!("Python does not start: {error}"))
            .ok()?;
        let questions = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut opponent = Self { process, questions, answers };
        (opponent.answer() == "ready").then_some(opponent)
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("readable");
        line.trim().to_string()
    }

    fn encrypt(&mut self, value: u32) -> u64 {
        writeln!(self.questions, "{value}").expect("it listens");
        self.answer().parse().expect("a ciphertext")
    }
}

/// Measures.
pub fn measure(table: &mut Table) {
    let mut pyope = Pyope::start();
    if pyope.is_none() {
        eprintln!("pyope is not there: pip install pyope");
    }
    let mut value = 1_u32;
    let mut theirs = pyope.as_mut().map(|pyope| {
        move || {
            value = value.wrapping_mul(0x9e37_79b1);
            black_box(pyope.encrypt(value));
        }
    });
    let mut opponent = theirs.as_mut().map(|work| ("pyope", work as &mut dyn FnMut()));
    let cold = [Target::Ns(220_000.0), Target::Faster(20.0)];
    for (width, bits) in [(Width::Bits32, "32 to 64"), (Width::Bits64, "64 to 128")] {
        for (steps, state) in [(0, "cold"), (CACHED_STEPS, "upper steps cached")] {
            let mut scheme = Bclo::with_cache(&Key::take_from(&mut [1; 32]), width, steps);
            let (mut prg, mut value) = (Prg::new(&[1; 16]), 1_u64);
            let encrypt = || {
                value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                black_box(scheme.encrypt(value & width.greatest(), &mut prg).expect("within the domain"));
            };
            let targets = if bits == "32 to 64" && steps == 0 { &cold[..] } else { &[] };
            table.row(&format!("BCLO {bits} bits, {state}"), targets, 1, encrypt, opponent.take());
        }
    }
    let scheme = Bclo::with_cache(&Key::take_from(&mut [1; 32]), Width::Bits32, 0);
    let stored = scheme.bound(0xdead_beef, arras_schemes::ore::End::Lower, &mut Prg::new(&[1; 16]));
    let stored = stored.expect("within the domain");
    let decrypt = || {
        black_box(scheme.decrypt(black_box(&stored)).expect("opens"));
    };
    table.row("BCLO 64 to 32 bits, decrypt, cold", &[], 1, decrypt, None);
    for (name, successes, failures, draws) in [
        ("16 of 2^40, half drawn", 16, (1 << 40) - 16, 1 << 39),
        ("17 of 2^40, half drawn", 17, (1 << 40) - 17, 1 << 39),
        ("2^32 of 2^64, half drawn", 1 << 32, (1_u128 << 64) - (1 << 32), 1 << 63),
        ("2^64 of 2^128, half drawn", 1 << 64, u128::MAX - (1 << 64) + 1, 1 << 127),
    ] {
        let urn = Hypergeometric::new(successes, failures, draws).expect("in range");
        let mut coins = Prg::new(&[1; 16]);
        let sample = || {
            black_box(urn.sample(&mut coins));
        };
        table.row(&format!("hypergeometric: {name}"), &[], 1, sample, None);
    }
}
