//! The format of the figures, which the scraper chooses.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Prometheus's text, version 0.0.4.
    Plain,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus's length-prefixed protocol buffers, the only format with native histograms.
    Protobuf,
}

impl Format {
    /// The format that the peer's `Accept` header prefers; among equals, the first.
    pub(super) fn wanted(accept: Option<&str>) -> Format {
        let mut best = (0.0, Format::Plain);
        for range in accept.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let mut quality = 1.0;
            let (mut message, mut encoding) = (None, None);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim() {
                    "q" => quality = value.trim().parse().unwrap_or(0.0),
                    "proto" => message = Some(value.trim()),
                    "encoding" => encoding = Some(value.trim()),
                    _ => {}
                }
            }
            let is_family = message == Some("io.prometheus.client.MetricFamily");
            let format = match media.as_str() {
                "application/vnd.google.protobuf" if is_family && encoding == Some("delimited") => {
                    Format::Protobuf
                }
                "application/openmetrics-text" => Format::OpenMetrics,
                "text/plain" | "text/*" | "*/*" => Format::Plain,
                _ => continue,
            };
            if quality > best.0 {
                best = (quality, format);
            }
        }
        best.1
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Format::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_one_that_the_scraper_likes_best() {
        const PROTOBUF: &str = "application/vnd.google.protobuf;\
            proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let text = "application/openmetrics-text;version=1.0.0;q=0.8,\
            application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let wanted = |accept: &str| Format::wanted(Some(accept));
        assert_eq!(wanted(&format!("{PROTOBUF},{text}")), Format::Protobuf);
        assert_eq!(wanted(text), Format::OpenMetrics);
        assert_eq!(wanted(&format!("{PROTOBUF};q=0.4,{text}")), Format::OpenMetrics);
        assert_eq!(wanted("text/plain;q=0.9,application/openmetrics-text;q=0.2"), Format::Plain);
        assert_eq!(Format::wanted(None), Format::Plain);
        for plain in ["*/*", "application/openmetrics-text;q=0", "", "image/png", &PROTOBUF[..31]] {
            assert_eq!(wanted(plain), Format::Plain, "{plain:?}");
        }
        let other = PROTOBUF.replace("delimited", "text");
        assert_eq!(wanted(&format!("{other},text/plain;q=0.1")), Format::Plain);
    }
}
