// SPDX-License-Identifier: GPL-2.0-only

//! The mutations, the scenarios that notice them, and the messages with which they do.

use ddlab::Scenario;

use crate::{
    apart, bad_input, bounds, calls, coherence, deaths, latency, lifecycle, policies, reboot,
    scarce, shares, shrinker, small_files,
    ssd::{self, hybrid},
    stream, torture, tracing,
};

/// A mutation, which breaks an invariant.
pub(crate) struct Mutation {
    /// Name of its patch in `tests/mutations`.
    pub(crate) name: &'static str,
    /// The scenarios that may notice it, the fastest first.
    pub(crate) scenarios: &'static [Scenario],
    /// Texts of which one is in the error of a scenario that noticed this mutation, and in no
    /// other.
    pub(super) reasons: &'static [&'static str],
}

const fn mutation(
    name: &'static str,
    scenarios: &'static [Scenario],
    reasons: &'static [&'static str],
) -> Mutation {
    Mutation {
        name,
        scenarios,
        reasons,
    }
}

/// Scenarios that compare the content of all reads.
const CONTENT: &[Scenario] = &[coherence::COHERENCE, torture::TORTURE];

/// Their messages about wrong content.
const WRONG: &[&str] = &["coherence: wrong", "torture: wrong"];

pub(crate) const ALL: &[Mutation] = &[
    // In the guest.
    mutation("direct-write-unseen", CONTENT, WRONG),
    mutation("truncate-unseen", CONTENT, WRONG),
    mutation("dirty-unseen", CONTENT, WRONG),
    mutation("unmount-unseen", CONTENT, WRONG),
    mutation("inode-reused", CONTENT, WRONG),
    mutation("puts-what-is-not-valid", CONTENT, WRONG),
    mutation("puts-beside-direct-io", CONTENT, WRONG),
    mutation("direct-write-begins-unseen", CONTENT, WRONG),
    mutation("direct-io-looked-at-once", CONTENT, WRONG),
    mutation("swap-unseen", CONTENT, WRONG),
    mutation("attach-unsettled", CONTENT, WRONG),
    mutation("put-overtakes", CONTENT, WRONG),
    mutation("tail-not-zeroed", CONTENT, WRONG),
    mutation("miss-taken-for-hit", CONTENT, WRONG),
    mutation("empty-unseen", CONTENT, WRONG),
    mutation("host-trusted", CONTENT, WRONG),
    mutation("dax-unseen", &[coherence::COHERENCE], WRONG),
    mutation("swapfile-unseen", &[coherence::COHERENCE], WRONG),
    mutation(
        "cold-read-asks",
        &[stream::STREAM],
        &["gets while a file is read for the first time"],
    ),
    mutation(
        "put-unconfirmed",
        &[apart::APART],
        &["weight 0", "that were refused and are asked for"],
    ),
    mutation("put-sleeps", &[stream::STREAM], &["kernel complaints"]),
    mutation(
        "inode-forgotten",
        &[small_files::SMALL_FILES],
        &["small files: pages"],
    ),
    mutation(
        "hooks-without-host",
        &[apart::APART],
        &["hooked without a host", "reads were seen without a host"],
    ),
    mutation(
        "hibernates-full",
        &[lifecycle::LIFECYCLE],
        &["it slept with a session"],
    ),
    mutation("calls-unbounded", &[latency::LATENCY], &["latency:"]),
    mutation(
        "calls-small",
        &[stream::STREAM],
        &["pages for each exit of a sequential"],
    ),
    mutation(
        "admission-ignored",
        &[policies::POLICIES],
        &["reads of a loop from the host", "refused nothing"],
    ),
    mutation(
        "throttle-ignored",
        &[policies::POLICIES],
        &["for puts had no hits"],
    ),
    mutation("flushes-at-once", &[latency::LATENCY], &["latency:"]),
    mutation("invalidates-at-once", &[latency::LATENCY], &["latency:"]),
    mutation(
        "attaches-at-every-look",
        &[bounds::BOUNDS],
        &["the failure was reported", "calls in seconds after"],
    ),
    mutation(
        "reaps-with-host-only",
        &[bounds::BOUNDS],
        &["containers without a cgroup are gone"],
    ),
    mutation(
        "departures-kept",
        &[bounds::BOUNDS],
        &["pages that find no place"],
    ),
    mutation(
        "unmounted-kept",
        &[bounds::BOUNDS],
        &["filesystems that are gone are forgotten"],
    ),
    mutation("worker-unpaced", &[bounds::BOUNDS], &["signs of life"]),
    mutation(
        "dirty-seen-twice",
        &[bounds::BOUNDS],
        &["looks into the map"],
    ),
    mutation(
        "sequential-undone",
        &[bounds::BOUNDS],
        &["requests of a sequential cold read"],
    ),
    mutation("tables-forgotten", &[bounds::BOUNDS], &["names looked up"]),
    mutation(
        "detach-ignored",
        &[bounds::BOUNDS],
        &["the module went away", "unloading ends or does not"],
    ),
    mutation(
        "hooks-one-by-one",
        &[tracing::TRACING],
        &["pages came from the host", "wrong bytes"],
    ),
    // In the host.
    mutation(
        "rollback-unseen",
        &[bad_input::BAD_INPUT, lifecycle::LIFECYCLE],
        &["let_in", "the guest noticed", "wrong reads"],
    ),
    mutation("any-session", &[bad_input::BAD_INPUT], &["let_in"]),
    mutation(
        "writes-what-is-tracked",
        &[reboot::REBOOT],
        &["whose memory is being migrated"],
    ),
    mutation("get-leaves-pages", &[stream::STREAM], &["pages, but"]),
    mutation(
        "wrong-owner",
        &[stream::STREAM],
        &["are the reader's", "pages, but"],
    ),
    mutation("vms-mixed", &[apart::APART], &["wrong content"]),
    mutation(
        "weights-fixed",
        &[shares::SHARES],
        &["are entitled to something else"],
    ),
    mutation(
        "weights-ignored",
        &[shares::SHARES],
        &["are entitled to something else"],
    ),
    mutation(
        "spare-unlent",
        &[shares::SHARES],
        &[
            "the tier is full",
            "of all that an idle one leaves",
            "half of the tier is replaced",
        ],
    ),
    mutation(
        "capacity-fixed",
        &[shares::SHARES],
        &["are left of a capacity", "of half the capacity"],
    ),
    mutation(
        "capacity-unenforced",
        &[hybrid::HYBRID],
        &["are not evicted"],
    ),
    mutation(
        "places-reused",
        &[ssd::SSD],
        &["bad_checksums", "wrong content"],
    ),
    mutation(
        "defers-never",
        &[ssd::deferral::DEFERRAL],
        &["gets that were deferred"],
    ),
    mutation("segments-kept", &[ssd::SSD], &["nothing was evicted"]),
    mutation(
        "moves-unchecked",
        &[torture::TORTURE_HYBRID],
        &["wrong reads"],
    ),
    mutation(
        "batch-fixed",
        &[shares::SHARES],
        &[
            "pages evicted at a time",
            "off their entitlement",
            "have their shares",
        ],
    ),
    mutation(
        "mode-fixed",
        &[shares::SHARES],
        &["one FIFO for all forgets the weights"],
    ),
    mutation(
        "evicts-without-need",
        &[stream::STREAM],
        &["pass from the host"],
    ),
    mutation("evictions-untold", &[policies::POLICIES], &["ask in vain"]),
    mutation(
        "user-mode-let-in",
        &[bad_input::BAD_INPUT],
        &["returned", "refused_user"],
    ),
    mutation(
        "shrinker-deaf",
        &[shrinker::SHRINKER],
        &["nothing more can be taken", "shrinker:", "counters.shrunk"],
    ),
    mutation(
        "shrinks-in-order",
        &[scarce::SCARCE],
        &["scarce:", "equal VMs kept unequal"],
    ),
    mutation(
        "capacity-alone",
        &[scarce::SCARCE],
        &[
            "scarce:",
            "equal VMs kept unequal",
            "is not short of memory any more",
        ],
    ),
    mutation(
        "puts-not-recycled",
        &[scarce::SCARCE],
        &["scarce:", "equal VMs kept unequal"],
    ),
    mutation(
        "dead-vm-kept",
        &[deaths::DEATHS],
        &["went", "is forgotten", "left:", "deaths:"],
    ),
    mutation(
        "waits-for-memory",
        &[calls::CALLS],
        &["frames that never come", "frames in swap", "wait for ever"],
    ),
    mutation(
        "straggler-ends-session",
        &[calls::CALLS],
        &["calls of sessions that are over"],
    ),
    mutation(
        "vms-without-limit",
        &[calls::CALLS],
        &["VMs may register", "many VMs"],
    ),
    mutation("nobody-charged", &[calls::CALLS], &["is charged"]),
];
