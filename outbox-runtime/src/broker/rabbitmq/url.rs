//! The broker's URL: read once, never printed with its password.

use std::str::FromStr;

use lapin::uri::{AMQPScheme, AMQPUri};

use crate::error::StartProblem;

/// Seconds between heartbeats unless the URL says otherwise: a dead peer is noticed after two of them.
const HEARTBEAT: u16 = 10;

/// Reads an `amqp://` or `amqps://` URL.
pub(crate) fn parse(setting: &str, text: &str) -> Result<AMQPUri, StartProblem> {
    let example = "amqp://user:password@host:5672/vhost (`%2f` is the vhost `/`)";
    let mut uri = AMQPUri::from_str(text).map_err(|_| {
        StartProblem::new(
            setting,
            "is not an AMQP URL",
            format!("write it like this: {example}; escape special characters of the password with %"),
        )
    })?;
    if uri.scheme == AMQPScheme::AMQPS && !cfg!(feature = "tls") {
        return Err(StartProblem::new(
            setting,
            "is an `amqps://` URL, and this build has no TLS",
            "switch it on: cargo add outbox -F tls",
        ));
    }
    if uri.authority.host.is_empty() {
        return Err(StartProblem::new(setting, "names no host", format!("write it like this: {example}")));
    }
    if !text.trim_end_matches('/').contains("/%2f") && text.ends_with('/') && uri.vhost.is_empty() {
        return Err(StartProblem::new(
            setting,
            "ends with `/`, which names the vhost \"\" (the empty one)",
            "leave the `/` off, or write `/%2f`, for the vhost `/`",
        ));
    }
    uri.query.heartbeat.get_or_insert(HEARTBEAT);
    Ok(uri)
}

/// `user@host:5672/vhost`: what was tried, for messages.
pub(crate) fn shown(uri: &AMQPUri) -> String {
    format!(
        "{}@{}:{}/{}",
        uri.authority.userinfo.username,
        uri.authority.host,
        uri.authority.port,
        uri.vhost.replace('/', "%2f")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_shows_the_password() {
        for text in
            ["amqp://u:s3cret@h:x/", "amqps://u:s3cret@h/v", "http://u:s3cret@h/v", "amqp://u:s3cret@h:5672/", "s3cret"]
        {
            match parse("AMQP_URL", text) {
                Ok(uri) => assert!(!shown(&uri).contains("s3cret")),
                Err(problem) => assert!(!problem.to_string().contains("s3cret"), "{problem}"),
            }
        }
        let tls = parse("AMQP_URL", "amqps://u:s3cret@h/v").map_err(|problem| problem.cure);
        let cure = "switch it on: cargo add outbox -F tls".to_owned();
        assert_eq!(tls.err(), (!cfg!(feature = "tls")).then_some(cure));
        let uri = parse("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/%2f").unwrap_or_default();
        assert_eq!(shown(&uri), "guest@127.0.0.1:5672/%2f");
        assert_eq!(uri.query.heartbeat, Some(10));
    }
}
