//! What an error of the database at start means: which setting, what was tried, what to do. No password appears.

use crate::error::StartProblem;
use crate::store::Store;

/// Explains why the database cannot be used.
pub(super) fn database<DB: Store>(setting: &str, shown: &str, error: &sqlx::Error) -> StartProblem {
    let problem = |problem: String, cure: &str| StartProblem::new(setting, format!("{shown}: {problem}"), cure);
    match error {
        sqlx::Error::Database(error) => {
            let said = error.message().to_owned();
            problem(said, DB::cure(error.code().as_deref()))
        }
        sqlx::Error::Io(error) => problem(error.to_string(), "is the server running, and are host and port right?"),
        sqlx::Error::Tls(error) => {
            problem(error.to_string(), "check `sslmode` in the URL; TLS needs the feature: cargo add outbox -F tls")
        }
        sqlx::Error::PoolTimedOut => problem(
            "no connection within the pool's acquire_timeout".to_owned(),
            "is the server running and reachable, and is the pool large enough?",
        ),
        other => problem(other.to_string(), "see the server's log"),
    }
}

/// Explains why the broker cannot be used.
#[cfg(all(feature = "rabbitmq", any(feature = "postgres", feature = "sqlite")))]
pub(super) fn broker(shown: &str, error: &crate::broker::rabbitmq::RabbitError) -> StartProblem {
    let text = error.to_string();
    let cure = match error.reply().map(|(code, _)| code) {
        Some(403) => "check user and password in AMQP_URL (`guest` may only connect from localhost)",
        Some(530) => {
            "check the vhost in AMQP_URL and the user's permissions on it (`rabbitmqctl add_vhost`, `set_permissions`)"
        }
        _ => "is RabbitMQ running, and are host and port in AMQP_URL right?",
    };
    StartProblem::new("AMQP_URL", format!("{shown}: {text}"), cure)
}
