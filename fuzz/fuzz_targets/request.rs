// SPDX-License-Identifier: GPL-2.0-only

//! Parses the request page of a hostile guest as the host does. Accepted values must be within
//! their bounds.

#![no_main]

use ddabi::key::MAX_INDEX;
use ddabi::pool::{MAX_POOLS, MAX_WEIGHT};
use ddabi::request::{BODY, MAX_PAGES, RequestHeader};
use ddcore::request::{Header, MAX_BODY, Range, Request, Runs, Settings};
use libfuzzer_sys::fuzz_target;
use zerocopy::FromBytes;

#[repr(align(8))]
struct Body([u8; MAX_BODY]);

fuzz_target!(|page: &[u8]| {
    let Ok((raw, rest)) = RequestHeader::read_from_prefix(page) else {
        return;
    };
    let Ok(header) = Header::parse(&raw) else {
        return;
    };
    let length = header.body_len();
    assert!(length <= MAX_BODY && BODY + length <= ddabi::PAGE_SIZE);
    // If the input is shorter than a page, the remainder of the page is zero.
    let mut body = Body([0; MAX_BODY]);
    let given = rest.len().min(length);
    body.0[..given].copy_from_slice(&rest[..given]);
    match Request::parse(&header, &body.0[..length]) {
        Ok(Request::Put(runs) | Request::Get(runs, _)) => check_runs(&runs),
        Ok(Request::Flush(ranges)) => {
            for range in ranges.iter() {
                if let Range::Pages { first, last, .. } = range {
                    assert!(first <= last && last <= MAX_INDEX);
                }
            }
        }
        Ok(Request::PoolCreate(settings, name)) => {
            check_settings(&settings);
            let printable = |byte: &u8| (b' '..=b'~').contains(byte);
            assert!(name.as_bytes().iter().all(printable));
        }
        Ok(Request::PoolSet(_, settings)) => check_settings(&settings),
        Ok(Request::PoolDestroy(pool)) => assert_ne!(pool, ddabi::pool::DEFAULT_POOL),
        Ok(_) | Err(_) => {}
    }
});

fn check_runs(runs: &Runs<'_>) {
    let mut pages = 0u32;
    for run in runs.iter() {
        pages += u32::from(run.pages);
        assert!(run.pages > 0 && run.pool < MAX_POOLS);
        assert!(run.index + u64::from(run.pages) - 1 <= MAX_INDEX);
    }
    assert!(pages <= MAX_PAGES);
}

fn check_settings(settings: &Settings) {
    assert!(settings.weight <= MAX_WEIGHT);
}
