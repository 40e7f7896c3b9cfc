// SPDX-License-Identifier: GPL-2.0-only

//! Description of a load.

use std::path::PathBuf;

use crate::{
    fileset::FileSet,
    profile::{MIB, Profile, Shape},
};

/// A profile with its sizes; also the program's command line.
///
/// ```
/// use ddload::{Load, Profile};
///
/// let load = Load::new(Profile::Webserver, "/srv/web").files(2_000).seed(7);
/// assert_eq!(load.sets()[0].files().len(), 2_000);
/// ```
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Load {
    /// Kind of server to imitate
    #[arg(value_enum)]
    profile: Profile,
    /// Directory of its files
    #[arg(long)]
    dir: PathBuf,
    /// Number of files [default: the profile's]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    files: Option<u64>,
    /// Size of a file in bytes, the mean where sizes differ [default: the profile's]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    file_size: Option<u64>,
    /// Threads that make requests [default: the profile's]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,
    /// Requests per second, all threads together [default: the profile's]
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    rate: Option<f64>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Load {
    /// Returns the profile with its default sizes.
    pub fn new(profile: Profile, dir: impl Into<PathBuf>) -> Self {
        Self {
            profile,
            dir: dir.into(),
            files: None,
            file_size: None,
            threads: None,
            rate: None,
            seed: 1,
        }
    }

    /// Sets the number of files.
    #[must_use]
    pub fn files(mut self, count: u64) -> Self {
        self.files = Some(count.max(1));
        self
    }

    /// Sets the (mean) size of a file in bytes.
    #[must_use]
    pub fn file_size(mut self, bytes: u64) -> Self {
        self.file_size = Some(bytes.max(1));
        self
    }

    /// Sets the number of threads.
    #[must_use]
    pub fn threads(mut self, count: u64) -> Self {
        self.threads = Some(count.max(1));
        self
    }

    /// Sets the requests per second of all threads together.
    #[must_use]
    pub fn rate(mut self, per_second: f64) -> Self {
        self.rate = Some(per_second);
        self
    }

    /// Sets the seed of all random numbers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns the kind of server.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Returns its file sets.
    #[must_use]
    pub fn sets(&self) -> Vec<FileSet> {
        let shape = self.shape();
        let main = FileSet::plan(&self.dir, "files", &shape, self.seed);
        match self.profile {
            Profile::Video => {
                // There are half as many passive videos as active ones, and half of them exist at
                // the start.
                let passive = Shape {
                    files: (shape.files / 2).max(2),
                    present: 50,
                    ..shape
                };
                vec![
                    main,
                    FileSet::plan(&self.dir, "passive", &passive, self.seed),
                ]
            }
            _ => vec![main],
        }
    }

    /// Returns the bytes of all files that exist at the start.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sets().iter().map(FileSet::bytes).sum()
    }

    /// Returns the arguments with which the program runs this load.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![self.profile.to_string()];
        let mut pair = |option: &str, value: String| {
            arguments.extend([option.to_owned(), value]);
        };
        pair("--dir", self.dir.display().to_string());
        let numbers = [
            ("--files", self.files),
            ("--file-size", self.file_size),
            ("--threads", self.threads),
        ];
        for (option, value) in numbers {
            if let Some(value) = value {
                pair(option, value.to_string());
            }
        }
        if let Some(rate) = self.rate {
            pair("--rate", rate.to_string());
        }
        pair("--seed", self.seed.to_string());
        arguments
    }

    /// Returns a line for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let shape = self.shape();
        let mib = self.bytes().div_ceil(MIB);
        let files = match shape.files {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        let rate = shape
            .rate
            .map_or(String::new(), |rate| format!(", {rate} requests/s"));
        let threads = match shape.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        format!("{}: {files}, {mib} MiB, {threads}{rate}", self.profile)
    }

    pub(crate) fn shape(&self) -> Shape {
        let own = self.profile.shape();
        Shape {
            files: self.files.unwrap_or(own.files),
            file_size: self.file_size.unwrap_or(own.file_size),
            threads: self.threads.unwrap_or(own.threads),
            rate: self.rate.or(own.rate),
            ..own
        }
    }

    pub(crate) fn dir(&self) -> &PathBuf {
        &self.dir
    }

    pub(crate) fn seed_value(&self) -> u64 {
        self.seed
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && f64::is_finite(rate) => Ok(rate),
        _ => Err("expected a number above zero".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        load: Load,
    }

    #[test]
    fn arguments_mean_the_same_load() {
        let loads = [
            Load::new(Profile::Scan, "/a"),
            Load::new(Profile::Video, "/a b")
                .files(3)
                .file_size(5)
                .threads(2)
                .rate(12.5)
                .seed(9),
        ];
        for load in loads {
            let words = std::iter::once("ddload".to_owned()).chain(load.arguments());
            assert_eq!(Program::parse_from(words).load, load);
        }
    }

    #[test]
    fn descriptions_are_short() {
        let video = Load::new(Profile::Video, "/v");
        assert_eq!(
            video.describe(),
            "video: 16 files, 160 MiB, 8 threads, 96 requests/s"
        );
    }
}
