//! The members of an array as they come: in pieces, however long the array is.

/// Most bytes of one member, a sealed number's.
const MEMBER_BYTES_MAX: usize = 1024 * 1024;

/// What is wrong with an array.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAnArray;

/// Reads an array of one dimension in the format that it comes in.
pub(crate) struct Members {
    at: At,
    /// What has come of a member, or of a word of the binary format.
    part: Vec<u8>,
    /// Most bytes of one member.
    most: usize,
}

/// Where in the array the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Text: before the array.
    Begin,
    /// Before a member, perhaps before the array's end where there is none yet.
    Member {
        is_first: bool,
    },
    /// In a member without quotes.
    Bare,
    Quoted,
    /// Behind a backslash in quotes.
    Escaped,
    /// Behind a member in quotes.
    Behind,
    /// Behind the array.
    End,
    /// Binary: in the word of that number.
    Head(u8),
    /// In the length of a member, with so many more members behind it.
    Length(u32),
    /// In a member that lacks so many bytes.
    Bytes(usize, u32),
}

impl Members {
    pub(crate) fn new(binary: bool) -> Self {
        Self { at: if binary { At::Head(0) } else { At::Begin }, part: Vec::new(), most: MEMBER_BYTES_MAX }
    }

    /// The same of an array that is held whole already.
    pub(crate) fn of_any_length(binary: bool) -> Self {
        Self { most: usize::MAX, ..Self::new(binary) }
    }

    /// Reads a piece; tells of each member that is whole, NULL left out.
    ///
    /// # Errors
    /// It is no such array; what `each` says of a member.
    pub(crate) fn read<E: From<NotAnArray>>(
        &mut self,
        mut piece: &[u8],
        each: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((byte, rest)) = piece.split_first() {
            if let At::Bytes(lacking, behind) = self.at {
                let (taken, rest) = piece.split_at(lacking.min(piece.len()));
                self.part.extend_from_slice(taken);
                self.at = At::Bytes(lacking - taken.len(), behind);
                piece = rest;
            } else {
                self.byte(*byte, each)?;
                piece = rest;
            }
            if let At::Bytes(0, behind) = self.at {
                self.whole(each)?;
                self.at = if behind == 0 { At::End } else { At::Length(behind - 1) };
            }
            if self.part.len() > self.most {
                return Err(NotAnArray.into());
            }
        }
        Ok(())
    }

    /// The array has come.
    ///
    /// # Errors
    /// It is not whole.
    pub(crate) fn end(&self) -> Result<(), NotAnArray> {
        if self.at == At::End { Ok(()) } else { Err(NotAnArray) }
    }

    fn whole<E>(&mut self, each: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let told = each(&self.part);
        self.part.clear();
        told
    }

    fn byte<E: From<NotAnArray>>(
        &mut self,
        byte: u8,
        each: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.at = match (self.at, byte) {
            (At::Begin, b'{') => At::Member { is_first: true },
            (At::Member { is_first: true }, b'}') => At::End,
            (At::Member { .. }, b'"') => At::Quoted,
            (At::Member { .. }, b',' | b'}' | b'{' | b'\\') => return Err(NotAnArray.into()),
            (At::Bare, b',' | b'}') => {
                // As PostgreSQL writes it, and no sealed value is.
                if !self.part.eq_ignore_ascii_case(b"null") {
                    self.whole(each)?;
                }
                self.part.clear();
                if byte == b',' { At::Member { is_first: false } } else { At::End }
            }
            (At::Member { .. }, _) => {
                self.part.push(byte);
                At::Bare
            }
            (At::Bare, b'{' | b'"' | b'\\') => return Err(NotAnArray.into()),
            (At::Bare, _) => {
                self.part.push(byte);
                At::Bare
            }
            (At::Quoted, b'\\') => At::Escaped,
            (At::Quoted, b'"') => {
                self.whole(each)?;
                At::Behind
            }
            (At::Quoted | At::Escaped, _) => {
                self.part.push(byte);
                At::Quoted
            }
            (At::Behind, b',') => At::Member { is_first: false },
            (At::Behind, b'}') => At::End,
            (At::Head(_) | At::Length(_), _) => return self.word(byte).map_err(E::from),
            (At::Begin | At::Behind | At::End | At::Bytes(..), _) => return Err(NotAnArray.into()),
        };
        Ok(())
    }

    /// A byte of a word of the binary format: dimensions, whether there is NULL, the members' type, their number, the lowest
    /// number, and each one's length.
    fn word(&mut self, byte: u8) -> Result<(), NotAnArray> {
        self.part.push(byte);
        let Some(word) = self.part.first_chunk::<4>().map(|word| i32::from_be_bytes(*word)) else {
            return Ok(());
        };
        self.part.clear();
        self.at = match self.at {
            At::Head(0) if word == 0 => At::Head(10),
            At::Head(0) if word == 1 => At::Head(1),
            At::Head(number @ (1 | 2)) => At::Head(number + 1),
            At::Head(3) => {
                // How many there are is kept until the lowest number has come.
                match u32::try_from(word) {
                    Ok(count @ 1..) => At::Length(count | LOWEST),
                    Ok(0) | Err(_) => return Err(NotAnArray),
                }
            }
            At::Length(count) if count & LOWEST != 0 => At::Length((count & !LOWEST) - 1),
            At::Length(behind) => match usize::try_from(word) {
                Ok(length) => At::Bytes(length, behind),
                Err(_) if behind == 0 => At::End,
                Err(_) => At::Length(behind - 1),
            },
            At::Head(10) => At::Head(11),
            At::Head(11) => At::End,
            _ => return Err(NotAnArray),
        };
        Ok(())
    }
}

/// Beside a number of members, which has no sign: the word that comes is the lowest number of one.
const LOWEST: u32 = 1 << 31;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Members, NotAnArray};

    /// The members of an array that comes in pieces of a length.
    fn read(binary: bool, array: &[u8], step: usize) -> Result<Vec<Vec<u8>>, NotAnArray> {
        let mut found = Vec::new();
        let mut members = Members::new(binary);
        for piece in array.chunks(step) {
            members.read::<NotAnArray>(piece, &mut |member| {
                found.push(member.to_vec());
                Ok(())
            })?;
        }
        members.end().map(|()| found)
    }

    #[test]
    fn members_are_the_same_whatever_the_pieces() {
        let text = br#"{"\\x01ab",NULL,"a\"b,}",c}"#;
        let binary = [
            &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 17, 0, 0, 0, 4, 0, 0, 0, 1][..],
            &[0, 0, 0, 2, 7, 8, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 1, 9],
        ]
        .concat();
        for step in 1..=text.len() {
            let expected: [&[u8]; 3] = [br"\x01ab", br#"a"b,}"#, b"c"];
            assert_eq!(read(false, text, step).unwrap(), expected, "{step}");
            assert_eq!(read(true, &binary, step).unwrap(), [&[7, 8][..], &[], &[9]], "{step}");
            assert!(read(false, b"{}", step).unwrap().is_empty());
            assert!(read(true, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17], step).unwrap().is_empty());
        }
        for cut in 0..text.len() {
            assert_eq!(read(false, &text[..cut], 3), Err(NotAnArray), "{cut}");
        }
        for cut in 0..binary.len() {
            assert_eq!(read(true, &binary[..cut], 3), Err(NotAnArray), "{cut}");
        }
        for wrong in ["x", "{{1}}", "{1,}", "{,1}", "{1}x", "{\"a\"b}"] {
            assert_eq!(read(false, wrong.as_bytes(), 2), Err(NotAnArray), "{wrong}");
        }
    }

    #[test]
    fn a_member_that_is_too_long_is_refused() {
        let long = [b"{".to_vec(), vec![b'a'; super::MEMBER_BYTES_MAX + 1]].concat();
        assert_eq!(read(false, &long, 1000), Err(NotAnArray));
    }
}
