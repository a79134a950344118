//! Integer operations that never fail: division that rounds down, powers, and shifts of any distance.

use super::number::Number;

/// Integers of either sign.
pub trait Int: Number {
    /// Rounded down; 0 for a zero divisor, which callers have refused.
    fn floor_div(self, by: Self) -> Self;
    /// With the sign of the divisor.
    fn floor_mod(self, by: Self) -> Self;
    fn power(self, by: Self) -> Self;
    fn is_negative_int(self) -> bool;
    fn magnitude(self) -> Self;
    fn sign(self) -> Self;
    /// The power of two that it is, if it is one.
    fn log2_exact(self) -> Option<u32>;
    /// 0 for distances outside the item's bits (NumPy's rule).
    fn shift_left(self, by: Self) -> Self;
    fn shift_right(self, by: Self) -> Self;
}

macro_rules! int {
    ($($t:ty, $negative:expr);*) => { $(
        impl Int for $t {
            #[inline(always)]
            fn floor_div(self, by: $t) -> $t {
                if by == 0 {
                    return 0;
                }
                let q = self.wrapping_div(by);
                let down = self.wrapping_rem(by) != 0 && ($negative(self) != $negative(by));
                q.wrapping_sub(down as $t)
            }
            #[inline(always)]
            fn floor_mod(self, by: $t) -> $t {
                if by == 0 {
                    return 0;
                }
                let rest = self.wrapping_rem(by);
                if rest != 0 && ($negative(rest) != $negative(by)) { rest.wrapping_add(by) } else { rest }
            }
            #[inline(always)]
            fn power(self, by: $t) -> $t {
                let (mut base, mut by, mut out) = (self, by, 1 as $t);
                while by > 0 {
                    if by & 1 == 1 {
                        out = out.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    by >>= 1;
                }
                out
            }
            #[inline(always)]
            fn is_negative_int(self) -> bool {
                $negative(self)
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                if $negative(self) { self.wrapping_neg() } else { self }
            }
            #[inline(always)]
            fn sign(self) -> $t {
                ((self > 0) as $t).wrapping_sub($negative(self) as $t)
            }
            fn log2_exact(self) -> Option<u32> {
                (self > 0 && self & (self - 1) == 0).then(|| self.ilog2())
            }
            #[inline(always)]
            fn shift_left(self, by: $t) -> $t {
                if by as u64 >= <$t>::BITS as u64 { 0 } else { self << by }
            }
            #[inline(always)]
            fn shift_right(self, by: $t) -> $t {
                if by as u64 >= <$t>::BITS as u64 {
                    if $negative(self) { (0 as $t).wrapping_sub(1) } else { 0 }
                } else {
                    self >> by
                }
            }
        }
    )* };
}
int!(i8, |x: i8| x < 0; i16, |x: i16| x < 0; i32, |x: i32| x < 0; i64, |x: i64| x < 0;
     u8, |_: u8| false; u16, |_: u16| false; u32, |_: u32| false; u64, |_: u64| false);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_pair_divides_as_in_python() {
        for a in i8::MIN..=i8::MAX {
            for b in (i8::MIN..=i8::MAX).filter(|b| *b != 0) {
                let q = (a as f64 / b as f64).floor();
                assert_eq!(a.floor_div(b), q as i32 as i8, "{a} // {b}");
                assert_eq!(a.floor_mod(b) as f64, a as f64 - q * b as f64, "{a} % {b}");
            }
        }
        assert_eq!(i64::MIN.floor_div(-1), i64::MIN);
        assert_eq!(i64::MIN.floor_mod(-1), 0);
        assert_eq!(i64::MIN.magnitude(), i64::MIN);
        assert_eq!(u64::MAX.power(u64::MAX), u64::MAX);
        assert_eq!((-8i8).shift_right(100), -1);
        assert_eq!(200u8.shift_right(9), 0);
    }
}
