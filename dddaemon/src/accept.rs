// SPDX-License-Identifier: GPL-2.0-only

//! The format that a scraper asks for in its `Accept` header (RFC 9110, section 12.5.1).

use crate::exposition::Format;

/// Chooses a format. A scraper that does not ask, or that asks for neither, gets the text format.
pub(crate) fn choose(accept: &str) -> Format {
    let (mut open, mut text) = (0.0f64, 0.0f64);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut quality, mut version) = (1.0f64, None);
        for parameter in parts {
            let Some((name, value)) = parameter.split_once('=') else {
                continue;
            };
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => quality = value.parse().unwrap_or(0.0),
                "version" => version = Some(value),
                _ => {}
            }
        }
        match (media_type.as_str(), version) {
            ("application/openmetrics-text", None | Some("1.0.0")) => open = quality.max(open),
            ("text/plain", None | Some("0.0.4")) => text = quality.max(text),
            ("*/*" | "text/*", None) => text = quality.max(text),
            _ => {}
        }
    }
    if open > 0.0 && open >= text {
        Format::OpenMetrics
    } else {
        Format::Text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrapers_get_the_format_that_they_prefer() {
        for accept in [
            "",
            "*/*",
            "text/plain",
            "text/plain;version=0.0.4",
            "application/json",
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=no",
            "application/openmetrics-text;q=0.3, text/plain;q=0.9",
        ] {
            assert_eq!(choose(accept), Format::Text, "{accept}");
        }
        for accept in [
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; Version=\"1.0.0\"; charset=utf-8",
            // The headers that Prometheus 2 and 3 send.
            "application/openmetrics-text;version=1.0.0;q=0.5,\
             application/openmetrics-text;version=0.0.1;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,\
             text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        ] {
            assert_eq!(choose(accept), Format::OpenMetrics, "{accept}");
        }
    }
}
