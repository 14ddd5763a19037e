//! Arrays of one dimension, as PostgreSQL writes them.

/// The members of an array's text, `{1,"a b",NULL}`; none if it is no array of one dimension.
pub(crate) fn array_members(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inside.trim().is_empty() {
        return Some(Vec::new());
    }
    let mut members = Vec::new();
    let mut characters = inside.chars().peekable();
    loop {
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        let (mut member, mut quoted) = (String::new(), false);
        if characters.next_if_eq(&'"').is_some() {
            quoted = true;
            loop {
                match characters.next()? {
                    '"' => break,
                    '\\' => member.push(characters.next()?),
                    other => member.push(other),
                }
            }
            while characters.next_if(|c| c.is_whitespace()).is_some() {}
        } else {
            while let Some(character) = characters.next_if(|c| *c != ',') {
                match character {
                    '{' | '}' | '"' => return None,
                    '\\' => member.push(characters.next()?),
                    other => member.push(other),
                }
            }
            member.truncate(member.trim_end().len());
        }
        if !quoted && member.is_empty() {
            return None;
        }
        members.push((quoted || !member.eq_ignore_ascii_case("null")).then_some(member));
        match characters.next() {
            None => return Some(members),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

/// The number of the members' type and the members of an array in binary; none if it is no array of one dimension.
pub(crate) fn binary_members(bytes: &[u8]) -> Option<(u32, Vec<Option<&[u8]>>)> {
    let mut rest = bytes;
    let mut word = || {
        let (word, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        Some(i32::from_be_bytes(*word))
    };
    let (dimensions, _has_null, oid) = (word()?, word()?, word()?);
    let oid = u32::try_from(oid).ok()?;
    if dimensions == 0 {
        return Some((oid, Vec::new()));
    }
    let (count, _lowest) = (word()?, word()?);
    let mut members = Vec::new();
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) => {
                let (member, after) = rest.split_at_checked(length)?;
                members.push(Some(member));
                rest = after;
            }
            Err(_) => members.push(None),
        }
    }
    (dimensions == 1 && rest.is_empty()).then_some((oid, members))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{array_members, binary_members};

    #[test]
    fn members_in_binary_are_read_and_what_is_cut_is_not() {
        let array = [
            &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1][..],
            &[0, 0, 0, 2, 7, 8, 255, 255, 255, 255],
        ]
        .concat();
        assert_eq!(binary_members(&array).unwrap(), (23, vec![Some(&[7, 8][..]), None]));
        assert_eq!(binary_members(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25]).unwrap(), (25, vec![]));
        for cut in 0..array.len() {
            assert_eq!(binary_members(&array[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn members_are_read_as_postgresql_reads_them() {
        let some = |list: &[&str]| list.iter().map(|member| Some((*member).to_owned())).collect::<Vec<_>>();
        assert_eq!(array_members("{1,2, 3 }").unwrap(), some(&["1", "2", "3"]));
        assert_eq!(array_members(r#"{"a,b","c\"d",e f}"#).unwrap(), some(&["a,b", "c\"d", "e f"]));
        assert_eq!(array_members("{NULL,\"NULL\"}").unwrap(), [None, Some("NULL".to_owned())]);
        assert_eq!(array_members("{}").unwrap(), []);
        for wrong in ["1,2", "{{1},{2}}", "{1,", "{1,}", "{\"a}", "{\"a\"b}"] {
            assert_eq!(array_members(wrong), None, "{wrong}");
        }
    }
}
