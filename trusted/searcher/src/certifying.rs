//! `arras search certify`.

use crate::CertifyArguments;
use crate::credentials::{AUTHORITY_KEY, certified, now, read, replace};
use crate::failure::Failure;
use crate::store::failed;
use arras_attestation::authority::{Authority, certificate, serial};
use arras_attestation::folder::AUTHORITY;
use arras_storage::private;
use std::io::{self, Write};

pub(crate) fn run(arguments: &CertifyArguments) -> Result<(), Failure> {
    let (folder, name) = (&arguments.authority, &arguments.name);
    // The name is a file's, too, and not the authority's.
    let plain = |character: char| character.is_alphanumeric() || "-_@.".contains(character);
    if name.is_empty() || name == "ca" || name.starts_with('.') || !name.chars().all(plain) {
        return Err(Failure::Certificates(
            "a name has letters, digits, and - _ @ . not at its beginning".into(),
        ));
    }
    private::make_directory(folder).map_err(|error| failed(folder, &error))?;
    let (public, key) = (folder.join(AUTHORITY), folder.join(AUTHORITY_KEY));
    if !public.exists() {
        let (_, issued) = Authority::create(now()).map_err(certified)?;
        replace(&key, &issued.1)?;
        replace(&public, &issued.0)?;
    }
    let own = folder.join(format!("{name}.pem"));
    if own.exists() {
        let what = io::Error::other("there is a certificate already: move it away, or choose another name");
        return Err(failed(&own, &what));
    }
    let authority = Authority::read(&read(&public)?, &read(&key)?).map_err(certified)?;
    let issued = authority.issue(name, now()).map_err(certified)?;
    replace(&folder.join(format!("{name}.key")), &issued.1)?;
    replace(&own, &issued.0)?;
    let number = certificate(&issued.0).ok().and_then(|made| serial(&made));
    let number = number.map(|(_, written)| written).unwrap_or_default();
    writeln!(io::stdout(), "{}: certificate of {name}, serial number {number}", own.display())?;
    Ok(())
}
