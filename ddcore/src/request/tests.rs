// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use proptest::prelude::*;
use zerocopy::IntoBytes;

fn header(operation: Operation, count: usize) -> RequestHeader {
    RequestHeader {
        magic: REQUEST_MAGIC,
        version: ABI_VERSION,
        operation: operation as u16,
        session: 7,
        sequence: 9,
        count: count as u32,
        ..RequestHeader::default()
    }
}

/// Parses a request as the host does: first the header, then a body of the length that results from
/// it.
fn parse<T: IntoBytes + Immutable>(operation: Operation, body: &[T]) -> Result<String, Status> {
    let header = Header::parse(&header(operation, body.len()))?;
    let bytes = body.as_bytes();
    assert_eq!(bytes.len(), header.body_len());
    Request::parse(&header, bytes).map(|request| format!("{request:?}"))
}

fn run() -> Run {
    Run {
        pages: 1,
        ..Run::default()
    }
}

fn pool() -> PoolBody {
    PoolBody {
        pool: 3,
        weight: 60,
        store: Store::Memory as u32,
        policy: Policy::Tinylfu as u32,
        ssd_weight: SAME_WEIGHT,
        ssd_admit: 0,
        name_len: 3,
        name: [b'x'; NAME_LEN],
    }
}

#[test]
fn headers_are_checked() {
    let good = header(Operation::Ping, 0);
    assert!(Header::parse(&good).is_ok());
    let bad = [
        (RequestHeader { magic: 1, ..good }, Status::Invalid),
        (RequestHeader { version: 1, ..good }, Status::Unsupported),
        (
            RequestHeader {
                operation: 99,
                ..good
            },
            Status::Unsupported,
        ),
        (RequestHeader { flags: 1, ..good }, Status::Invalid),
        (RequestHeader { ticket: 1, ..good }, Status::Invalid),
        (
            RequestHeader {
                flags: 4,
                ..header(Operation::Get, 1)
            },
            Status::Invalid,
        ),
        (
            RequestHeader {
                flags: MAY_RETAIN,
                ..header(Operation::Put, 1)
            },
            Status::Invalid,
        ),
        (
            RequestHeader {
                reserved: [0, 0, 1],
                ..good
            },
            Status::Invalid,
        ),
        (RequestHeader { count: 2, ..good }, Status::Invalid),
        (header(Operation::Put, MAX_RUNS + 1), Status::Invalid),
    ];
    for (header, status) in bad {
        assert_eq!(Header::parse(&header).unwrap_err(), status, "{header:?}");
    }
    // The version is checked first, because other versions may have other fields.
    let newer = RequestHeader {
        version: ABI_VERSION + 1,
        operation: 99,
        flags: 1,
        ..good
    };
    assert_eq!(Header::parse(&newer).unwrap_err(), Status::Unsupported);
}

#[test]
fn gets_have_options() {
    let raw = RequestHeader {
        flags: MAY_DEFER | MAY_RETAIN,
        ticket: 7,
        ..header(Operation::Get, 1)
    };
    let run = Run {
        pages: 1,
        ..Run::default()
    };
    let options = |raw: &RequestHeader| {
        let header = Header::parse(raw).unwrap();
        match Request::parse(&header, run.as_bytes()) {
            Ok(Request::Get(_, options)) => options,
            other => panic!("{other:?}"),
        }
    };
    let expected = GetOptions {
        may_defer: true,
        may_retain: true,
        ticket: 7,
    };
    assert_eq!(options(&raw), expected);
    let retained = GetOptions {
        may_retain: true,
        ..GetOptions::default()
    };
    let raw = RequestHeader {
        flags: MAY_RETAIN,
        ..header(Operation::Get, 1)
    };
    assert_eq!(options(&raw), retained);
    assert_eq!(options(&header(Operation::Get, 1)), GetOptions::default());
}

/// A processor that mispredicts the comparisons of [`Runs::parse`] continues with runs that were
/// not refused. Each way to a number of a run confines it by arithmetic.
#[test]
fn numbers_are_confined_whatever_was_compared() {
    let wild = Run {
        pool: MAX_POOLS,
        pages: MAX_PAGES as u16 + 1,
        class: CLASSES as u8,
        ..Run::default()
    };
    let runs = [wild];
    let unchecked = Runs {
        runs: &runs,
        pages: 1,
    };
    let placed = unchecked.placed().map(|(run, _)| run);
    let ways = [unchecked.first(), unchecked.in_turn(7)].into_iter();
    let ways = ways.flatten().chain(unchecked.iter()).chain(placed);
    let confined: Vec<_> = ways.map(|run| (run.pool, run.pages, run.class)).collect();
    assert_eq!(confined, [(0, 0, 0); 4]);
}

#[test]
fn runs_are_bounded_one_by_one() {
    let good = Run {
        index: MAX_INDEX - 3,
        gfn: MAX_GFN - 3,
        pool: MAX_POOLS - 1,
        pages: 4,
        ..Run::default()
    };
    assert!(parse(Operation::Put, &[good]).is_ok());
    let bad = [
        Run { pages: 0, ..good },
        Run {
            pages: 5,
            index: 0,
            ..good
        },
        Run {
            pages: 5,
            gfn: 0,
            ..good
        },
        Run {
            index: u64::MAX,
            ..good
        },
        Run {
            gfn: u64::MAX,
            ..good
        },
        Run {
            pool: MAX_POOLS,
            ..good
        },
        Run {
            pages: MAX_PAGES as u16 + 1,
            index: 0,
            gfn: 0,
            ..good
        },
        Run {
            pages: u16::MAX,
            index: 0,
            gfn: 0,
            ..good
        },
        Run {
            class: CLASSES as u8,
            ..good
        },
        Run {
            reserved: 1,
            ..good
        },
    ];
    for run in bad {
        assert_eq!(
            parse(Operation::Put, &[run]),
            Err(Status::Invalid),
            "{run:?}"
        );
        assert_eq!(parse(Operation::Get, &[good, run]), Err(Status::Invalid));
    }
    let worth = Run { class: 3, ..good };
    assert!(parse(Operation::Put, &[worth]).is_ok());
    assert_eq!(parse(Operation::Get, &[worth]), Err(Status::Invalid));
}

#[test]
fn runs_are_bounded_together() {
    let half = Run {
        pages: MAX_PAGES as u16 / 2,
        ..Run::default()
    };
    assert!(parse(Operation::Get, &[half, half]).is_ok());
    assert_eq!(
        parse(Operation::Get, &[half, half, run()]),
        Err(Status::Invalid)
    );
    assert!(parse::<Run>(Operation::Get, &[]).is_ok());
    assert!(parse(Operation::Put, &[run(); MAX_RUNS]).is_ok());
}

#[test]
fn flush_ranges_are_checked() {
    let pages = |first, last| FlushRange {
        first,
        last,
        ..FlushRange::default()
    };
    let all = FlushRange {
        scope: FlushScope::All as u32,
        ..FlushRange::default()
    };
    assert!(parse(Operation::Flush, &[pages(0, u64::MAX), all]).is_ok());
    let bad = [
        pages(1, 0),
        pages(MAX_INDEX + 1, u64::MAX),
        FlushRange { scope: 4, ..all },
        FlushRange { reserved: 1, ..all },
    ];
    for range in bad {
        assert_eq!(
            parse(Operation::Flush, &[all, range]),
            Err(Status::Invalid),
            "{range:?}"
        );
    }
    let open = Range::parse(&pages(5, u64::MAX)).unwrap();
    let Range::Pages { first, last, .. } = open else {
        panic!("{open:?}");
    };
    assert_eq!((first, last), (5, MAX_INDEX));
}

#[test]
fn pools_are_checked() {
    for operation in [Operation::PoolCreate, Operation::PoolSet] {
        assert!(parse(operation, &[pool()]).is_ok());
        let heavy = PoolBody {
            weight: MAX_WEIGHT + 1,
            ..pool()
        };
        assert_eq!(parse(operation, &[heavy]), Err(Status::Invalid));
        let aimless = PoolBody {
            policy: Policy::ALL.len() as u32,
            ..pool()
        };
        assert_eq!(parse(operation, &[aimless]), Err(Status::Invalid));
        let heavy = PoolBody {
            ssd_weight: MAX_WEIGHT + 1,
            ..pool()
        };
        assert_eq!(parse(operation, &[heavy]), Err(Status::Invalid));
        let nowhere = PoolBody { store: 9, ..pool() };
        assert_eq!(parse(operation, &[nowhere]), Err(Status::Invalid));
        let strange = PoolBody {
            ssd_admit: 2,
            ..pool()
        };
        assert_eq!(parse(operation, &[strange]), Err(Status::Invalid));
    }
    let long = PoolBody {
        name_len: NAME_LEN as u32 + 1,
        ..pool()
    };
    assert_eq!(parse(Operation::PoolCreate, &[long]), Err(Status::Invalid));
    let default = PoolBody {
        pool: DEFAULT_POOL,
        ..pool()
    };
    assert_eq!(
        parse(Operation::PoolDestroy, &[default]),
        Err(Status::Invalid)
    );
    assert!(parse(Operation::PoolDestroy, &[pool()]).is_ok());
    assert!(parse(Operation::PoolStats, &[default]).is_ok());
}

#[test]
fn a_store_decides_which_weights_count() {
    let shares = |store, ssd_weight| {
        let settings = Settings {
            weight: 60,
            ssd_weight,
            store,
            policy: Policy::DEFAULT,
            ssd_admit: SsdAdmit::All,
        };
        (settings.share(), settings.ssd_share(), settings.is_on())
    };
    assert_eq!(shares(Store::None, 5), (0, 0, false));
    assert_eq!(shares(Store::Memory, 5), (60, 0, true));
    assert_eq!(shares(Store::Ssd, 5), (0, 5, true));
    assert_eq!(shares(Store::Ssd, SAME_WEIGHT), (0, 60, true));
    assert_eq!(shares(Store::Ssd, 0), (0, 0, false));
    assert_eq!(shares(Store::Hybrid, 5), (60, 5, true));
    assert_eq!(shares(Store::Hybrid, SAME_WEIGHT), (60, 60, true));
    assert_eq!(shares(Store::Hybrid, 0), (60, 0, true));
}

#[test]
fn names_are_made_printable() {
    let name = Name::new("a b\n\x1b[2J\u{e9}".as_bytes());
    assert_eq!(name.as_bytes(), b"a b??[2J??");
    assert_eq!(Name::new(&[b'y'; 100]).as_bytes(), [b'y'; NAME_LEN]);
    assert_eq!(Name::DEFAULT.as_bytes(), b"default");
}

#[test]
fn hello_and_migrate_are_checked() {
    let hello = Hello {
        features: u64::MAX,
        page_size: PAGE_SIZE as u32,
        reserved: 0,
    };
    assert!(parse(Operation::Hello, &[hello]).is_ok());
    let large = Hello {
        page_size: 65536,
        ..hello
    };
    assert_eq!(parse(Operation::Hello, &[large]), Err(Status::Unsupported));
    let odd = Hello {
        reserved: 1,
        ..hello
    };
    assert_eq!(parse(Operation::Hello, &[odd]), Err(Status::Invalid));
    let migrate = MigrateBody::default();
    assert!(parse(Operation::Migrate, &[migrate]).is_ok());
    let odd = MigrateBody {
        reserved: 1,
        ..migrate
    };
    assert_eq!(parse(Operation::Migrate, &[odd]), Err(Status::Invalid));
}

proptest! {
    /// No request causes a panic, and the values of a valid request are within their bounds.
    #[test]
    fn garbage_is_refused_or_within_bounds(
        operation in 0u16..14,
        count in 0u32..=MAX_RUNS as u32 + 1,
        flags in 0u32..4,
        words in prop::collection::vec(
            prop_oneof![0u64..4, any::<u64>(), Just(u64::from(MAX_PAGES)), Just(MAX_INDEX)],
            MAX_BODY / 8,
        ),
    ) {
        let raw = RequestHeader { operation, count, flags, ..header(Operation::Ping, 0) };
        if let Ok(header) = Header::parse(&raw) {
            prop_assert!(header.body_len() <= MAX_BODY);
            match Request::parse(&header, &words.as_bytes()[..header.body_len()]) {
                Ok(Request::Put(runs) | Request::Get(runs, _)) => {
                    let pages: u64 = runs.iter().map(|run| u64::from(run.pages)).sum();
                    prop_assert_eq!(pages, u64::from(runs.pages()));
                    prop_assert!(pages <= u64::from(MAX_PAGES));
                    for run in runs.iter() {
                        prop_assert!(run.index + u64::from(run.pages) <= MAX_INDEX + 1);
                        prop_assert!(run.gfn + u64::from(run.pages) <= MAX_GFN + 1);
                        prop_assert!(run.pool < MAX_POOLS);
                        prop_assert!(usize::from(run.class) < CLASSES);
                    }
                }
                Ok(Request::Flush(ranges)) => {
                    prop_assert_eq!(ranges.iter().count(), count as usize);
                    for range in ranges.iter() {
                        if let Range::Pages { first, last, .. } = range {
                            prop_assert!(first <= last && last <= MAX_INDEX);
                        }
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
}
