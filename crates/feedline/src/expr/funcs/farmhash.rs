//! FarmHash's Fingerprint64: the stable hash with which TensorFlow and BigQuery put strings into buckets.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;

fn u64_at(s: &[u8], i: usize) -> u64 {
    u64::from_le_bytes(s[i..i + 8].try_into().expect("eight bytes"))
}
fn u32_at(s: &[u8], i: usize) -> u64 {
    u32::from_le_bytes(s[i..i + 4].try_into().expect("four bytes")).into()
}
fn mix(x: u64) -> u64 {
    x ^ (x >> 47)
}
fn pair(u: u64, v: u64, mul: u64) -> u64 {
    let a = mix((u ^ v).wrapping_mul(mul));
    mix((v ^ a).wrapping_mul(mul)).wrapping_mul(mul)
}
fn sum(terms: &[u64]) -> u64 {
    terms.iter().fold(0, |a, b| a.wrapping_add(*b))
}

/// The fingerprint of some bytes. Never changes.
pub fn fingerprint64(s: &[u8]) -> u64 {
    let n = s.len();
    let len = n as u64;
    let mul = K2.wrapping_add(len.wrapping_mul(2));
    match n {
        0 => K2,
        1..4 => {
            let y = u64::from(s[0]) + (u64::from(s[n / 2]) << 8);
            let z = len + (u64::from(s[n - 1]) << 2);
            mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2)
        }
        4..8 => pair(len + (u32_at(s, 0) << 3), u32_at(s, n - 4), mul),
        8..=16 => {
            let a = u64_at(s, 0).wrapping_add(K2);
            let b = u64_at(s, n - 8);
            let c = b.rotate_right(37).wrapping_mul(mul).wrapping_add(a);
            let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(mul);
            pair(c, d, mul)
        }
        17..=32 => {
            let a = u64_at(s, 0).wrapping_mul(K1);
            let b = u64_at(s, 8);
            let c = u64_at(s, n - 8).wrapping_mul(mul);
            let d = u64_at(s, n - 16).wrapping_mul(K2);
            let u = sum(&[a.wrapping_add(b).rotate_right(43), c.rotate_right(30), d]);
            pair(u, sum(&[a, b.wrapping_add(K2).rotate_right(18), c]), mul)
        }
        33..=64 => {
            let a = u64_at(s, 0).wrapping_mul(K2);
            let b = u64_at(s, 8);
            let c = u64_at(s, n - 8).wrapping_mul(mul);
            let d = u64_at(s, n - 16).wrapping_mul(K2);
            let y = sum(&[a.wrapping_add(b).rotate_right(43), c.rotate_right(30), d]);
            let z = pair(y, sum(&[a, b.wrapping_add(K2).rotate_right(18), c]), mul);
            let e = u64_at(s, 16).wrapping_mul(mul);
            let f = u64_at(s, 24);
            let g = y.wrapping_add(u64_at(s, n - 32)).wrapping_mul(mul);
            let h = z.wrapping_add(u64_at(s, n - 24)).wrapping_mul(mul);
            let u = sum(&[e.wrapping_add(f).rotate_right(43), g.rotate_right(30), h]);
            pair(u, sum(&[e, f.wrapping_add(a).rotate_right(18), g]), mul)
        }
        _ => long(s),
    }
}

/// More than 64 bytes: a state of seven words goes over blocks of 64, the last one overlapping the one before.
fn long(s: &[u8]) -> u64 {
    const SEED: u64 = 81;
    let y = SEED.wrapping_mul(K1).wrapping_add(113);
    let mut state = State {
        x: SEED.wrapping_mul(K2).wrapping_add(u64_at(s, 0)),
        y,
        z: mix(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2),
        v: (0, 0),
        w: (0, 0),
    };
    let blocks = (s.len() - 1) / 64;
    for k in 0..blocks {
        state.block(&s[k * 64..k * 64 + 64], K1, 1);
    }
    let mul = K1.wrapping_add((state.z & 0xff) << 1);
    state.w.0 = state.w.0.wrapping_add((s.len() as u64 - 1) & 63);
    state.v.0 = state.v.0.wrapping_add(state.w.0);
    state.w.0 = state.w.0.wrapping_add(state.v.0);
    state.block(&s[s.len() - 64..], mul, 9);
    let State { x, y, z, v, w } = state;
    let first = sum(&[pair(v.0, w.0, mul), mix(y).wrapping_mul(K0), z]);
    pair(first, pair(v.1, w.1, mul).wrapping_add(x), mul)
}

struct State {
    x: u64,
    y: u64,
    z: u64,
    v: (u64, u64),
    w: (u64, u64),
}

impl State {
    fn block(&mut self, s: &[u8], mul: u64, times: u64) {
        let State { mut x, mut y, mut z, v, w } = *self;
        x = sum(&[x, y, v.0, u64_at(s, 8)]).rotate_right(37).wrapping_mul(mul);
        y = sum(&[y, v.1, u64_at(s, 48)]).rotate_right(42).wrapping_mul(mul);
        x ^= w.1.wrapping_mul(times);
        y = sum(&[y, v.0.wrapping_mul(times), u64_at(s, 40)]);
        z = z.wrapping_add(w.0).rotate_right(33).wrapping_mul(mul);
        self.v = weak(s, v.1.wrapping_mul(mul), x.wrapping_add(w.0));
        self.w = weak(&s[32..], z.wrapping_add(w.1), y.wrapping_add(u64_at(s, 16)));
        (self.x, self.y, self.z) = (z, y, x);
    }
}

fn weak(s: &[u8], a: u64, b: u64) -> (u64, u64) {
    let (w, x, y, z) = (u64_at(s, 0), u64_at(s, 8), u64_at(s, 16), u64_at(s, 24));
    let a = a.wrapping_add(w);
    let b = sum(&[b, a, z]).rotate_right(21);
    let c = sum(&[a, x, y]);
    (c.wrapping_add(z), sum(&[b, c.rotate_right(44), a]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        for (want, text) in [
            (0x9ae16a3b2f90404f, ""),
            (0xb3454265b6df75e3, "a"),
            (0x24a5b3a074e7f369, "abc"),
            (0x1a5502de4a1f8101, "abcd"),
            (0x3c40c92b1ccb7355, "abcdefg"),
            (0xfee9d22990c82909, "abcdefgh"),
            (0x4283d4ef43627f64, "0123456789'01234"),
            (0x46a7416ed4861e3b, "0123456789=012345"),
            (0xb944f8a16261e414, "C is as portable as Stonehedge!!"),
            (0xe8f89ab6df9bdd25, "Discard medicine more than two years old."),
            (0x2a578b80bb82147c, "The days of the digital watch are numbered.  -Tom Stoppard"),
            (0x55182f8859eca4ce, "For every action there is an equal and opposite government program."),
            (
                0x5a05644eb66e435e,
                "Even if I could be Shakespeare, I think I should still choose to be Faraday. - A. Huxley",
            ),
            (
                0x98eff6958c5e91a,
                "The fugacity of a constituent in a mixture of gases at a given temperature is proportional to its \
                 mole fraction.  Lewis-Randall Rule",
            ),
        ] {
            assert_eq!(fingerprint64(text.as_bytes()), want, "{text:?}");
        }
        // BigQuery's documentation of FARM_FINGERPRINT.
        assert_eq!(fingerprint64(b"1footrue") as i64, -1541654101129638711);
        assert_eq!(fingerprint64(b"2applefalse") as i64, 2794438866806483259);
    }
}
