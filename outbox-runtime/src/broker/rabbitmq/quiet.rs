//! lapin logs the whole body of a returned message at WARN, on its I/O thread. No payload may appear in a log, so that thread gets no
//! subscriber: the broker's greeting asks the auth provider for credentials there, before any message can be returned.

use lapin::auth::AuthProvider;
use lapin::types::{LongString, ShortString};
use lapin::uri::{AMQPUri, SASLMechanism};
use tracing::subscriber::NoSubscriber;

/// Sends the URL's credentials and silences the thread that asks for them.
pub(super) struct QuietAuth {
    mechanism: SASLMechanism,
    answer: LongString,
}

impl QuietAuth {
    /// `None` for mechanisms that need a dialogue; lapin's own provider does those.
    pub(super) fn new(uri: &AMQPUri) -> Option<Self> {
        let mechanism = uri.query.auth_mechanism.unwrap_or_default();
        let user = &uri.authority.userinfo;
        let answer = match mechanism {
            SASLMechanism::Plain => format!("\0{}\0{}", user.username, user.password),
            SASLMechanism::External => String::new(),
            _ => return None,
        };
        Some(Self { mechanism, answer: answer.into() })
    }
}

impl AuthProvider for QuietAuth {
    fn mechanism(&self) -> ShortString {
        self.mechanism.name().into()
    }

    fn auth_starter(&self) -> Result<LongString, String> {
        // The guard would give the subscriber back: the thread ends with its connection.
        std::mem::forget(tracing::subscriber::set_default(NoSubscriber::default()));
        Ok(self.answer.clone())
    }
}
