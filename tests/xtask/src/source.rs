//! Rust source as the checkers see it, without comments and the text of strings.
//!
//! A small scanner rather than a parser: the checkers ask for words and paths, and must not be fooled by those
//! words in prose. Line numbers stay what they are.

/// Blanks comments, and the insides of strings and character literals; keeps every line break.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = if rest.starts_with(b"//") {
            rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            block_comment(rest)
        } else if let Some(length) = raw_string(rest).filter(|_| !continues_word(bytes, at)) {
            length
        } else if rest[0] == b'"' {
            quoted(rest, b'"')
        } else if rest[0] == b'\'' {
            character(rest)
        } else {
            out.push(rest[0]);
            at += 1;
            continue;
        };
        out.extend(rest[..length].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }));
        at += length;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Words of code with their line numbers: `umbra_core::cell` is the words `umbra_core`, `::`, `cell`.
pub(crate) fn words(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let word = |character: char| character.is_alphanumeric() || character == '_';
            let length = if word(first) {
                rest.find(|character| !word(character)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            if !first.is_whitespace() {
                found.push((index + 1, &rest[..length]));
            }
            rest = &rest[length..];
        }
    }
    found
}

fn continues_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

/// Block comments nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of `r"..."`, `r#"..."#`, `br"..."` and so on, if one starts here.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let prefix = match rest {
        [b'r', ..] => 1,
        [b'b' | b'c', b'r', ..] => 2,
        _ => return None,
    };
    let hashes = rest[prefix..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.extend(std::iter::repeat_n(b'#', hashes));
    let start = prefix + hashes + 1;
    let length = rest[start..].windows(end.len()).position(|window| window == end);
    Some(length.map_or(rest.len(), |length| start + length + end.len()))
}

/// Length of a literal with escapes, both quotes included.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a character literal, or of the quote alone where it begins a lifetime.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return quoted(rest, b'\'');
    }
    // One character of up to four bytes and a quote; a lifetime has no quote there.
    let close = rest.iter().skip(1).take(5).position(|&byte| byte == b'\'');
    let wide = |length: usize| std::str::from_utf8(&rest[1..=length]).is_ok_and(|text| text.chars().count() == 1);
    match close {
        Some(length) if length > 0 && wide(length) => length + 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_blanked_and_lines_stay() {
        let text = "a(); // unsafe\n/* unsafe /* nested */\n */ b(\"unsafe \\\" text\");\nlet c = 'x'; f::<'a>(r#\"unsafe\"#);";
        let code = code_only(text);
        assert_eq!(code.lines().count(), text.lines().count());
        assert!(!code.contains("unsafe"), "{code}");
        assert!(code.contains("b(") && code.contains("a>("), "{code}");
    }

    #[test]
    fn quotes_as_characters_do_not_open_strings() {
        assert_eq!(code_only("m('\"', '\\'', 'é', b'x'); unsafe").trim_end(), "m(   ,     ,     , b   ); unsafe");
    }

    #[test]
    fn words_keep_their_lines() {
        assert_eq!(words("use crate::a;\n x_1"), [(1, "use"), (1, "crate"), (1, "::"), (1, "a"), (1, ";"), (2, "x_1")]);
    }
}
