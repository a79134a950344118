//! Crops, flips, turns: pixels that move and do not change.
//!
//! Pictures are bytes here, and the `channels` of a `Size` count the bytes of a pixel: one function serves every dtype.
//! Slices hold exactly the pictures that their sizes say.

use crate::Size;

/// A rectangle of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    pub y: usize,
    pub x: usize,
    pub height: usize,
    pub width: usize,
}

impl Rect {
    pub const fn new(y: usize, x: usize, height: usize, width: usize) -> Rect {
        Rect { y, x, height, width }
    }
    /// Whether it has pixels, and all of them lie in the picture.
    pub fn fits(&self, size: Size) -> bool {
        let inside = |at: usize, len: usize, all: usize| len > 0 && at.checked_add(len).is_some_and(|end| end <= all);
        inside(self.y, self.height, size.height) && inside(self.x, self.width, size.width)
    }
    /// Whether it is all of the picture.
    pub fn is_whole(&self, size: Size) -> bool {
        *self == Rect::new(0, 0, size.height, size.width)
    }
}

/// The rectangle of a picture as a picture of its own. It must fit.
pub fn crop(from: &[u8], size: Size, rect: Rect, to: &mut [u8]) {
    let row = rect.width * size.channels;
    if row == 0 {
        return;
    }
    let first = rect.y * size.stride() + rect.x * size.channels;
    for (y, to) in to.chunks_exact_mut(row).take(rect.height).enumerate() {
        let at = first + y * size.stride();
        to.copy_from_slice(&from[at..at + row]);
    }
}

/// A rectangle of a picture put into a larger one of zeros, its corner at (`y`, `x`) there. It must fit on both sides.
pub fn place(from: &[u8], size: Size, rect: Rect, to: &mut [u8], room: Size, (y, x): (usize, usize)) {
    if room.stride() == 0 {
        return;
    }
    let (left, row) = (x * room.channels, rect.width * size.channels);
    let first = rect.y * size.stride() + rect.x * size.channels;
    for (i, to) in to.chunks_exact_mut(room.stride()).enumerate() {
        match i.checked_sub(y).filter(|i| *i < rect.height) {
            None => to.fill(0),
            Some(i) => {
                let at = first + i * size.stride();
                to[..left].fill(0);
                to[left..left + row].copy_from_slice(&from[at..at + row]);
                to[left + row..].fill(0);
            }
        }
    }
}

/// Runs `$known` with `$N` as the number of bytes of a pixel if it is a common one, so that a pixel moves in registers.
macro_rules! by_pixel {
    ($bytes:expr, $N:ident => $known:expr; $other:expr) => {
        match $bytes {
            1 => by_pixel!(@ $N 1 $known),
            2 => by_pixel!(@ $N 2 $known),
            3 => by_pixel!(@ $N 3 $known),
            4 => by_pixel!(@ $N 4 $known),
            6 => by_pixel!(@ $N 6 $known),
            8 => by_pixel!(@ $N 8 $known),
            12 => by_pixel!(@ $N 12 $known),
            16 => by_pixel!(@ $N 16 $known),
            _ => $other,
        }
    };
    (@ $N:ident $n:literal $known:expr) => {{
        const $N: usize = $n;
        $known
    }};
}

/// The picture as in a mirror.
pub fn flip_left_right(from: &[u8], size: Size, to: &mut [u8]) {
    if size.stride() == 0 {
        return;
    }
    for (from, to) in from.chunks_exact(size.stride()).zip(to.chunks_exact_mut(size.stride())) {
        by_pixel!(size.channels, N => {
            let from = from.as_chunks::<N>().0.iter().rev();
            to.as_chunks_mut::<N>().0.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }; {
            let from = from.chunks_exact(size.channels).rev();
            to.chunks_exact_mut(size.channels).zip(from).for_each(|(to, from)| to.copy_from_slice(from));
        });
    }
}

/// The same in place.
pub fn flip_left_right_in_place(picture: &mut [u8], size: Size) {
    if size.stride() == 0 {
        return;
    }
    for row in picture.chunks_exact_mut(size.stride()) {
        by_pixel!(size.channels, N => reverse(row.as_chunks_mut::<N>().0); {
            let half = size.width / 2 * size.channels;
            let (left, right) = row.split_at_mut(half);
            let right = right.rchunks_exact_mut(size.channels);
            left.chunks_exact_mut(size.channels).zip(right).for_each(|(a, b)| a.swap_with_slice(b));
        });
    }
}

/// Both ends of a row exchanged by way of some memory of their own: three times as fast as pixel by pixel.
fn reverse<const N: usize>(row: &mut [[u8; N]]) {
    const BLOCK: usize = 64;
    let (mut left, mut right) = (0, row.len());
    let mut ends = [[[0u8; N]; BLOCK]; 2];
    while right - left > 1 {
        let n = BLOCK.min((right - left) / 2);
        let [first, last] = &mut ends;
        first[..n].copy_from_slice(&row[left..left + n]);
        last[..n].copy_from_slice(&row[right - n..right]);
        row[left..left + n].iter_mut().zip(last[..n].iter().rev()).for_each(|(to, from)| *to = *from);
        row[right - n..right].iter_mut().zip(first[..n].iter().rev()).for_each(|(to, from)| *to = *from);
        (left, right) = (left + n, right - n);
    }
}

/// The picture upside down, as a mirror on the ground shows it.
pub fn flip_up_down(from: &[u8], size: Size, to: &mut [u8]) {
    if size.stride() == 0 {
        return;
    }
    let rows = from.chunks_exact(size.stride()).rev();
    to.chunks_exact_mut(size.stride()).zip(rows).for_each(|(to, from)| to.copy_from_slice(from));
}

/// The same in place.
pub fn flip_up_down_in_place(picture: &mut [u8], size: Size) {
    if size.stride() == 0 {
        return;
    }
    let (top, bottom) = picture.split_at_mut(size.height / 2 * size.stride());
    let rows = bottom.rchunks_exact_mut(size.stride());
    top.chunks_exact_mut(size.stride()).zip(rows).for_each(|(a, b)| a.swap_with_slice(b));
}

/// What a turn by quarters or a mirror along the diagonal does: rows and columns exchanged or not, then each of the
/// result's axes backwards or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub exchanged: bool,
    pub rows_back: bool,
    pub columns_back: bool,
}

impl Turn {
    /// Rows become columns.
    pub const TRANSPOSED: Turn = Turn { exchanged: true, rows_back: false, columns_back: false };

    /// So many quarters against the clock.
    pub const fn quarters(k: i64) -> Turn {
        match k.rem_euclid(4) {
            0 => Turn { exchanged: false, rows_back: false, columns_back: false },
            1 => Turn { exchanged: true, rows_back: true, columns_back: false },
            2 => Turn { exchanged: false, rows_back: true, columns_back: true },
            _ => Turn { exchanged: true, rows_back: false, columns_back: true },
        }
    }
    /// The size of the result.
    pub const fn size(&self, size: Size) -> Size {
        match self.exchanged {
            true => Size::new(size.width, size.height, size.channels),
            false => size,
        }
    }
}

/// Pixels of a tile are read and written together, so that neither side walks through all of memory for each of its
/// rows: 16 rows of cache lines fit the first-level cache of any machine.
const TILE: usize = 16;

#[inline(always)]
fn tiles(size: Size, mut each: impl FnMut(usize, usize)) {
    for top in (0..size.height).step_by(TILE) {
        for left in (0..size.width).step_by(TILE) {
            for y in top..(top + TILE).min(size.height) {
                (left..(left + TILE).min(size.width)).for_each(|x| each(y, x));
            }
        }
    }
}

/// The picture turned.
pub fn turn(from: &[u8], size: Size, turn: Turn, to: &mut [u8]) {
    let out = turn.size(size);
    if out.items() == 0 {
        return;
    }
    // The pixel that comes to row `y`, column `x`.
    let source = |y: usize, x: usize| {
        let y = if turn.rows_back { out.height - 1 - y } else { y };
        let x = if turn.columns_back { out.width - 1 - x } else { x };
        if turn.exchanged { x * size.width + y } else { y * size.width + x }
    };
    by_pixel!(size.channels, N => {
        let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
        tiles(out, |y, x| to[y * out.width + x] = from[source(y, x)]);
    }; {
        let n = size.channels;
        tiles(out, |y, x| {
            let (o, i) = (y * out.width + x, source(y, x));
            to[o * n..(o + 1) * n].copy_from_slice(&from[i * n..(i + 1) * n]);
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A picture whose pixels tell where they stand: `y`, `x`, and the number of the byte.
    fn picture(size: Size) -> Vec<u8> {
        (0..size.items())
            .map(|i| {
                let (pixel, byte) = (i / size.channels, i % size.channels);
                (pixel / size.width * 50 + pixel % size.width * 7 + byte) as u8
            })
            .collect()
    }
    fn pixel(picture: &[u8], size: Size, y: usize, x: usize) -> &[u8] {
        let at = (y * size.width + x) * size.channels;
        &picture[at..at + size.channels]
    }

    fn sizes() -> impl Strategy<Value = Size> {
        (1..20usize, 1..160usize, prop_oneof![Just(1usize), Just(3), Just(4), Just(5), Just(12), Just(32)])
            .prop_map(|(h, w, c)| Size::new(h, w, c))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_pixel_comes_to_its_place(size in sizes(), k in -3i64..8) {
            let from = picture(size);
            let (h, w) = (size.height, size.width);
            let mut to = vec![0; from.len()];
            let mut own = from.clone();
            flip_left_right(&from, size, &mut to);
            flip_left_right_in_place(&mut own, size);
            prop_assert_eq!(&to, &own);
            for (y, x) in (0..h).flat_map(|y| (0..w).map(move |x| (y, x))) {
                prop_assert_eq!(pixel(&to, size, y, x), pixel(&from, size, y, w - 1 - x));
            }
            flip_up_down(&from, size, &mut to);
            own.copy_from_slice(&from);
            flip_up_down_in_place(&mut own, size);
            prop_assert_eq!(&to, &own);
            for y in 0..h {
                prop_assert_eq!(pixel(&to, size, y, 0), pixel(&from, size, h - 1 - y, 0));
            }
            // A turn by k quarters is k turns by one.
            let (mut want, mut at) = (from.clone(), size);
            for _ in 0..k.rem_euclid(4) {
                let next = Turn::quarters(1).size(at);
                let mut turned = vec![0; want.len()];
                for (y, x) in (0..next.height).flat_map(|y| (0..next.width).map(move |x| (y, x))) {
                    let i = (y * next.width + x) * next.channels;
                    turned[i..i + next.channels].copy_from_slice(pixel(&want, at, x, at.width - 1 - y));
                }
                (want, at) = (turned, next);
            }
            turn(&from, size, Turn::quarters(k), &mut to);
            prop_assert_eq!(&to, &want);
            prop_assert_eq!(Turn::quarters(k).size(size), at);
            turn(&from, size, Turn::TRANSPOSED, &mut to);
            let across = Turn::TRANSPOSED.size(size);
            for (y, x) in (0..h).flat_map(|y| (0..w).map(move |x| (y, x))) {
                prop_assert_eq!(pixel(&to, across, x, y), pixel(&from, size, y, x));
            }
        }

        #[test]
        fn crops_and_borders_are_inverse(size in sizes(), border in (0..5usize, 0..5usize, 0..5usize, 0..5usize)) {
            let (top, left, bottom, right) = border;
            let from = picture(size);
            let room = Size::new(size.height + top + bottom, size.width + left + right, size.channels);
            let mut large = vec![9; room.items()];
            place(&from, size, Rect::new(0, 0, size.height, size.width), &mut large, room, (top, left));
            let total = |bytes: &[u8]| bytes.iter().map(|b| u64::from(*b)).sum::<u64>();
            prop_assert_eq!(total(&large), total(&from));
            let rect = Rect::new(top, left, size.height, size.width);
            prop_assert!(rect.fits(room) && rect.is_whole(room) == (border == (0, 0, 0, 0)));
            let mut back = vec![0; from.len()];
            crop(&large, room, rect, &mut back);
            prop_assert_eq!(back, from);
        }
    }

    #[test]
    fn rectangles_outside_do_not_fit() {
        let size = Size::new(3, 4, 1);
        assert!(Rect::new(0, 0, 3, 4).fits(size) && Rect::new(2, 3, 1, 1).fits(size));
        assert!(!Rect::new(1, 0, 3, 4).fits(size) && !Rect::new(0, 1, 1, 4).fits(size));
        assert!(!Rect::new(usize::MAX, 0, 2, 1).fits(size) && !Rect::new(0, 0, 0, 1).fits(size));
    }
}
