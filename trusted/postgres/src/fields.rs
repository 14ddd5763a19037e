//! The fields of a message's body, read in place: what a client sends is parsed here, since a codec that panics on a short
//! message, reads past its end or replaces bytes that are not UTF-8 would not do between an application and its database.

/// What is left of a body. Reading past its end gives `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// True if everything has been read.
    pub(crate) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn int16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    /// A number of things, which PostgreSQL counts without a sign.
    pub(crate) fn count(&mut self) -> Option<usize> {
        self.array().map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }

    pub(crate) fn int32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// A string that a zero byte ends.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let string = self.bytes(end)?;
        self.byte()?;
        Some(string)
    }

    /// A value behind its length; `Some(None)` is NULL.
    pub(crate) fn value(&mut self) -> Option<Option<&'a [u8]>> {
        match usize::try_from(self.int32()?) {
            Ok(length) => self.bytes(length).map(Some),
            Err(_) => Some(None),
        }
    }

    /// A list behind its count.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        // Nothing is allocated for a count that the body cannot hold.
        let mut items = Vec::with_capacity(count.min(self.rest.len()));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }
}

/// `Parse`: a statement to prepare.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parse<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) text: &'a [u8],
    pub(crate) types: Vec<u32>,
}

impl<'a> Parse<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::new(body);
        let name = fields.string()?;
        let text = fields.string()?;
        let types = fields.list(|fields| fields.array().map(u32::from_be_bytes))?;
        fields.is_done().then_some(Self { name, text, types })
    }
}

/// `Bind`: a portal made of a prepared statement and values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind<'a> {
    pub(crate) portal: &'a [u8],
    pub(crate) statement: &'a [u8],
    pub(crate) formats: Vec<i16>,
    pub(crate) values: Vec<Option<&'a [u8]>>,
    pub(crate) results: Vec<i16>,
}

impl<'a> Bind<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::new(body);
        let (portal, statement) = (fields.string()?, fields.string()?);
        let formats = fields.list(Fields::int16)?;
        let values = fields.list(Fields::value)?;
        let results = fields.list(Fields::int16)?;
        fields.is_done().then_some(Self { portal, statement, formats, values, results })
    }

    /// Its portal and its statement alone, where the rest is well formed, too.
    pub(crate) fn names(body: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let mut fields = Fields::new(body);
        let names = (fields.string()?, fields.string()?);
        let formats = fields.count()?;
        fields.bytes(2 * formats)?;
        for _ in 0..fields.count()? {
            fields.value()?;
        }
        let results = fields.count()?;
        fields.bytes(2 * results)?;
        fields.is_done().then_some(names)
    }
}

/// What `Describe` and `Close` name: a statement (`S`) or a portal (`P`).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) kind: u8,
    pub(crate) name: &'a [u8],
}

impl<'a> Target<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::new(body);
        let kind = fields.byte().filter(|kind| matches!(kind, b'S' | b'P'))?;
        let name = fields.string()?;
        fields.is_done().then_some(Self { kind, name })
    }
}

/// The text of a `Query`.
pub(crate) fn query(body: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields::new(body);
    let text = fields.string()?;
    fields.is_done().then_some(text)
}

/// The portal of an `Execute`.
pub(crate) fn portal(body: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields::new(body);
    let portal = fields.string()?;
    fields.int32()?;
    fields.is_done().then_some(portal)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use postgres_protocol::IsNull;
    use postgres_protocol::message::frontend;
    use proptest::prelude::*;

    fn body(encoded: &BytesMut) -> &[u8] {
        &encoded[5..]
    }

    #[test]
    fn what_a_client_of_postgres_encodes_is_read() {
        let mut parse = BytesMut::new();
        frontend::parse("s1", "SELECT $1", [23, 25], &mut parse).unwrap();
        let read = Parse::read(body(&parse)).unwrap();
        assert_eq!(read, Parse { name: b"s1", text: b"SELECT $1", types: vec![23, 25] });
        let mut bind = BytesMut::new();
        let values = [Some(&b"ab"[..]), None];
        let put = |value: Option<&[u8]>, out: &mut BytesMut| {
            Ok(value.map_or(IsNull::Yes, |value| {
                out.extend_from_slice(value);
                IsNull::No
            }))
        };
        assert!(frontend::bind("p", "s1", [0, 1], values, put, [1], &mut bind).is_ok());
        let read = Bind::read(body(&bind)).unwrap();
        assert_eq!(
            read,
            Bind {
                portal: b"p",
                statement: b"s1",
                formats: vec![0, 1],
                values: vec![Some(b"ab"), None],
                results: vec![1]
            }
        );
        let mut execute = BytesMut::new();
        frontend::execute("p", 10, &mut execute).unwrap();
        assert_eq!(portal(body(&execute)), Some(&b"p"[..]));
        let mut close = BytesMut::new();
        frontend::close(b'P', "p", &mut close).unwrap();
        assert_eq!(Target::read(body(&close)), Some(Target { kind: b'P', name: b"p" }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = (Parse::read(&bytes), Bind::read(&bytes), Target::read(&bytes), query(&bytes), portal(&bytes));
        }

        #[test]
        fn the_names_of_a_bind_are_read_where_it_is(
            bytes in proptest::collection::vec(prop_oneof![4 => Just(0), 2 => 0..3_u8, 1 => any::<u8>()], 0..24),
        ) {
            let names = Bind::read(&bytes).map(|bind| (bind.portal, bind.statement));
            prop_assert_eq!(Bind::names(&bytes), names);
        }

        #[test]
        fn a_body_that_is_cut_or_goes_on_is_refused(cut in 0_usize..30) {
            let mut bind = BytesMut::new();
            let put = |value: &[u8], out: &mut BytesMut| {
                out.extend_from_slice(value);
                Ok(IsNull::No)
            };
            prop_assert!(
                frontend::bind("portal", "statement", [0], [&b"value"[..]], put, [1], &mut bind).is_ok()
            );
            let whole = body(&bind);
            prop_assume!(cut < whole.len());
            prop_assert_eq!(Bind::read(&whole[..cut]), None);
            prop_assert_eq!(Bind::names(&whole[..cut]), None);
            let longer = [whole, b"x"].concat();
            prop_assert_eq!(Bind::read(&longer), None);
            prop_assert_eq!(Bind::names(&longer), None);
            prop_assert_eq!(Bind::names(whole), Some((&b"portal"[..], &b"statement"[..])));
        }
    }
}
