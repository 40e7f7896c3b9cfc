// SPDX-License-Identifier: GPL-2.0

//! Asking applications: a page, a program, a file.

use crate::config::{Endpoint, Origin};
use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use std::{path::PathBuf, process::Stdio};
use tokio::{io::AsyncReadExt, net::TcpStream, process::Command};

/// Asks for a page; tests put a fake in its place.
pub trait Ask: Clone + Send + 'static {
    /// What an origin says. The caller limits the time, and drops the future when it is over.
    fn ask(&self, origin: &Origin) -> impl Future<Output = Result<String>> + Send;
}

/// The real ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origins;

/// Longest answer that is read.
const LONGEST: usize = 4 << 20;

impl Ask for Origins {
    async fn ask(&self, origin: &Origin) -> Result<String> {
        let bytes = match origin {
            Origin::Command(command) => run(command).await?,
            Origin::File(path) => read(path.clone()).await?,
            Origin::Http(endpoint) => get(endpoint).await?,
        };
        // What is not text is skipped line by line.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

async fn get(endpoint: &Endpoint) -> Result<Vec<u8>> {
    let stream = TcpStream::connect(endpoint.address)
        .await
        .with_context(|| format!("cannot connect to {}", endpoint.address))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(&endpoint.path)
        .header(header::HOST, endpoint.address.to_string())
        .header(header::ACCEPT, "text/plain")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK {
            bail!("{} answers {}", endpoint.address, response.status());
        }
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        match body {
            Ok(body) => Ok(body.to_bytes().to_vec()),
            Err(error) => bail!("{}: {error}", endpoint.address),
        }
    };
    // Both in one future, so that dropping it ends the connection too.
    tokio::pin!(connection);
    tokio::pin!(answer);
    let mut open = true;
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            _ = &mut connection, if open => open = false,
        }
    }
}

async fn run(command: &[String]) -> Result<Vec<u8>> {
    let [program, arguments @ ..] = command else {
        bail!("no program");
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(LONGEST as u64).read_to_end(&mut output).await?;
    }
    let status = child.wait().await?;
    if !status.success() {
        bail!("{program}: {status}");
    }
    Ok(output)
}

async fn read(path: PathBuf) -> Result<Vec<u8>> {
    let name = path.display().to_string();
    let metadata = tokio::fs::metadata(&path).await;
    // A pipe, or a device, might keep its reader waiting for ever.
    if !metadata.with_context(|| name.clone())?.is_file() {
        bail!("{name} is no file");
    }
    let file = tokio::fs::File::open(&path).await.context(name)?;
    let mut text = Vec::new();
    file.take(LONGEST as u64).read_to_end(&mut text).await?;
    Ok(text)
}
