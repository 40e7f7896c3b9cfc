// SPDX-License-Identifier: GPL-2.0-only

//! Units of the division of the store: pages, shares and costs. Separate types keep them from being
//! mixed up.

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

        /// The ratio of two quantities.
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
    /// A part of a whole, 0 to 1. The whole is the VM's share of the store, or the part of it that
    /// the controller divides.
    Share
}

quantity! {
    /// The distance from a target: the natural logarithm of the factor by which a figure is worse.
    /// It is 0 at the target, and negative if the figure is better.
    Cost
}

quantity! {
    /// A time.
    Nanoseconds
}

/// A benefit: nanoseconds of reading that are saved per second, multiplied by the worth of the
/// class.
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

    /// Returns the benefit of saving `time` `per_second` times a second.
    pub(crate) const fn of(time: Nanoseconds, per_second: f64) -> Self {
        Self(time.0 * per_second)
    }
}

impl Pages {
    pub(crate) const fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// Returns the size of these pages in bytes.
    pub(crate) const fn bytes(self) -> u64 {
        (self.0 * ddabi::PAGE_SIZE as f64) as u64
    }

    /// Returns the natural logarithm of the ratio of this size to another.
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

    /// Converts to a share of `part`, of which it is a larger one.
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
    /// The cost at the target.
    pub(crate) const TARGET: Self = Self::ZERO;

    /// Returns the cost of being worse by a factor.
    pub(crate) fn of_times(times: f64) -> Self {
        Self(times.ln())
    }

    /// Returns the factor by which it is worse than the target.
    pub(crate) fn times(self) -> f64 {
        self.0.exp()
    }
}
