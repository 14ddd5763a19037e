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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::array_members;

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
