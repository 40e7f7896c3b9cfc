// SPDX-License-Identifier: GPL-2.0-only

//! The sources of the experiments' inputs.

/// The source of an input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// A paper gives it.
    Paper,
    /// Filebench or YCSB define it.
    Load,
    /// It follows from numbers of a paper.
    Derived,
    /// It was chosen so that a number of a paper is reproduced.
    Fitted,
    /// It differs from the paper's intentionally.
    Scaled,
}

impl Source {
    /// Returns its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Load => "load generator",
            Self::Derived => "derived",
            Self::Fitted => "fitted",
            Self::Scaled => "scaled",
        }
    }
}

/// An input of the experiments.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// The quantity.
    pub what: &'static str,
    /// Its value.
    pub value: &'static str,
    /// Its source.
    pub source: Source,
    /// Its derivation.
    pub how: &'static str,
}

const fn input(
    what: &'static str,
    value: &'static str,
    source: Source,
    how: &'static str,
) -> Input {
    Input {
        what,
        value,
        source,
        how,
    }
}

/// All inputs that are not obvious.
pub const INPUTS: [Input; 18] = [
    input(
        "capacities, weights, limits, start times",
        "each figure's",
        Source::Paper,
        "DoubleDecker, sections 2.3 and 5; thesis, section 5.6.2",
    ),
    input(
        "targets of table 4 and figure 5.7",
        "each application's",
        Source::Paper,
        "taken as they are",
    ),
    input(
        "flows of the servers",
        "webserver, webproxy, varmail, videoserver",
        Source::Load,
        "Filebench's published personalities; files of a gamma distributed size, rounded up to \
         16 KiB, that are made before the run",
    ),
    input(
        "order of the files",
        "random",
        Source::Scaled,
        "Filebench takes them in rotation; a set of which a part is lost would then miss all of it",
    ),
    input(
        "key-value stores",
        "Zipf's law, exponent 0.99, one client",
        Source::Load,
        "YCSB's defaults; four places of Redis' memory for each record",
    ),
    input(
        "threads of web, proxy, mail, video",
        "77, 105, 215, 15",
        Source::Derived,
        "table 2's throughput by its latency (Little's law); the latency is the mean over all \
         operations of a flow that Filebench counts, opening and closing included",
    ),
    input(
        "files of web, proxy, mail",
        "1800, 1500, 1700 MiB",
        Source::Fitted,
        "about the memory and the store together that figure 9 shows of each with DDMem",
    ),
    input(
        "a video",
        "43 MiB",
        Source::Fitted,
        "the video server's evictions with DDMem in table 2, one new video every ten seconds",
    ),
    input(
        "length of the runs of figures 9 to 12 and table 2",
        "2000 s, of which the last 900 s are measured",
        Source::Fitted,
        "table 2's evictions of web and mail server with Global; files are made until 1100 s",
    ),
    input(
        "random access of the disk",
        "9 ms",
        Source::Derived,
        "figure 5's web server with all memory in the VM and no store: a thousand flows a second, a \
         quarter of whose files the memory lacks if they are as many as in table 4",
    ),
    input(
        "asynchronous writes for one access",
        "4",
        Source::Fitted,
        "containers of figure 9 fill their memory in 500 s, before they need the store",
    ),
    input(
        "processor time of a served file",
        "320 us",
        Source::Fitted,
        "table 2's web server with DDMem, if it waited for its processors only",
    ),
    input(
        "speed of videos in the page cache",
        "an eighth of the paper's",
        Source::Scaled,
        "what is in the page cache needs neither store nor disk, and costs the simulation most",
    ),
    input(
        "processor time of an operation of Redis, MongoDB, MySQL",
        "95, 3300, 7500 us",
        Source::Fitted,
        "figure 5 with all memory in the VM; table 4's best for MySQL",
    ),
    input(
        "data of Redis, MySQL",
        "1990, 1890 MiB",
        Source::Derived,
        "swap and memory of table 1",
    ),
    input(
        "files of MongoDB and of table 4's web server",
        "2200, 2570 MiB",
        Source::Derived,
        "more than memory and store; what table 4 says it holds",
    ),
    input(
        "files of figures 3 and 4",
        "2200 MiB each, memory 900 MiB",
        Source::Fitted,
        "each fills the store beside its own memory (figure 3)",
    ),
    input(
        "videos of figure 14",
        "192 MiB, paced",
        Source::Fitted,
        "VMs of 4 GiB fill the store within ten minutes; weights decide the shares",
    ),
];
