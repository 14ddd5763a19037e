//! `Debug` of what no log may show.

/// Has types debug as their names alone, whatever is in them.
macro_rules! opaque {
    ($($type:ty),+) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let name = stringify!($type);
                write!(f, "{}(..)", name.rsplit(':').next().unwrap_or(name).trim())
            }
        }
    )+};
}

pub(crate) use opaque;
