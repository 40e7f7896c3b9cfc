// SPDX-License-Identifier: GPL-2.0-only

//! What the division of the store reckons with, so that none is taken for another: pages, shares
//! and costs.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Div, Mul, Sub, SubAssign},
};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub(crate) struct $name(pub(crate) f64);

        impl $name {
            pub(crate) const ZERO: Self = Self(0.0);

            pub(crate) const fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl Sub for $name {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;

            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;

            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        /// How many times as much one is.
        impl Div for $name {
            type Output = f64;

            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                Self(all.map(|one| one.0).sum())
            }
        }
    };
}

quantity! {
    /// Pages of the host's store.
    Pages
}

quantity! {
    /// A part of a whole, 0 to 1. The whole is what the VM may have in the store, or the part of
    /// that which is divided by need.
    Share
}

quantity! {
    /// How far something is from what it should be: the natural logarithm of how many times worse
    /// it is. 0 is the target itself, below is better.
    Cost
}

quantity! {
    /// A time.
    Nanoseconds
}

/// What something is worth: nanoseconds of reading that it saves in a second, more in a higher class.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Benefit(pub(crate) f64);

impl Mul<f64> for Benefit {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self(self.0 * factor)
    }
}

impl Nanoseconds {
    pub(crate) const fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
}

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 / 1e6 {
            ms if ms >= 1.0 => write!(f, "{ms:.1} ms"),
            ms => write!(f, "{ms:.3} ms"),
        }
    }
}

impl Benefit {
    pub(crate) const ZERO: Self = Self(0.0);

    /// The benefit of saving a time so many times a second.
    pub(crate) const fn of(time: Nanoseconds, per_second: f64) -> Self {
        Self(time.0 * per_second)
    }
}

impl Pages {
    pub(crate) const fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// The size of these pages in bytes.
    pub(crate) const fn bytes(self) -> u64 {
        (self.0 * ddabi::PAGE_SIZE as f64) as u64
    }

    /// The logarithm of how many times another size this one is.
    pub(crate) fn ln_over(self, other: Self) -> f64 {
        (self / other).ln()
    }
}

impl Share {
    pub(crate) const fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// The whole.
    pub(crate) const ALL: Self = Self(1.0);

    /// The same as a share of a part, of which it is a larger one.
    pub(crate) fn within(self, part: Self) -> Self {
        Self(self.0 / part.0)
    }
}

impl Mul<Pages> for Share {
    type Output = Pages;

    fn mul(self, whole: Pages) -> Pages {
        Pages(self.0 * whole.0)
    }
}

/// A part of a part.
impl Mul for Share {
    type Output = Self;

    fn mul(self, whole: Self) -> Self {
        Self(self.0 * whole.0)
    }
}

impl Cost {
    /// The target itself.
    pub(crate) const TARGET: Self = Self::ZERO;

    /// The cost of being `times` worse.
    pub(crate) fn of_times(times: f64) -> Self {
        Self(times.ln())
    }

    /// How many times worse than the target it is.
    pub(crate) fn times(self) -> f64 {
        self.0.exp()
    }
}
