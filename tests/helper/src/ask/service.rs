// SPDX-License-Identifier: GPL-2.0-only

//! A service: a program that answers line by line, or a web server.

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

/// A service and its last answer.
#[derive(Debug)]
pub(super) struct Service {
    kind: Kind,
    answer: Vec<u8>,
}

#[derive(Debug)]
enum Kind {
    Program {
        input: ChildStdin,
        output: BufReader<ChildStdout>,
        /// The program ends when its input is closed.
        _child: Child,
    },
    Web(BufReader<UnixStream>),
}

impl Service {
    /// Starts a program.
    pub(super) fn program(argv: &[String]) -> Result<Self> {
        let [program, arguments @ ..] = argv else {
            bail!("there is no program");
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {program}"))?;
        let input = child.stdin.take().context("the program has no input")?;
        let output = child.stdout.take().context("the program has no output")?;
        Ok(Self::new(Kind::Program {
            input,
            output: BufReader::new(output),
            _child: child,
        }))
    }

    /// Connects to a web server, with one connection for all questions.
    pub(super) fn web(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("cannot connect to {}", socket.display()))?;
        Ok(Self::new(Kind::Web(BufReader::new(stream))))
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            answer: Vec::new(),
        }
    }

    /// Asks and waits for the whole answer: a line, or the content at a path.
    pub(super) fn ask(&mut self, question: &str) -> Result<&[u8]> {
        self.answer.clear();
        match &mut self.kind {
            Kind::Program { input, output, .. } => {
                input.write_all(format!("{question}\n").as_bytes())?;
                output.read_until(b'\n', &mut self.answer)?;
                ensure!(self.answer.ends_with(b"\n"), "the program ended");
            }
            Kind::Web(stream) => get(stream, question, &mut self.answer)?,
        }
        Ok(&self.answer)
    }
}

/// Gets a path from a server that sends the length.
fn get(stream: &mut BufReader<UnixStream>, path: &str, body: &mut Vec<u8>) -> Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes())?;
    let mut line = String::new();
    stream.read_line(&mut line)?;
    ensure!(
        line.split(' ').nth(1) == Some("200"),
        "{path} was answered by {line:?}"
    );
    let mut length = None;
    loop {
        line.clear();
        ensure!(stream.read_line(&mut line)? > 0, "the server hung up");
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse()?);
        }
    }
    let length: usize = length.context("the server sent no length")?;
    body.resize(length, 0);
    stream.read_exact(body).context("the server hung up")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_answers_line_by_line() {
        let mut service = Service::program(&["cat".to_owned()]).unwrap();
        assert_eq!(service.ask("one").unwrap(), b"one\n");
        assert_eq!(service.ask("two").unwrap(), b"two\n");
        let mut silent = Service::program(&["true".to_owned()]).unwrap();
        assert!(silent.ask("three").is_err());
    }

    #[test]
    fn answers_of_a_web_server_are_read_to_their_ends() {
        let answer = "HTTP/1.1 200 OK\r\nServer: any\r\ncontent-length: 3\r\n\r\nabc";
        let all = format!("{answer}{answer}HTTP/1.1 404 Not Found\r\n\r\n");
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(all.as_bytes()).unwrap();
        let mut stream = BufReader::new(ours);
        let mut body = Vec::new();
        for _ in 0..2 {
            get(&mut stream, "/a", &mut body).unwrap();
            assert_eq!(body, b"abc");
        }
        assert!(get(&mut stream, "/a", &mut body).is_err());
    }
}
