//! tar files and the samples in them. As with text, two bytes choose how they are read.

use super::pieces::{check_memory, same_in_pieces};
use super::text::options;
use crate::tar::{self, Member, Step, Tar};
use crate::webdataset;
use feedline_io::Buf;

const BLOCK: usize = 512;
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// The file with right checksums in headers that are marked: nobody guesses one.
fn sealed(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    for header in file.as_chunks_mut::<BLOCK>().0 {
        if header[CHECKSUM.start] == b'*' {
            header[CHECKSUM].fill(b' ');
            let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
            header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    file
}

type Found = Vec<Result<(Member, Option<Vec<u8>>), String>>;

/// All members. What is passed over is not read if it is longer than `gap`.
fn members(file: &[u8], block: usize, gap: Option<u64>, wanted: &mut dyn FnMut(&Member) -> bool) -> Found {
    let (mut tar, mut at, mut all) = (Tar::default().max_bytes(1 << 16), 0, Vec::new());
    loop {
        match tar.next(wanted) {
            Step::Member(member, view) => all.push(Ok((member, view.map(|v| v.bytes().to_vec())))),
            Step::Fail(error) => all.push(Err(error.to_string())),
            Step::More => {
                let to = gap.and_then(|gap| tar.hop(gap, file.len() as u64));
                at = to.map_or(at, |to| usize::try_from(to).expect("inside of the file"));
                let end = at.saturating_add(block).min(file.len());
                match end > at {
                    true => tar.feed(Buf::copied(&file[at..end])),
                    false => tar.finish(),
                }
                at = end;
                check_memory();
            }
            Step::End => return all,
        }
    }
}

pub fn tar(bytes: &[u8]) {
    let Some((options, block, file)) = options(bytes) else { return };
    let file = sealed(file);
    let mut wanted = |member: &Member| match options & 3 {
        0 => true,
        1 => false,
        odd => member.size & 1 == u64::from(odd & 1),
    };
    let whole = members(&file, usize::MAX, None, &mut wanted);
    for (block, gap) in [(block, None), (block, Some(0)), (100, Some(600)), (1, None)] {
        // Byte by byte is slow where there are many.
        if file.len() / block <= 2048 {
            assert_eq!(members(&file, block, gap, &mut wanted), whole, "in blocks of {block}, over gaps of {gap:?}");
        }
    }
    for (member, contents) in whole.iter().flatten() {
        let parts = member.name.split(|b| *b == b'/');
        assert!(parts.into_iter().all(|part| !matches!(part, b"" | b"." | b"..")), "{member:?}");
        if let Some(contents) = contents {
            let lies = member.offset as usize..(member.offset + member.size) as usize;
            assert_eq!(contents, &file[lies], "{member:?}");
            // From its own header on it reads the same.
            let mut again = Tar::at(member.header).max_bytes(1 << 16);
            let all = tar::collect(&mut again, [&file[member.header as usize..]], &mut |_| true);
            let first = all.into_iter().next().expect("a member").expect("it was whole");
            assert_eq!(first, (member.clone(), Some(contents.clone())));
        }
    }
    let _ = tar::is_header(&file);
}

pub fn web_dataset(bytes: &[u8]) {
    let Some((_, block, file)) = options(bytes) else { return };
    let file = sealed(file);
    let fields = vec![b"txt".to_vec(), b"jpg;png".to_vec()];
    same_in_pieces(&file, block, fields.len() + 1, &mut || Box::new(webdataset::Reader::new(fields.clone())));
    let blocks = || file.chunks(block).map(Ok);
    for around_damage in [false, true] {
        let whole = webdataset::first_fields([Ok(&file)], around_damage).map_err(|e| e.to_string());
        assert_eq!(webdataset::first_fields(blocks(), around_damage).map_err(|e| e.to_string()), whole);
    }
}
