//! The protocols that give an order to a field: one row each, and all that the engine knows of one. A row says how an index
//! of its protocol is made, opened and dropped; what it is good for and what it leaks is in the planner's table of kinds.

use super::catalog::IndexPartRecord;
use super::channel::ServerChannel;
use super::index::RangeSettings;
use arras_keys::Key;
use arras_planner::physical::PhysicalIndex;
use arras_primitives::prg::Prg;
use arras_protocol::arx_range;
use arras_protocol::ore::{Scheme, Width};
use arras_protocol::write::Step;
use arras_protocol::{Channel, IndexId};
use arras_schemes::arx_range::{ArxRange, ArxRangeParameters, Epochs};
use arras_schemes::bplus::{self, BPlus, StatefulBPlus};
use arras_schemes::contract::{EncryptedIndex, Pending, State};
use arras_schemes::error::IndexError;
use arras_schemes::mope::{Kind, index as mope};
use arras_schemes::ore::OrderScheme;
use arras_schemes::ore::clww::Clww;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu};
use arras_schemes::pope::{self, Pope};
use arras_schemes::random::Randomness;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// A channel to the server for every protocol that has a row here.
pub trait OrderChannel:
    Channel<arx_range::ArxRange>
    + Channel<arras_protocol::bplus::BPlus>
    + Channel<arras_protocol::pope::Pope>
    + Channel<arras_protocol::mope::index::Mope>
{
}

impl<C> OrderChannel for C where
    C: Channel<arx_range::ArxRange>
        + Channel<arras_protocol::bplus::BPlus>
        + Channel<arras_protocol::pope::Pope>
        + Channel<arras_protocol::mope::index::Mope>
{
}

/// An index to be made or opened.
pub(super) struct Making<C> {
    /// Its record.
    pub(super) part: IndexPartRecord,
    /// What its keys are derived from.
    pub(super) key: Key,
    /// The server.
    pub(super) channel: Arc<C>,
    /// Of all range indexes of the process.
    pub(super) epochs: Arc<Epochs>,
    /// Parameters of range indexes.
    pub(super) range: RangeSettings,
    /// Starts of the engine so far, this one included; a declared restore passes over many.
    pub(super) starts: u64,
    /// Of the engine.
    pub(super) random: Randomness,
}

/// What an opening comes to.
type Opened = Pending<'static, Result<Arc<dyn EncryptedIndex>, IndexError>>;
/// Makes the steps that make an index.
type Create = Box<
    dyn Fn(&IndexPartRecord, &Key, RangeSettings, &Randomness) -> Result<Vec<Step>, IndexError> + Send + Sync,
>;

/// Takes an index up; reads records before it waits for anything.
type Open<C> = Box<dyn Fn(Making<C>, &dyn State) -> Opened + Send + Sync>;

/// A protocol.
pub(super) struct Row<C> {
    /// Its name in the planner's table.
    name: &'static str,
    /// The steps that make an empty index on the server.
    pub(super) create: Create,
    /// Takes one up, with the records that its changes left.
    pub(super) open: Open<C>,
}

/// The row of the protocol of a part.
///
/// # Errors
/// [`IndexError::Caller`] for a protocol that this build does not have.
pub(super) fn row<C: ServerChannel>(part: &IndexPartRecord) -> Result<Row<C>, IndexError> {
    let name = part.physical.kind().name;
    rows().into_iter().find(|row| row.name == name).ok_or(IndexError::Caller(
        "an index is of a protocol that this proxy was built without (see its Cargo features)",
    ))
}

/// Makes the step that drops an index.
type Drop = fn(IndexId) -> Step;

/// What drops an index of a protocol, by the beginning of its name: also of one that this build does not have.
const DROPS: [(&str, Drop); 5] = [
    ("arx_range", |index| Step::ArxRange(arx_range::Change::DropIndex { index })),
    ("bplus_", bplus::drop_index),
    ("pope", Pope::<()>::drop_step),
    ("mope", mope::drop_step),
    ("stope", mope::drop_step),
];

/// The step that drops a part; none if no protocol ever made one of its kind.
pub(super) fn drop_step(part: &IndexPartRecord) -> Option<Step> {
    let name = part.physical.kind().name;
    DROPS.iter().find(|(begins, _)| name.starts_with(begins)).map(|(_, drop)| drop(part.id))
}

fn rows<C: ServerChannel>() -> Vec<Row<C>> {
    vec![
        arx_range_row(),
        #[cfg(feature = "bclo")]
        bplus_row("bplus_bclo", Scheme::Bclo, arras_schemes::ore::bclo::Bclo::new),
        bplus_row("bplus_clww", Scheme::Clww, Clww::new),
        bplus_row("bplus_lewi_wu", lewi_wu, |key, width| LewiWu::new(key, width, BLOCK)),
        #[cfg(feature = "cloz")]
        bplus_row("bplus_cloz", Scheme::Cloz, arras_schemes::ore::cloz::Cloz::new),
        fh_ope_row(),
        pope_row(),
        mope_row("mope", Kind::Mope),
        mope_row("stope", Kind::Stope),
    ]
}

fn arx_range_row<C: ServerChannel>() -> Row<C> {
    Row {
        name: "arx_range",
        // What it keeps in the clear says nothing of how an empty index looks on the server.
        create: Box::new(|part, key, _, random| {
            let parameters = arx_range_parameters(part, 0)?;
            Ok(ArxRange::<()>::create(part.id, key, parameters, &mut random.rng()))
        }),
        open: Box::new(|making, _| {
            Box::pin(async move {
                let parameters = arx_range_parameters(&making.part, making.range.top_nodes)?;
                let mut rng = StdRng::from_rng(&mut making.random.rng());
                let Making { part, key, channel, epochs, .. } = making;
                let index: Arc<dyn EncryptedIndex> =
                    ArxRange::open(channel, part.id, &key, parameters, epochs, &mut rng).await?;
                Ok(index)
            })
        }),
    }
}

/// Block of the Lewi-Wu scheme: what its B+ tree in the laboratory has.
const BLOCK: BlockBits = BlockBits::Eight;

fn lewi_wu(width: Width) -> Scheme {
    Scheme::LewiWu { width, block_bits: BLOCK.bits() }
}

/// The row of a B+ tree over a scheme without state.
fn bplus_row<C: ServerChannel, S: OrderScheme + Sync + 'static>(
    name: &'static str,
    public: fn(Width) -> Scheme,
    keyed: fn(&Key, Width) -> S,
) -> Row<C> {
    Row {
        name,
        create: Box::new(move |part, _, range, _| {
            let scheme = public(width(part)?);
            Ok(vec![bplus::create(part.id, scheme, page_bytes(scheme, range))])
        }),
        open: Box::new(move |making, _| {
            let opened = width(&making.part).map(|width| {
                let scheme = keyed(&making.key, width);
                BPlus::new(making.channel, making.part.id, &making.key, scheme, seeded(&making.random))
            });
            Box::pin(std::future::ready(opened.map(|index| Arc::new(index) as Arc<dyn EncryptedIndex>)))
        }),
    }
}

/// The row of the B+ tree over the scheme whose ciphertexts are the proxy's state.
fn fh_ope_row<C: ServerChannel>() -> Row<C> {
    Row {
        name: "bplus_fh_ope",
        create: Box::new(|part, _, range, _| {
            let scheme = Scheme::FhOpe(width(part)?);
            Ok(vec![bplus::create(part.id, scheme, page_bytes(scheme, range))])
        }),
        open: Box::new(|making, state| {
            let small = making.range.small_trees;
            let empty = width(&making.part).map(|width| match small {
                true => FhOpe::new(width).with_levels(SMALL_LEVELS),
                false => FhOpe::new(width),
            });
            let saved = empty.and_then(|empty| empty.saved(making.part.id, state));
            let opened = saved.map(|(scheme, version, present)| {
                let index = StatefulBPlus::new(
                    making.channel,
                    making.part.id,
                    &making.key,
                    scheme,
                    seeded(&making.random),
                );
                let index = if small { index.with_moves_max(SMALL_MOVES) } else { index };
                Arc::new(index.taken_up(version, present)) as Arc<dyn EncryptedIndex>
            });
            Box::pin(std::future::ready(opened))
        }),
    }
}

/// The row of the buffer tree. What is staged in one start is newer than all of the starts before.
fn pope_row<C: ServerChannel>() -> Row<C> {
    Row {
        name: "pope",
        create: Box::new(|part, _, range, _| {
            let width = width(part)?;
            let least = u32::try_from(pope::page_bytes_min(width)).unwrap_or(u32::MAX);
            Pope::<()>::create(part.id, width, if range.small_trees { least } else { PAGE_BYTES })
        }),
        open: Box::new(|making, _| {
            let opened = width(&making.part).and_then(|width| {
                let keyed = pope::Keyed { index: making.part.id, key: &making.key, width };
                Pope::open(making.channel, keyed, making.starts, seeded(&making.random))
            });
            Box::pin(std::future::ready(opened.map(|index| Arc::new(index) as Arc<dyn EncryptedIndex>)))
        }),
    }
}

/// The row of a form of order-preserving encoding. Its tree is verified whatever the server shows of it.
fn mope_row<C: ServerChannel>(name: &'static str, kind: Kind) -> Row<C> {
    fn made<'k>(
        part: &IndexPartRecord,
        key: &'k Key,
        (range, random): (RangeSettings, &Randomness),
        kind: Kind,
    ) -> Result<mope::Making<'k>, IndexError> {
        let (index, width, randomness) = (part.id, width(part)?, random.clone());
        let small_nodes = range.small_trees;
        Ok(mope::Making { index, key, width, kind, verified: true, small_nodes, randomness })
    }
    Row {
        name,
        create: Box::new(move |part, key, range, random| made(part, key, (range, random), kind)?.create()),
        open: Box::new(move |making, state| {
            let settings = (making.range, &making.random);
            let opened = made(&making.part, &making.key, settings, kind).and_then(|made| {
                let recorded = made.recorded(state)?;
                mope::Index::open(making.channel, &made, recorded)
            });
            Box::pin(std::future::ready(opened.map(|index| Arc::new(index) as Arc<dyn EncryptedIndex>)))
        }),
    }
}

/// Pages of a buffer tree, in bytes.
const PAGE_BYTES: u32 = 4096;

/// Levels of places of small trees: 127 places.
const SMALL_LEVELS: u32 = 7;

/// Moves of one step in small trees.
const SMALL_MOVES: usize = 2;

/// Pages of a B+ tree, in bytes: of small trees those that just hold three entries.
fn page_bytes(scheme: Scheme, range: RangeSettings) -> u32 {
    let least = u32::try_from(bplus::page_bytes_min(scheme)).unwrap_or(u32::MAX);
    if range.small_trees { least } else { bplus::page_bytes(scheme) }
}

/// Randomness for one index.
fn seeded(random: &Randomness) -> Prg {
    let mut seed = [0; 16];
    random.rng().fill_bytes(&mut seed);
    Prg::new(&seed)
}

/// The integers that a part's keys are.
fn width(part: &IndexPartRecord) -> Result<Width, IndexError> {
    match part.physical.key_bytes() {
        Some(4) => Ok(Width::Bits32),
        Some(8) => Ok(Width::Bits64),
        _ => Err(IndexError::Caller("an index of integers whose keys are of another width")),
    }
}

fn arx_range_parameters(part: &IndexPartRecord, top_nodes: usize) -> Result<ArxRangeParameters, IndexError> {
    let (PhysicalIndex::Range { aggregates, .. }, Some(key_bytes)) =
        (&part.physical, part.physical.key_bytes())
    else {
        return Err(IndexError::Caller("a range index whose keys have no width"));
    };
    Ok(ArxRangeParameters {
        key_bytes,
        bucket_factor: part.bucket_factor,
        top_nodes,
        sums: aggregates.as_ref().map_or(0, Vec::len),
        aggregates: aggregates.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arras_planner::kinds::{Availability, of_orders};

    #[test]
    fn whatever_a_field_may_have_its_order_by_is_dropped_by_one_step() {
        let made = of_orders().filter(|order| !matches!(order.kind().availability, Availability::Refused(_)));
        let names: Vec<&str> = made.map(|order| order.name()).collect();
        assert!(names.len() >= 7, "{names:?}");
        for name in names {
            let drops = DROPS.iter().filter(|(begins, _)| name.starts_with(begins)).count();
            assert_eq!(drops, 1, "{name}");
        }
    }
}
