// SPDX-License-Identifier: GPL-2.0-only

//! The log of a pool: the segment that the pool fills.

use crate::ssd::device::Device;
use crate::ssd::holding::Holding;
use crate::ssd::writer::PoolWriter;
use crate::ssd::Ssd;
use crate::tier::page::Page;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// A segment that a pool fills.
pub(crate) struct OpenSegment {
    pub(crate) device: Arc<Device>,
    pub(crate) segment: u32,
}

/// The result of [`Log::fill`].
pub(crate) enum Filled {
    /// This many pages have got places in the segment with this stamp.
    Pages(usize, u64),
    /// The write budget of the device does not permit these pages.
    OverBudget,
    /// Too many pages wait to be written to the device.
    Busy,
    /// The pool fills no segment.
    NoSegment,
}

/// The log of a pool.
#[pin_data(PinnedDrop)]
pub(crate) struct Log {
    #[pin]
    open: SpinLock<Option<OpenSegment>>,
    pub(crate) holding: Arc<Holding>,
}

impl Log {
    pub(crate) fn new(holding: Arc<Holding>) -> impl PinInit<Self> {
        pin_init!(Self {
            open <- new_spinlock!(None, "Log::open"),
            holding,
        })
    }

    /// Moves pages to places of the segment that the pool fills, as many as there is room for.
    /// Counts `counted` pages for the write budget of the device if at least one page is moved.
    pub(crate) fn fill(
        &self,
        ssd: &Ssd,
        (writer, counted): (PoolWriter<'_>, usize),
        pages: &mut [Option<Page>],
        sums: &[u32],
    ) -> Filled {
        let mut open = self.open.lock();
        let Some(OpenSegment { device, segment }) = open.as_ref() else {
            return Filled::NoSegment;
        };
        // The pages are counted before a writer can subtract them.
        if !device.stage(ssd, pages.len()) {
            let stuck = device.is_stuck(ssd).then(|| open.take()).flatten();
            drop(open);
            return match stuck {
                // The device is stuck; the caller tries another one.
                Some(OpenSegment { device, segment }) => {
                    device.close(segment);
                    Filled::NoSegment
                }
                None => Filled::Busy,
            };
        }
        let cost = match counted {
            0 => Some(0),
            counted => writer.spend(ssd, device, counted),
        };
        let Some(cost) = cost else {
            device.unstage(pages.len());
            return Filled::OverBudget;
        };
        let (count, sequence, is_open) = device.fill(*segment, pages, sums);
        device.unstage(pages.len() - count);
        if count == 0 && cost > 0 {
            device.budget.give_back(cost);
        }
        let full = if is_open { None } else { open.take() };
        drop(open);
        if let Some(OpenSegment { device, segment }) = full {
            device.write_soon(segment);
        }
        // Another task may have closed the segment since its pages were filled in.
        match count {
            0 => Filled::NoSegment,
            count => Filled::Pages(count, sequence),
        }
    }

    /// Makes `new` the segment that the pool fills. If another task has opened one since, `new` is
    /// closed.
    pub(crate) fn set(&self, new: OpenSegment) {
        let mut open = self.open.lock();
        let surplus = match &*open {
            None => {
                *open = Some(new);
                None
            }
            Some(_) => Some(new),
        };
        drop(open);
        if let Some(OpenSegment { device, segment }) = surplus {
            device.close(segment);
        }
    }

    /// Closes the segment that the pool fills, if it has this stamp or if `None` is given.
    pub(crate) fn close(&self, sequence: Option<u64>) {
        let mut open = self.open.lock();
        let is_it = open
            .as_ref()
            .is_some_and(|OpenSegment { device, segment }| {
                let own = device.segment(*segment).with(|inner| inner.life.sequence());
                sequence.is_none_or(|sequence| sequence == own)
            });
        let closed = if is_it { open.take() } else { None };
        drop(open);
        if let Some(OpenSegment { device, segment }) = closed {
            device.close(segment);
        }
    }

    /// Returns whether the pool fills a segment of a device.
    pub(crate) fn is_on(&self, number: usize) -> bool {
        let open = self.open.lock();
        open.as_ref()
            .is_some_and(|open| open.device.number == number)
    }
}

#[pinned_drop]
impl PinnedDrop for Log {
    fn drop(self: Pin<&mut Self>) {
        let open = self.open.lock().take();
        if let Some(OpenSegment { device, segment }) = open {
            device.abandon(segment);
        }
    }
}
