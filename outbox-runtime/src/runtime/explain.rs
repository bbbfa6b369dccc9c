//! What an error of the database at start means: which setting, what was tried, what to do. No password appears.

use crate::error::StartProblem;

/// Explains why the database cannot be used.
pub(super) fn database(setting: &str, shown: &str, error: &sqlx::Error) -> StartProblem {
    let problem = |problem: String, cure: &str| StartProblem::new(setting, format!("{shown}: {problem}"), cure);
    match error {
        sqlx::Error::Database(error) => {
            let said = error.message().to_owned();
            match error.code().as_deref() {
                Some("28P01" | "28000") => {
                    problem(said, "check user and password in the URL, and the server's pg_hba.conf")
                }
                Some("3D000") => problem(said, "create the database, or correct its name in the URL"),
                Some("42501") => problem(
                    said,
                    "give the user CREATE and USAGE on the schema, or run the migrations as its owner (`outbox::migrations::sql()`) and start with `Migrations::Check`",
                ),
                Some("42P01") => problem(
                    said,
                    "the tables are missing: start once with `Migrations::Run`, or call `outbox::migrate(&pool)`",
                ),
                Some("3F000") => {
                    problem(said, "no schema to create the tables in: create it, and set `search_path` for this user")
                }
                Some("53300") => problem(
                    said,
                    "the server has no free connections: raise max_connections, or make the pools smaller",
                ),
                Some("25006") => problem(said, "the server is a standby or read-only: connect to the primary"),
                _ => problem(said, "see the server's log"),
            }
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
#[cfg(all(feature = "postgres", feature = "rabbitmq"))]
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
