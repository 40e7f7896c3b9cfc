// SPDX-License-Identifier: GPL-2.0-only

//! Reads the page of an exporter.

use crate::{config::Endpoint, measure::exposition::Search};
use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Size of the buffer for a connection.
const BUFFER: usize = 16 << 10;

/// Reads a page, of which no more than a buffer is kept.
pub(super) async fn get(endpoint: &Endpoint, page: &mut Search) -> Result<()> {
    let stream = TcpStream::connect(endpoint.address)
        .await
        .with_context(|| format!("cannot connect to {}", endpoint.address))?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(BUFFER)
        .handshake(TokioIo::new(stream))
        .await?;
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
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            if let Some(piece) = frame?.data_ref() {
                let fed = page.feed(piece);
                fed.with_context(|| endpoint.address.to_string())?;
            }
        }
        Ok(())
    };
    // One future drives both, so that the connection ends when it is dropped.
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
