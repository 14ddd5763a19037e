//! `arras certificates`.

use super::{CertificatesCommand, Failure, RenewArguments, ShowArguments};
use crate::certificates::{self, Listed, Wish};
use crate::configuration::Configuration;
use arras_certificates::{date, now};
use std::path::{Path, PathBuf};

/// The directory with the proxy's certificates, and the one with what the server's machine is given.
fn places(config: &Path, server: Option<&Path>) -> Result<(PathBuf, PathBuf), Failure> {
    let configuration = Configuration::read(config)?;
    let beside = config.parent().unwrap_or(Path::new("")).join("server");
    Ok((configuration.server.certificates, server.map_or(beside, Path::to_path_buf)))
}

pub(super) fn run(command: &CertificatesCommand) -> Result<(), Failure> {
    match command {
        CertificatesCommand::Renew(arguments) => renew(arguments),
        CertificatesCommand::Show(arguments) => show(arguments),
    }
}

#[allow(clippy::print_stdout, reason = "what the command is for")]
fn renew(arguments: &RenewArguments) -> Result<(), Failure> {
    let (proxy, server) = places(&arguments.config, arguments.server_directory.as_deref())?;
    let wish = match (arguments.new_authority, arguments.finish) {
        (_, true) => Wish::Finish,
        (true, false) => Wish::NewAuthority,
        (false, false) => Wish::Renew,
    };
    let renewed = certificates::renew(&proxy, &server, wish, now())?;
    match wish {
        Wish::Finish => println!("Only the new authority is accepted from now on."),
        Wish::NewAuthority | Wish::Renew => println!("Made new certificates for the proxy and the server."),
    }
    println!("A running proxy reads its own again by itself (within 10 s, or at SIGHUP).\n");
    println!("Carry to the server's machine, into the directory it was given as --certificates:");
    for path in &renewed.carry {
        println!("  {}", path.display());
    }
    println!("A running server reads them again by itself, too; connections that stand go on.");
    if let Some(until) = renewed.overlap_until {
        println!(
            "\nThere is a new authority. The proxy's certificate of the old one ends on {}: the server must have its files \
             by then.\nThe old authority is accepted beside it until you run, when the server has them:\n  arras certificates \
             renew --finish --config {}\nand carry ca.pem to the server once more.",
            date(until),
            arguments.config.display()
        );
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "what the command is for")]
fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let (proxy, server) = places(&arguments.config, arguments.server_directory.as_deref())?;
    let all = certificates::list(&proxy, &server, now()).map_err(certificates::CertificateError::from)?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&all).map_err(|error| Failure::Check(error.to_string()))?;
        println!("{text}");
        return Ok(());
    }
    for listed in &all {
        print!("{}", text(listed));
    }
    if !server.join("server.pem").exists() {
        println!(
            "server\n  not on this machine ({}); `arras doctor` asks the server for its own",
            server.display()
        );
    }
    Ok(())
}

fn text(listed: &Listed) -> String {
    let left = match (listed.ended, listed.days_left) {
        (true, _) => "ENDED: run arras certificates renew".to_owned(),
        (false, 1) => "1 day left".to_owned(),
        (false, days) => format!("{days} days left"),
    };
    format!(
        "{}\n  file         {}\n  name         {}\n  issued by    {}\n  serial       {}\n  SHA-256      {}\n  \
         valid        {} to {} ({left})\n",
        listed.whose,
        listed.file.display(),
        listed.subject,
        listed.issuer,
        listed.serial,
        listed.fingerprint,
        listed.from,
        listed.until,
    )
}
