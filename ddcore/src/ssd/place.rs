// SPDX-License-Identifier: GPL-2.0-only

//! Places for pages on devices.

use crate::index::PLACED;

/// Maximum number of devices at a time.
pub const MAX_DEVICES: usize = 1 << DEVICE_BITS;

/// Maximum number of places of a device, which are 128 TiB.
pub const MAX_PLACES: u64 = 1 << PLACE_BITS;

const DEVICE_BITS: u32 = 4;
const PLACE_BITS: u32 = PLACED.trailing_zeros() - DEVICE_BITS;

// All pages of a block have the same upper bits, and are thus on one device.
const _: () = assert!(PLACE_BITS >= 32);

/// A place for a page on a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The number of the device, below [`MAX_DEVICES`].
    pub device: usize,
    /// The number of the place on it, below [`MAX_PLACES`].
    pub number: u64,
}

impl Place {
    /// Returns the place of a handle of the index, or `None` if the handle is a page frame number.
    #[inline]
    pub const fn of(handle: u64) -> Option<Self> {
        if handle & PLACED == 0 {
            return None;
        }
        let rest = handle & (PLACED - 1);
        Some(Self {
            device: (rest >> PLACE_BITS) as usize,
            number: rest & (MAX_PLACES - 1),
        })
    }

    /// Returns the device of places whose handles have these upper bits, from bit 32 on, or `None`
    /// if such handles are not places.
    #[inline]
    pub const fn device_of_upper(upper: u32) -> Option<usize> {
        match Self::of((upper as u64) << 32) {
            Some(place) => Some(place.device),
            None => None,
        }
    }

    /// Returns the handle of the place.
    #[inline]
    pub const fn handle(&self) -> u64 {
        PLACED | (self.device as u64) << PLACE_BITS | self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::MAX_HANDLE;

    #[test]
    fn handles_of_places_are_none_of_frames() {
        for device in [0, 7, MAX_DEVICES - 1] {
            for number in [0, 511, 512, MAX_PLACES - 1] {
                let place = Place { device, number };
                assert!(place.handle() <= MAX_HANDLE);
                assert_eq!(Place::of(place.handle()), Some(place));
                let upper = (place.handle() >> 32) as u32;
                assert_eq!(Place::device_of_upper(upper), Some(device));
            }
        }
        assert_eq!(Place::of(PLACED - 1), None);
        assert_eq!(Place::device_of_upper(((PLACED - 1) >> 32) as u32), None);
    }
}
