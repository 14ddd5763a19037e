//! What opens a backup of the keyring: a passphrase of its own, or a code that is printed once and kept on paper.

use crate::key::Key;
use crate::unlock::Passphrase;
use arras_primitives::kdf::hkdf_sha256;
use std::fmt;
use zeroize::Zeroizing;

/// Groups of a code.
pub(crate) const GROUPS: usize = 8;
/// Characters of a group.
pub(crate) const LETTERS: usize = 4;
/// Characters of a code, of five bits each: 160 bits, which nobody guesses, and so needs no stretching.
const CHARACTERS: usize = GROUPS * LETTERS;

/// Crockford's base 32: no character is taken for another.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// What shall open a backup.
#[derive(Debug)]
pub enum Recovery {
    /// Something a person knows.
    Passphrase(Passphrase),
    /// Something a person keeps on paper.
    Code(RecoveryCode),
}

/// A random code; wiped when dropped.
pub struct RecoveryCode(Zeroizing<Vec<u8>>);

impl fmt::Debug for RecoveryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryCode(secret)")
    }
}

impl RecoveryCode {
    /// Makes a code from the operating system's randomness.
    #[must_use]
    pub fn generate() -> Self {
        let random = Key::generate();
        // 32 is a power of two: each character is one of 32 with equal chance.
        let symbols = random.expose().iter().map(|byte| ALPHABET[usize::from(byte % 32)]);
        let mut code = Zeroizing::new(Vec::with_capacity(CHARACTERS));
        code.extend(symbols.take(CHARACTERS));
        Self(code)
    }

    /// The code as it is printed, in groups; to be shown at once and kept nowhere.
    #[must_use]
    pub fn expose_groups(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(CHARACTERS + GROUPS));
        for (place, symbol) in self.0.iter().enumerate() {
            if place > 0 && place % LETTERS == 0 {
                text.push('-');
            }
            text.push(char::from(*symbol));
        }
        text
    }

    /// Reads a code as a person types it: in either case, with or without hyphens and spaces, O for 0, I and L for 1.
    fn parse(typed: &Passphrase) -> Option<Self> {
        let mut code = Zeroizing::new(Vec::with_capacity(CHARACTERS));
        for character in typed.expose().chars().filter(|character| !matches!(character, '-' | ' ')) {
            let symbol = match character.to_ascii_uppercase() {
                'O' => b'0',
                'I' | 'L' => b'1',
                other => u8::try_from(other).ok().filter(|byte| ALPHABET.contains(byte))?,
            };
            if code.len() == CHARACTERS {
                return None;
            }
            code.push(symbol);
        }
        (code.len() == CHARACTERS).then_some(Self(code))
    }

    /// The key that seals the backup.
    pub(crate) fn lock(&self, salt: &[u8]) -> Key {
        let derived = Key::write_with(|out| {
            hkdf_sha256(&self.0, salt, &[b"arras keyring recovery code"], out);
            Ok::<(), std::convert::Infallible>(())
        });
        match derived {
            Ok(key) => key,
            Err(never) => match never {},
        }
    }
}

/// The key that a typed code gives; `None` if it cannot be a code.
pub(crate) fn open(typed: &Passphrase, salt: &[u8]) -> Option<Key> {
    RecoveryCode::parse(typed).map(|code| code.lock(salt))
}
