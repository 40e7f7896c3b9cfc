// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the codec with datagrams in the kernel's format.

use ddabi::{
    ABI_VERSION,
    counters::{GuestCounters, HostCounters},
    genl::{Attribute, Event as What, HostCommand},
    pool::PoolStats,
};
use ddnl::{
    ConfigChange, Error, FlushTarget, Flushed, NewPool, Result, Side, VmChange,
    attributes::Attributes,
    call::{self, Call},
    exchange::{Exchange, Progress, events},
    family::Family,
};
use netlink_packet_core::Emitable;
use std::fmt::Debug;

const FAMILY: Family = Family {
    side: Side::Host,
    id: 31,
    version: 1,
    events: Some(9),
};
const SEQUENCE: u32 = 77;

// Message types and flags of netlink itself.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const MULTI: u16 = 2;
const DUMP_INTERRUPTED: u16 = 16;
const CAPPED: u16 = 0x100;
const WITH_WORDS: u16 = 0x200;

/// Returns one netlink message.
fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + payload.len()).unwrap();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns a message of the module's family.
fn reply(flags: u16, attributes: &Attributes) -> Vec<u8> {
    message(FAMILY.id, flags, SEQUENCE, &generic(attributes))
}

fn generic(attributes: &Attributes) -> Vec<u8> {
    let mut payload = vec![HostCommand::Status as u8, 1, 0, 0];
    payload.extend(emitted(attributes));
    payload
}

fn emitted(attributes: &Attributes) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

fn acknowledgement() -> Vec<u8> {
    let mut payload = 0i32.to_ne_bytes().to_vec();
    payload.extend([0; 16]);
    message(ERROR, CAPPED, SEQUENCE, &payload)
}

/// Returns an error message with a copy of the request's header (`capped`) or of the whole request.
fn refusal(errno: i32, words: Option<&str>, capped: bool) -> Vec<u8> {
    let request = reply(0, &Attributes::new().u32(Attribute::VmId, 3));
    let mut payload = (-errno).to_ne_bytes().to_vec();
    payload.extend(if capped { &request[..16] } else { &request });
    let mut flags = if capped { CAPPED } else { 0 };
    if let Some(words) = words {
        flags |= WITH_WORDS;
        payload.extend(emitted(&Attributes::new().raw_string(1, words)));
    }
    message(ERROR, flags, SEQUENCE, &payload)
}

/// Feeds datagrams to an exchange and reads the outcome.
fn answer<T: Debug>(call: &Call<T>, datagrams: &[Vec<u8>]) -> Result<T> {
    let (mut exchange, _) = Exchange::begin(&FAMILY, SEQUENCE, call);
    let (last, before) = datagrams.split_last().expect("datagrams");
    for datagram in before {
        assert_eq!(exchange.receive(datagram)?, Progress::More);
    }
    assert_eq!(exchange.receive(last)?, Progress::Done);
    call.read(exchange.finish())
}

fn host_status() -> Attributes {
    Attributes::new()
        .u32(Attribute::AbiVersion, ABI_VERSION.into())
        .string(Attribute::ModuleVersion, "0.1.0")
        .u64(Attribute::Capacity, 1024)
        .u64(Attribute::Limit, 768)
        .u64(Attribute::Used, 10)
        .u64(Attribute::Floor, 5)
        .u32(Attribute::Mode, 1)
        .u32(Attribute::Batch, 512)
        .u32(Attribute::Vms, 2)
        .u32(Attribute::Deadline, 20_000)
        .u32(Attribute::Waiting, 0)
        .u32(Attribute::Retain, 1)
        .u64(Attribute::KeepFree, 512)
        .u64(Attribute::PromoteFree, 16_384)
        .u64(Attribute::IndexLimit, 4096)
        .binary(
            Attribute::Counters,
            &HostCounters {
                calls: 9,
                ..HostCounters::default()
            },
        )
}

fn weight(weight: u32) -> VmChange {
    VmChange {
        weight: Some(weight),
        ssd_weight: None,
    }
}

fn vm(id: u32) -> Attributes {
    Attributes::new()
        .u32(Attribute::VmId, id)
        .u32(Attribute::VmPid, 4000 + id)
        .u32(Attribute::Weight, 100)
        .u32(Attribute::SsdWeight, 50)
        .u64(Attribute::Used, 1)
        .u64(Attribute::Entitlement, 2)
        .u32(Attribute::Pools, 1)
        .binary(Attribute::Stats, &PoolStats::default())
}

#[test]
fn requests_have_the_layout_that_the_kernel_expects() {
    let (_, datagram) = Exchange::begin(&FAMILY, 5, &call::host::set_vm(3, weight(60)).unwrap());
    let expected: Vec<u8> = [
        &36u32.to_ne_bytes()[..],
        &31u16.to_ne_bytes(),
        &0x5u16.to_ne_bytes(),
        &5u32.to_ne_bytes(),
        &[0; 4],
        &[HostCommand::VmSet as u8, 1, 0, 0],
        &[8, 0, Attribute::VmId as u8, 0, 3, 0, 0, 0],
        &[8, 0, Attribute::Weight as u8, 0, 60, 0, 0, 0],
    ]
    .concat();
    assert_eq!(datagram, expected);
}

#[test]
fn a_question_is_answered_and_acknowledged() {
    let together = [reply(0, &host_status()), acknowledgement()].concat();
    let apart = [reply(0, &host_status()), acknowledgement()];
    for datagrams in [&[together][..], &apart] {
        let status = answer(&call::host::status(), datagrams).unwrap();
        assert_eq!((status.capacity, status.limit), (1024, 768));
        assert_eq!(status.counters.calls, 9);
    }
}

/// Replies to an earlier request may arrive late. They are ignored, including the message that ends
/// them.
#[test]
fn late_answers_are_ignored() {
    let early = |mut bytes: Vec<u8>| {
        bytes[8..12].copy_from_slice(&(SEQUENCE - 1).to_ne_bytes());
        bytes
    };
    let done = || message(DONE, MULTI, SEQUENCE, &0i32.to_ne_bytes());
    for late in [
        reply(MULTI, &vm(9)),
        reply(MULTI | DUMP_INTERRUPTED, &vm(9)),
        acknowledgement(),
        refusal(22, Some("why"), true),
        done(),
    ] {
        let together = [early(late.clone()), reply(MULTI, &vm(1))].concat();
        let datagrams = [early(late), together, done()];
        let vms = answer(&call::host::vms(), &datagrams).unwrap();
        assert_eq!(vms.iter().map(|vm| vm.id).collect::<Vec<_>>(), [1]);
    }
}

/// A guest without a host reports the VM number 0, or no number.
#[test]
fn a_guest_without_a_host_has_no_number() {
    let status = |vm: Option<u32>| {
        let status = Attributes::new()
            .u32(Attribute::AbiVersion, ABI_VERSION.into())
            .u32(Attribute::State, 0)
            .u32(Attribute::Pools, 1)
            .binary(Attribute::Counters, &GuestCounters::default());
        let status = match vm {
            Some(vm) => status.u32(Attribute::VmId, vm),
            None => status,
        };
        let datagrams = [reply(0, &status), acknowledgement()];
        answer(&call::guest::status(), &datagrams).unwrap().vm
    };
    assert_eq!([None, Some(0), Some(3)].map(status), [None, None, Some(3)]);
}

#[test]
fn commands_return_the_pages_left_to_evict() {
    let left = Attributes::new().u64(Attribute::Left, 7);
    let weight = call::host::set_vm(3, weight(0)).unwrap();
    let configure = call::host::configure(&ConfigChange::default());
    for call in [weight, configure] {
        let datagrams = [reply(0, &left), acknowledgement()];
        assert_eq!(answer(&call, &datagrams).unwrap(), 7);
        let datagrams = [reply(0, &Attributes::new()), acknowledgement()];
        answer(&call, &datagrams).unwrap_err();
    }
    let datagrams = [
        reply(0, &left.u64(Attribute::Evicted, 5)),
        acknowledgement(),
    ];
    let flushed = answer(&call::host::flush(FlushTarget::default()), &datagrams).unwrap();
    let expected = Flushed {
        evicted: 5,
        left: 7,
    };
    assert_eq!(flushed, expected);
}

#[test]
fn a_dump_comes_in_many_datagrams() {
    let datagrams = [
        [reply(MULTI, &vm(1)), reply(MULTI, &vm(2))].concat(),
        reply(MULTI, &vm(3)),
        message(DONE, MULTI, SEQUENCE, &0i32.to_ne_bytes()),
    ];
    let vms = answer(&call::host::vms(), &datagrams).unwrap();
    let ids: Vec<u32> = vms.iter().map(|vm| vm.id).collect();
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn an_empty_dump_is_an_empty_list() {
    let done = message(DONE, MULTI, SEQUENCE, &0i32.to_ne_bytes());
    assert_eq!(answer(&call::host::vms(), &[done]).unwrap(), []);
}

#[test]
fn a_dump_can_fail_in_the_middle() {
    let mut end = (-12i32).to_ne_bytes().to_vec();
    end.extend(emitted(
        &Attributes::new().raw_string(1, "no memory for it"),
    ));
    let datagrams = [reply(MULTI, &vm(1)), message(DONE, MULTI, SEQUENCE, &end)];
    let error = answer(&call::host::vms(), &datagrams).unwrap_err();
    assert!(matches!(error, Error::Refused { errno: 12, .. }));
    assert!(error.to_string().contains("no memory for it"), "{error}");
}

#[test]
fn an_interrupted_dump_has_to_be_read_again() {
    // The dump is read to its end first, because the kernel accepts no other dump on this socket
    // before.
    let done = message(DONE, MULTI, SEQUENCE, &0i32.to_ne_bytes());
    let datagrams = [
        reply(MULTI | DUMP_INTERRUPTED, &vm(1)),
        reply(MULTI, &vm(2)),
        done,
    ];
    let error = answer(&call::host::vms(), &datagrams).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
}

#[test]
fn refusals_have_kinds_and_the_kernels_words() {
    for capped in [true, false] {
        for (errno, expected) in [
            (
                1,
                "no permission to control doubledecker_host: why (Operation not permitted",
            ),
            (2, "why (No such file or directory"),
            (22, "the kernel refused: why (Invalid argument"),
        ] {
            let call = call::host::set_vm(3, weight(1)).unwrap();
            let error = answer(&call, &[refusal(errno, Some("why"), capped)]).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
            let error = answer(&call, &[refusal(errno, None, capped)]).unwrap_err();
            assert!(!error.to_string().contains("why"), "{error}");
        }
    }
}

#[test]
fn changes_are_acknowledged_with_or_without_an_answer() {
    let call = call::guest::flush(None);
    answer(&call, &[acknowledgement()]).unwrap();
    let datagrams = [reply(0, &Attributes::new()), acknowledgement()];
    answer(&call, &datagrams).unwrap();
}

#[test]
fn a_yes_without_an_answer_is_malformed() {
    let error = answer(&call::host::status(), &[acknowledgement()]).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
}

#[test]
fn another_abi_version_is_reported_before_other_differences() {
    let status = Attributes::new()
        .u32(Attribute::AbiVersion, u32::from(ABI_VERSION) + 1)
        .string(Attribute::ModuleVersion, "0.9.0")
        .raw(Attribute::Counters as u16, vec![0; 8]);
    for call in [
        answer(
            &call::host::status(),
            &[reply(0, &status), acknowledgement()],
        )
        .map(drop),
        answer(
            &call::guest::status(),
            &[reply(0, &status), acknowledgement()],
        )
        .map(drop),
    ] {
        let error = call.unwrap_err();
        assert!(
            matches!(error, Error::Version { theirs, .. } if theirs > ABI_VERSION.into()),
            "{error}"
        );
        assert!(error.advice().unwrap().contains("this tool is older"));
    }
}

#[test]
fn counters_of_another_size_are_another_version() {
    let status = Attributes::new()
        .u32(Attribute::AbiVersion, ABI_VERSION.into())
        .u32(Attribute::State, 1)
        .u32(Attribute::Pools, 1)
        .binary(Attribute::Counters, &HostCounters::default());
    let datagrams = [reply(0, &status), acknowledgement()];
    let error = answer(&call::guest::status(), &datagrams).unwrap_err();
    let ours = size_of::<GuestCounters>();
    assert!(matches!(error, Error::Layout { ours: size, .. } if size == ours));
}

#[test]
fn numbers_without_a_name_are_another_version() {
    let status = host_status();
    let mut bytes = emitted(&status);
    // The value of the mode follows the attribute's header.
    let header = [8, 0, Attribute::Mode as u8, 0];
    let at = bytes.windows(4).position(|four| four == header).unwrap();
    bytes[at + 4] = 250;
    let status = Attributes::parse(&bytes).unwrap();
    let datagrams = [reply(0, &status), acknowledgement()];
    let error = answer(&call::host::status(), &datagrams).unwrap_err();
    assert!(
        matches!(error, Error::Unknown { value: 250, .. }),
        "{error}"
    );
}

#[test]
fn bad_requests_are_never_sent() {
    let pool = |cgroup: &str, name: &str, weight| NewPool {
        cgroup: cgroup.into(),
        name: name.into(),
        weight,
        ssd_weight: None,
        store: ddabi::pool::Store::Memory,
        policy: None,
        ssd_admit: None,
    };
    for (pool, expected) in [
        (pool("/a", "a", 10_001), "weight 10001"),
        (pool("/a", "", 1), "needs a name"),
        (pool("/a", &"n".repeat(65), 1), "more than 64 bytes"),
        (pool("/a", "a\nb", 1), "control characters"),
        (pool("a", "a", 1), "does not begin with a slash"),
        (pool("/a\0", "a", 1), "zero byte"),
    ] {
        let error = call::guest::add_pool(&pool).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }));
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(call::host::set_vm(1, weight(10_001)).is_err());
}

/// Values at the limits are allowed.
#[test]
fn the_largest_that_may_be_asked_for_is_sent() {
    let pool = NewPool {
        cgroup: format!("/{}", "c".repeat(4094)),
        name: "n".repeat(64),
        weight: 10_000,
        ssd_weight: None,
        store: ddabi::pool::Store::Memory,
        policy: None,
        ssd_admit: None,
    };
    assert!(call::guest::add_pool(&pool).is_ok());
    let longer = NewPool {
        cgroup: format!("/{}", "c".repeat(4095)),
        ..pool
    };
    assert!(call::guest::add_pool(&longer).is_err());
}

#[test]
fn an_overrun_is_reported() {
    const OVERRUN: u16 = 4;
    let overrun = message(OVERRUN, 0, SEQUENCE, &[]);
    let error = answer(&call::host::vms(), &[overrun]).unwrap_err();
    assert!(matches!(error, Error::Overrun), "{error}");
}

/// The copy of the whole request may contain bytes that look like an error message of the kernel.
#[test]
fn words_of_the_request_are_not_the_kernels() {
    let request = reply(0, &Attributes::new().raw_string(1, "mine"));
    let mut payload = (-22i32).to_ne_bytes().to_vec();
    payload.extend(&request);
    payload.extend(emitted(&Attributes::new().raw_string(1, "theirs")));
    let told = |flags| {
        let refusal = message(ERROR, flags, SEQUENCE, &payload);
        let error = answer(&call::host::status(), &[refusal]).unwrap_err();
        error.to_string()
    };
    let text = told(WITH_WORDS);
    assert!(text.contains("theirs") && !text.contains("mine"), "{text}");
    // Without the flag, the data after the copy has another meaning.
    let text = told(0);
    assert!(!text.contains("theirs") && !text.contains("mine"), "{text}");
}

/// The names are those that the command line uses.
#[test]
fn numbers_have_words() {
    use ddabi::{genl::Mode, pool::Store};
    use ddnl::reply::mode_word;
    assert_eq!(
        [Mode::Weighted, Mode::GlobalFifo].map(mode_word),
        ["weighted", "fifo"]
    );
    assert_eq!(
        [Store::None, Store::Memory].map(Store::name),
        ["none", "mem"]
    );
}

#[test]
fn events_are_read_and_foreign_ones_skipped() {
    let event = Attributes::new()
        .u32(Attribute::Event, What::VmCame as u32)
        .u32(Attribute::VmId, 4)
        .u32(Attribute::VmPid, 1234);
    let later = Attributes::new().u32(Attribute::Event, 99);
    let datagram = [
        message(FAMILY.id, 0, 0, &generic(&event)),
        message(FAMILY.id + 1, 0, 0, &generic(&event)),
        message(FAMILY.id, 0, 0, &generic(&later)),
    ]
    .concat();
    let events = events(&FAMILY, &datagram).unwrap();
    let labels: Vec<String> = events.iter().map(ddnl::Event::label).collect();
    assert_eq!(labels, ["vm-came", "unknown-99"]);
    assert_eq!((events[0].vm, events[0].pid), (Some(4), Some(1234)));
}

/// A datagram that ends between two messages is a whole one, which others follow. A message that is
/// cut is an error, wherever it is cut.
#[test]
fn truncated_datagrams_are_errors() {
    let first = reply(0, &host_status());
    let good = [first.clone(), acknowledgement()].concat();
    for length in 0..good.len() {
        let (mut exchange, _) = Exchange::begin(&FAMILY, SEQUENCE, &call::host::status());
        let received = exchange.receive(&good[..length]);
        if length == 0 || length == first.len() {
            assert_eq!(received.unwrap(), Progress::More, "{length}");
            let replies = usize::from(length > 0);
            assert_eq!(exchange.finish().len(), replies, "{length}");
        } else {
            assert!(received.is_err(), "{length} of {} bytes", good.len());
        }
    }
    let event = Attributes::new().u32(Attribute::Event, What::VmCame as u32);
    let event = message(FAMILY.id, 0, 0, &generic(&event));
    for length in 1..event.len() {
        assert!(events(&FAMILY, &event[..length]).is_err(), "{length}");
    }
}

/// A byte may be changed to another valid value, so that only the absence of panics is tested.
#[test]
fn no_changed_byte_causes_a_panic() {
    let good = [reply(0, &host_status()), acknowledgement()].concat();
    for at in 0..good.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            let call = call::host::status();
            let (mut exchange, _) = Exchange::begin(&FAMILY, SEQUENCE, &call);
            if exchange.receive(&bad).is_ok() {
                let _ = call.read(exchange.finish());
            }
            let _ = events(&FAMILY, &bad);
        }
    }
}
