// SPDX-License-Identifier: GPL-2.0-only

//! Priorities of lines for the journal, which reads them at the beginning of each line
//! (`sd-daemon(3)`).

use rustix::fs::{Stat, fstat};
use std::{env, io::stderr};
use tracing::Level;

/// Returns whether the standard error is a stream of the journal. The service manager passes the
/// identity of the stream, which differs if the output was redirected since then.
pub fn is_stderr() -> bool {
    let stream = env::var("JOURNAL_STREAM");
    let (Ok(stream), Ok(stat)) = (stream, fstat(stderr())) else {
        return false;
    };
    is_stream(&stream, &stat)
}

fn is_stream(stream: &str, stat: &Stat) -> bool {
    stream.split_once(':').is_some_and(|(device, inode)| {
        device.parse() == Ok(stat.st_dev) && inode.parse() == Ok(stat.st_ino)
    })
}

/// Returns the priority of a level, as it begins a line.
pub(crate) const fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Returns a message of several lines with a priority in front of each if it is for the journal.
pub(crate) fn error(message: &str, is_journal: bool) -> String {
    if !is_journal {
        return message.into();
    }
    let lines = message.split('\n').map(|line| format!("<3>{line}"));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn the_stream_is_identified_by_device_and_inode() {
        let stat = fstat(File::open("/dev/null").unwrap()).unwrap();
        let (device, inode) = (stat.st_dev, stat.st_ino);
        assert!(is_stream(&format!("{device}:{inode}"), &stat));
        for other in [
            format!("{device}:{}", inode + 1),
            format!("{}:{inode}", device + 1),
            device.to_string(),
            String::new(),
            "a:b".into(),
        ] {
            assert!(!is_stream(&other, &stat), "{other}");
        }
    }

    #[test]
    fn every_line_of_an_error_has_its_priority() {
        assert_eq!(error("a\nb", true), "<3>a\n<3>b");
        assert_eq!(error("a\nb", false), "a\nb");
    }
}
