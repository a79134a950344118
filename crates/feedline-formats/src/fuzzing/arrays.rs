//! NumPy's files.

use super::pieces::File;
use crate::{npy, npz};
use feedline_io::{Buf, Error};

pub fn npy(bytes: &[u8]) {
    let Ok(header) = npy::parse(bytes) else { return };
    assert!(header.start <= bytes.len());
    assert_eq!(npy::header_len(bytes).expect("it was read"), header.start);
    let all = header.bytes();
    assert!(all <= isize::MAX as u64);
    for field in &header.fields {
        let size = field.shape.iter().try_fold(field.size, |n, d| n.checked_mul(*d)).expect("it was checked");
        assert!(field.offset.checked_add(size).is_some_and(|end| end <= header.item), "{field:?}");
    }
    // The first bytes are enough.
    assert_eq!(npy::parse(&bytes[..header.start]).expect("all of the header"), header);
    if header.is_plain() && !header.shape.is_empty() && !header.fortran {
        let again = npy::header("'<f4'", header.shape[0] as u64, &header.shape[1..]);
        assert_eq!(
            npy::parse(&again).map_or(vec![], |npy| npy.shape),
            if fits(&header) { header.shape } else { vec![] }
        );
    }
}

/// Whether as many numbers of four bytes would not be too many.
fn fits(header: &npy::Npy) -> bool {
    let items = header.shape.iter().try_fold(4usize, |n, &d| n.checked_mul(d.max(1)));
    items.is_some_and(|n| n <= isize::MAX as usize / 16)
}

/// The directory of an archive, and what it leads to.
pub fn npz(bytes: &[u8]) {
    let source = File::of(bytes);
    let len = bytes.len() as u64;
    let Ok((members, names)) = npz::members(&source, len, &|name| !name.starts_with('-')) else { return };
    assert!(members.iter().all(|member| names.contains(&member.name)));
    for member in members {
        let stored = &bytes[member.range.start as usize..member.range.end as usize];
        assert!(!stored.is_empty() || member.size <= 64, "{member:?}");
        if !member.compressed {
            assert_eq!(member.size, stored.len() as u64);
            npy(stored);
            continue;
        }
        // Some kilobytes of zeros can stand for any number; deflate itself is not what is looked at here.
        if member.size > 1 << 22 {
            continue;
        }
        let read = |n: usize| -> Result<Buf, Error> { Ok(Buf::copied(&stored[..n])) };
        let head = npz::inflated_head(&member, 100, &read);
        let Ok(whole) = npz::inflated(&member, stored) else { continue };
        let head = head.expect("a part of what could be inflated");
        assert_eq!(head, whole.as_slice()[..whole.len().min(100)]);
        npy(whole.as_slice());
    }
}
