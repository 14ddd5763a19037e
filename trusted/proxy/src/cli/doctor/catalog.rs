//! The schema compared with the catalog: what is not there, what is left, and what to do about each.

use super::Report;
use crate::cli::{Failure, plan};
use crate::configuration::Configuration;
use arras_engine::declared::{CalledFor, Difference, differences};
use arras_engine::local::LocalStore;
use arras_planner::physical::PhysicalIndex;
use arras_storage::Embedded;
use std::path::Path;

/// Compares them, if no proxy has the catalog open. A unique index that is not there fails, since nothing is enforced
/// until it is.
pub(super) fn compare(
    configuration: &Configuration,
    config: &Path,
    local: Option<&LocalStore<Embedded>>,
    report: &mut Report,
) {
    let (Some(schema), Some(local)) = (&configuration.schema, local) else { return };
    // One that cannot be read has been reported.
    let Ok(schema) = plan::read_schema(schema) else { return };
    let found = match differences(local, &schema) {
        Ok(found) => found,
        Err(error) => {
            report.add::<()>("indexes", Err(Failure::Engine(error.into())));
            return;
        }
    };
    if found.is_empty() {
        report
            .add("indexes", Ok(((), "what the schema calls for is there, and nothing is left over".into())));
    }
    for difference in found {
        match difference {
            Difference::Lacking { ns, index } => {
                let (database, collection, config) = (&ns.database, &ns.collection, config.display());
                let line = format!(
                    "{index} of {database}.{collection} is not there: arras plan --apply --config {config} makes it, as the \
                     next start of the proxy does"
                );
                match index {
                    CalledFor::Encrypted(PhysicalIndex::Unique { .. }) => {
                        report.add::<()>(
                            "indexes",
                            Err(Failure::Check(format!("{line}; until then nothing is enforced"))),
                        );
                    }
                    CalledFor::Encrypted(PhysicalIndex::Eq { .. } | PhysicalIndex::Range { .. })
                    | CalledFor::Text(_) => report.warn("indexes", &line),
                }
            }
            Difference::OtherProtocol { ns, refusal } => {
                let (database, collection) = (&ns.database, &ns.collection);
                report.warn("indexes", &format!("{database}.{collection}: {refusal}"));
            }
            Difference::Left { ns, name } => {
                let (database, collection) = (&ns.database, &ns.collection);
                report.warn(
                    "indexes",
                    &format!(
                        "{name} of {database}.{collection} is there and the schema does not call for it: declare what needs \
                         it, or drop it: db.getSiblingDB(\"{database}\").getCollection(\"{collection}\").dropIndex(\"{name}\")"
                    ),
                );
            }
        }
    }
}
