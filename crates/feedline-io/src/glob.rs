//! Patterns of one part of a path, as `fnmatch` with `FNM_PATHNAME` reads them (which is what TensorFlow uses): `*` and
//! `?` match any character, also a leading dot; `[a-z]`, `[!a-z]`, `[^a-z]` and `[[:digit:]]` one of a set; a backslash
//! takes the next character as it is. A `[` that is never closed is itself. `/` never comes in: paths are cut first.

/// Whether there is anything to match in a text.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '\\'])
}

#[derive(Debug)]
pub(crate) struct Glob(Vec<Item>);

#[derive(Debug)]
enum Item {
    Char(u32),
    One,
    Many,
    Set { negated: bool, ranges: Vec<(u32, u32)> },
}

/// The characters of a name. Bytes that are no UTF-8 are characters of their own, which only `*`, `?` and sets match.
fn decode(name: &[u8]) -> Vec<u32> {
    let mut chars = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        chars.extend(chunk.valid().chars().map(u32::from));
        chars.extend(chunk.invalid().iter().map(|byte| 0xdc00 + u32::from(*byte)));
    }
    chars
}

impl Glob {
    pub(crate) fn new(text: &str) -> Glob {
        let chars: Vec<char> = text.chars().collect();
        let mut items = Vec::new();
        let mut i = 0;
        while let Some(&c) = chars.get(i) {
            i += 1;
            items.push(match c {
                '*' if matches!(items.last(), Some(Item::Many)) => continue,
                '*' => Item::Many,
                '?' => Item::One,
                '\\' if i < chars.len() => {
                    i += 1;
                    Item::Char(chars[i - 1].into())
                }
                '[' => match set(&chars[i..]) {
                    Some((item, used)) => {
                        i += used;
                        item
                    }
                    None => Item::Char(c.into()),
                },
                c => Item::Char(c.into()),
            });
        }
        Glob(items)
    }

    /// The text that it is, if there is nothing to match in it.
    pub(crate) fn literal(&self) -> Option<String> {
        self.0
            .iter()
            .map(|item| match item {
                Item::Char(c) => char::from_u32(*c),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        let (items, name) = (&self.0, decode(name));
        let (mut i, mut n) = (0, 0);
        // Where the last `*` stands, and how much it has eaten: on a mismatch it eats one more. Never worse than the
        // product of both lengths.
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            let fits = match items.get(i) {
                Some(Item::Many) => {
                    star = Some((i, n));
                    i += 1;
                    continue;
                }
                Some(Item::One) => true,
                Some(Item::Char(c)) => *c == name[n],
                Some(Item::Set { negated, ranges }) => {
                    ranges.iter().any(|(low, high)| (*low..=*high).contains(&name[n])) != *negated
                }
                None => false,
            };
            if fits {
                (i, n) = (i + 1, n + 1);
                continue;
            }
            let Some((at, eaten)) = star else { return false };
            star = Some((at, eaten + 1));
            (i, n) = (at + 1, eaten + 1);
        }
        items[i..].iter().all(|item| matches!(item, Item::Many))
    }
}

/// The set that begins after a `[`, and how many characters it takes; `None`: it is never closed.
fn set(chars: &[char]) -> Option<(Item, usize)> {
    let negated = matches!(chars.first(), Some('!' | '^'));
    let first = usize::from(negated);
    let mut i = first;
    let mut ranges = Vec::new();
    loop {
        let c = *chars.get(i)?;
        i += 1;
        match c {
            // In the first place it is a member.
            ']' if i > first + 1 => return Some((Item::Set { negated, ranges }, i)),
            '[' if chars.get(i) == Some(&':') => {
                let end = i + 1 + chars[i + 1..].windows(2).position(|w| w == [':', ']'])?;
                let name: String = chars[i + 1..end].iter().collect();
                ranges.extend(class(&name).iter().map(|(low, high)| (u32::from(*low), u32::from(*high))));
                i = end + 2;
            }
            c => {
                let low = if c == '\\' { escaped(chars, &mut i)? } else { c };
                let mut high = low;
                if chars.get(i) == Some(&'-') && chars.get(i + 1).is_some_and(|c| *c != ']') {
                    high = chars[i + 1];
                    i += 2;
                    if high == '\\' {
                        high = escaped(chars, &mut i)?;
                    }
                }
                ranges.push((low.into(), high.into()));
            }
        }
    }
}

fn escaped(chars: &[char], i: &mut usize) -> Option<char> {
    let c = *chars.get(*i)?;
    *i += 1;
    Some(c)
}

/// The named sets, of ASCII.
fn class(name: &str) -> &'static [(u8, u8)] {
    match name {
        "alnum" => &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')],
        "alpha" => &[(b'A', b'Z'), (b'a', b'z')],
        "blank" => &[(b' ', b' '), (b'\t', b'\t')],
        "cntrl" => &[(0, 31), (127, 127)],
        "digit" => &[(b'0', b'9')],
        "graph" => &[(33, 126)],
        "lower" => &[(b'a', b'z')],
        "print" => &[(32, 126)],
        "punct" => &[(33, 47), (58, 64), (91, 96), (123, 126)],
        "space" => &[(b' ', b' '), (9, 13)],
        "upper" => &[(b'A', b'Z')],
        "xdigit" => &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fits(pattern: &str, name: &str) -> bool {
        Glob::new(pattern).matches(name.as_bytes())
    }

    #[test]
    fn patterns_match_as_fnmatch_does() {
        for (pattern, name) in [
            ("*", ""),
            ("*", ".hidden"),
            ("?.txt", "ä.txt"),
            ("a*b*c", "axxbyybzc"),
            ("*.tfrecord*", "x.tfrecord-00000-of-00010"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[^a-c]x", "dx"),
            ("[]a]", "]"),
            ("[!]a]", "b"),
            ("[a-]", "-"),
            ("[[:digit:]_]", "7"),
            ("[[:digit:]_]", "_"),
            ("\\*", "*"),
            ("[\\]]", "]"),
            ("[", "["),
            ("a[b", "a[b"),
            ("a\\", "a\\"),
            ("**", "abc"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("?", ""),
            ("a", "b"),
            ("*.txt", "a.txt.gz"),
            ("[a-c]x", "dx"),
            ("[!a-c]x", "bx"),
            ("[]a]", "b"),
            ("[[:digit:]]", "x"),
            ("\\*", "x"),
            ("[b-a]", "a"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
        assert!(Glob::new("a?b*").matches(b"a\xffb\xfe"));
        assert_eq!(Glob::new("a\\*b").literal().as_deref(), Some("a*b"));
        assert_eq!(Glob::new("a*").literal(), None);
    }

    proptest! {
        #[test]
        fn stars_are_what_a_slow_matcher_says(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            fn slow(pattern: &[u8], name: &[u8]) -> bool {
                match (pattern.split_first(), name.split_first()) {
                    (None, None) => true,
                    (Some((b'*', rest)), _) => (0..=name.len()).any(|n| slow(rest, &name[n..])),
                    (Some((c, rest)), Some((n, names))) => (*c == b'?' || c == n) && slow(rest, names),
                    _ => false,
                }
            }
            prop_assert_eq!(fits(&pattern, &name), slow(pattern.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn any_pattern_ends(pattern in ".{0,20}", name in prop::collection::vec(any::<u8>(), 0..20)) {
            Glob::new(&pattern).matches(&name);
        }
    }
}
