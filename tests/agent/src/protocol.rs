// SPDX-License-Identifier: GPL-2.0-only

//! Messages between the harness and the agents: one JSON object per line.
//!
//! The harness numbers its requests, and an agent answers each number once, in any order. A request
//! with a `target` is for a VM of the agent that receives it, which forwards the line without
//! parsing the operation.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// Name of the virtio-serial port an agent listens on.
pub const PORT: &str = "dd.agent";

/// A message from the harness to an agent.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Request {
    /// Number that is unique among the requests of a harness.
    pub id: u64,
    /// VM of the receiving agent for which the request is, instead of the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The operation.
    pub op: Op,
}

/// An operation of an agent.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Create a cgroup (v2, path relative to the mount) and write its files.
    Cgroup {
        /// Path below the cgroup mount.
        path: String,
        /// Files to write, in order.
        set: Vec<(String, String)>,
    },
    /// Read (part of) one file.
    Read(Read),
    /// Run a program to its end.
    Exec(Command),
    /// Signal a background program's process group.
    Kill {
        /// From [`Answer::Spawned`].
        handle: u64,
        /// Signal number.
        signal: i32,
    },
    /// Signal a VM's process.
    KillVm {
        /// Its name.
        name: String,
        /// Signal number.
        signal: i32,
    },
    /// Mount a filesystem, after creating the mount point.
    Mount {
        /// Device or other source.
        source: String,
        /// Mount point.
        target: String,
        /// Type.
        fstype: String,
        /// Comma-separated options, including `ro` and `noatime`.
        options: String,
    },
    /// Answer at once.
    Ping,
    /// Return whether a background program still runs.
    Poll {
        /// From [`Answer::Spawned`].
        handle: u64,
    },
    /// Sync and power the machine off. There may be no answer.
    Poweroff,
    /// Return the content of a file, at most `limit` bytes from `offset`.
    ReadFile {
        /// Path.
        path: String,
        /// First byte.
        offset: u64,
        /// Maximum number of bytes to return.
        limit: u64,
    },
    /// Read every regular file below a directory, in path order.
    ReadTree {
        /// The directory.
        path: String,
        /// Whether to compute the digest (see [`crate::digest::Tree`]).
        digest: bool,
        /// Cgroup (path below the mount) that reads and is charged.
        #[serde(default)]
        cgroup: Option<String>,
    },
    /// Start a program in the background with its output going to a file.
    Spawn {
        /// The program.
        command: Command,
        /// File that receives both standard output and standard error.
        output: String,
    },
    /// Start a VM.
    StartVm(VmSpec),
    /// Return whether a VM's process still runs.
    VmAlive {
        /// Its name.
        name: String,
    },
    /// Wait for a background program's end.
    Wait {
        /// From [`Answer::Spawned`].
        handle: u64,
    },
    /// Wait for a VM's process to end.
    WaitVm {
        /// Its name.
        name: String,
    },
    /// Write a file.
    WriteFile {
        /// Path.
        path: String,
        /// Its new content.
        #[serde(with = "bytes")]
        data: Vec<u8>,
        /// Whether to append to the file instead of replacing it.
        append: bool,
    },
}

/// A program with its arguments and environment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables added to the agent's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Standard input.
    #[serde(default, with = "bytes")]
    pub stdin: Vec<u8>,
    /// Cgroup (path below the mount) to enter before the program starts.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Working directory.
    #[serde(default)]
    pub cwd: Option<String>,
}

/// One read of (part of) a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Read {
    /// Path.
    pub path: String,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; the rest of the file when absent.
    pub len: Option<u64>,
    /// Size of each read.
    pub block: usize,
    /// Way of reading.
    pub how: ReadMode,
    /// Whether to compute the blake3 digest of what was read.
    pub digest: bool,
    /// Cgroup (path below the mount) that reads and is charged.
    #[serde(default)]
    pub cgroup: Option<String>,
}

/// Way of reading a file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadMode {
    /// `read` through the page cache.
    Buffered,
    /// `O_DIRECT`, past the page cache.
    Direct,
    /// A shared read-only mapping.
    Mmap,
}

/// A VM to start.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct VmSpec {
    /// Name by which requests reach it.
    pub name: String,
    /// The VMM's program and arguments.
    pub argv: Vec<String>,
    /// Directory for its files; created.
    pub dir: String,
    /// File of its console, streamed to the harness as it grows.
    pub console: String,
    /// Socket of its agent port.
    pub agent: String,
    /// Cgroup (path below the mount) that the VMM enters before it starts. The memory of the VM and
    /// the VMM's page cache are charged to it.
    #[serde(default)]
    pub cgroup: Option<String>,
}

/// A message from an agent to the harness.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The answer to a request.
    Reply {
        /// The request's number.
        id: u64,
        /// The answer, or the text of an error with its causes.
        result: Result<Answer, String>,
    },
    /// New console output of a VM.
    Console {
        /// The VM.
        vm: String,
        /// The output.
        #[serde(with = "bytes")]
        data: Vec<u8>,
    },
    /// A sign of life, about once a second.
    Heartbeat {
        /// The VM that sent it, set by the relay; `None` for the agent itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vm: Option<String>,
        /// Milliseconds since boot.
        uptime_ms: u64,
        /// Milliseconds of processor time that each running VM of the agent has used so far.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        vms_cpu_ms: BTreeMap<String, u64>,
    },
    /// A VM's process ended.
    VmExit {
        /// The VM.
        vm: String,
        /// How it ended.
        exit: Exit,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The operation is done and returns nothing.
    Done,
    /// A program ran to its end.
    Output(Output),
    /// State of a background program or VM; `None` while it runs.
    State(Option<Exit>),
    /// A background program was started.
    Spawned {
        /// Handle for later requests.
        handle: u64,
        /// Its process id.
        pid: i32,
    },
    /// Content of a file.
    Bytes {
        /// The bytes asked for.
        #[serde(with = "bytes")]
        data: Vec<u8>,
    },
    /// Files were read.
    Sum(Sum),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Exit {
    /// Exit status, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// Returns whether it ended by itself with status 0.
    #[must_use]
    pub fn success(self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(to, "status {code}"),
            (None, Some(signal)) => write!(to, "signal {signal}"),
            (None, None) => to.write_str("unknown"),
        }
    }
}

/// End and output of a program.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// Standard output.
    #[serde(with = "bytes")]
    pub stdout: Vec<u8>,
    /// Standard error.
    #[serde(with = "bytes")]
    pub stderr: Vec<u8>,
    /// Duration, by the machine's own clock.
    pub seconds: f64,
}

impl Output {
    /// Returns the standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Result of a read.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Sum {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Duration, by the machine's own clock.
    pub seconds: f64,
    /// blake3 of the content (a file) or of the tree (see [`crate::digest::Tree`]) in hex, if
    /// requested.
    pub digest: Option<String>,
}

/// Bytes in JSON, as base64.
mod bytes {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(data: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(data))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(message: &Message) {
        let line = serde_json::to_string(message).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(&serde_json::from_str::<Message>(&line).unwrap(), message);
    }

    #[test]
    fn messages_are_one_line_and_come_back() {
        round_trip(&Message::Reply {
            id: 7,
            result: Err("no such file\nreally".to_owned()),
        });
        round_trip(&Message::Console {
            vm: "a".to_owned(),
            data: vec![0, 10, 255],
        });
        round_trip(&Message::Heartbeat {
            vm: None,
            uptime_ms: 5,
            vms_cpu_ms: [("a".to_owned(), 70)].into(),
        });
    }

    #[test]
    fn a_command_needs_only_its_arguments() {
        let request: Request =
            serde_json::from_str(r#"{"id":1,"op":{"exec":{"argv":["true"]}}}"#).unwrap();
        assert_eq!(request.target, None);
        assert!(matches!(request.op, Op::Exec(command) if command.argv == ["true"]));
    }
}
