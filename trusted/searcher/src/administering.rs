//! `arras search grant` and `revoke`: what the administrator of an enclave that runs by itself says of its clients.

use crate::connection::Connection;
use crate::credentials::{certified, own, read};
use crate::failure::Failure;
use crate::{Administrator, GrantArguments, RevokeArguments};
use arras_attestation::authority::serial_from;
use arras_attestation::channel::Client;
use arras_attestation::policy::ReleasePolicy;
use arras_schemes::bisen::message::{Groups, Refused, Reply, Request, Rights};
use arras_search::link::OpenError;
use arras_search::service::{SearchService, ServiceError};
use std::io::{self, Write};

pub(crate) fn grant(arguments: &GrantArguments) -> Result<(), Failure> {
    let rights = Rights {
        search: arguments.search,
        update: arguments.update,
        rank: arguments.rank,
        fields: arguments.fields.iter().fold(0, |fields, field| fields | 1 << field),
        groups: match arguments.groups.as_slice() {
            [] => Groups::All,
            groups => Groups::only(groups.iter().copied()),
        },
    };
    let (name, collection) = (&arguments.name, &arguments.collection);
    let request = Request::Grant { identity: name.clone(), collection: collection.clone(), rights };
    ask(&arguments.administrator, request)?;
    let may = [(arguments.search, "search"), (arguments.update, "update"), (arguments.rank, "rank")];
    let may: Vec<&str> = may.iter().filter(|(may, _)| *may).map(|(_, what)| *what).collect();
    let may = if may.is_empty() { "do nothing with".to_owned() } else { may.join(" and ") };
    writeln!(io::stdout(), "{name} may {may} {collection}")?;
    Ok(())
}

pub(crate) fn revoke(arguments: &RevokeArguments) -> Result<(), Failure> {
    if let Some(name) = &arguments.name {
        ask(&arguments.administrator, Request::Revoke(name.clone()))?;
        writeln!(io::stdout(), "{name} may do nothing; its connections are ended")?;
    }
    if let Some(written) = &arguments.serial {
        let serial = serial_from(written).ok_or_else(|| {
            Failure::Certificates(format!("{written}: no serial number: pairs of hexadecimal digits"))
        })?;
        ask(&arguments.administrator, Request::RevokeCertificate(serial.into()))?;
        writeln!(io::stdout(), "certificate {written} opens no connection any more; those it had are ended")?;
    }
    Ok(())
}

/// Asks what only the administrator may.
fn ask(administrator: &Administrator, request: Request) -> Result<(), Failure> {
    if !request.is_bounded() {
        return Err(ServiceError::Refused(Refused::Bound).into());
    }
    let path = &administrator.policy;
    let policy = ReleasePolicy::read(&read(path)?)
        .map_err(|error| Failure::Store { path: path.clone(), what: error.to_string() })?;
    let own = own(&administrator.credentials, &policy.administrator)?;
    let channel = Client::new(own, policy).and_then(|client| client.channel()).map_err(certified)?;
    let mut connection = Connection::new(&administrator.host, channel).map_err(|error| match error {
        OpenError::Stream(error) => Failure::Service(ServiceError::Unreachable(error)),
        OpenError::Channel(error) => Failure::Channel(error),
    })?;
    match connection.ask(request).map_err(ServiceError::Unreachable)? {
        Reply::Done => Ok(()),
        Reply::Refused(refused) => Err(ServiceError::Refused(refused).into()),
        _ => Err(ServiceError::Reply.into()),
    }
}
