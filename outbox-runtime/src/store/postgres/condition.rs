//! What an error says about the server, by SQLSTATE, never by its text: servers speak other languages (F50).

use std::error::Error;

use sqlx::PgConnection;
use sqlx::postgres::PgDatabaseError;

use crate::store::{Condition, Writable, chain};

/// Looks for a SQLSTATE, or a lost connection, anywhere in the chain.
pub(super) fn condition(error: &(dyn Error + 'static)) -> Option<Condition> {
    chain::condition::<PgDatabaseError>(error, of_code)
}

fn of_code(code: Option<&str>) -> Option<Condition> {
    match code? {
        "40001" | "40P01" => Some(Condition::Conflict),
        "25P03" => Some(Condition::IdleInTransaction),
        // read-only; administrator; crash; starting; no resources; system error.
        "25006" | "57P01" | "57P02" | "57P03" => Some(Condition::Unavailable),
        code if code.starts_with("08") || code.starts_with("53") || code.starts_with("58") => {
            Some(Condition::Unavailable)
        }
        _ => None,
    }
}

/// An undefined table or column.
pub(super) fn lacks_tables(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("42P01" | "42703"))
}

/// What helps where a pooler loses prepared statements.
const POOLER: &str = "use a URL that goes to the server itself, or to a pool with pool_mode = session; or pgbouncer 1.21 or newer with max_prepared_statements = 100 or more, and no statement-cache-capacity=0 on this side";

pub(super) fn cure(code: Option<&str>) -> &'static str {
    match code {
        Some("28P01" | "28000") => "check user and password in the URL, and the server's pg_hba.conf",
        Some("3D000") => "create the database, or correct its name in the URL",
        Some("42501") => {
            "give the user CREATE and USAGE on the schema, or run the migrations as its owner (`outbox::migrations::sql()`) and start with `Migrations::Check`"
        }
        Some("42P01") => "the tables are missing: start once with `Migrations::Run`, or call `outbox::migrate(&pool)`",
        Some("3F000") => "no schema to create the tables in: create it, and set `search_path` for this user",
        Some("53300") => "the server has no free connections: raise max_connections, or make the pools smaller",
        // What pgbouncer says of itself, and what it does to the statements of others.
        Some("08P01") => {
            "a pooler does not take a start-up parameter: with pgbouncer add `ignore_startup_parameters = extra_float_digits` to its ini (before 1.20 `options` as well, and then set `search_path` for the role and not in the URL)"
        }
        Some("42P05" | "26000") => POOLER,
        Some("25006") => "the server is a standby or read-only: connect to the primary",
        _ => "see the server's log",
    }
}

pub(super) async fn probe(connection: &mut PgConnection) -> Result<Writable, sqlx::Error> {
    let read_only: bool =
        sqlx::query_scalar("SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean")
            .fetch_one(connection)
            .await?;
    Ok(if read_only { Writable::ReadOnly } else { Writable::Yes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_go_by_sqlstate() {
        let table = [
            ("40001", Some(Condition::Conflict)),
            ("40P01", Some(Condition::Conflict)),
            ("25P03", Some(Condition::IdleInTransaction)),
            ("25006", Some(Condition::Unavailable)),
            ("57P01", Some(Condition::Unavailable)),
            ("08006", Some(Condition::Unavailable)),
            ("53100", Some(Condition::Unavailable)),
            ("57014", None),
            ("23505", None),
            ("25P02", None),
        ];
        for (code, want) in table {
            assert_eq!(of_code(Some(code)), want, "{code}");
        }
        assert_eq!(condition(&sqlx::Error::PoolTimedOut), Some(Condition::Unavailable));
        assert_eq!(condition(&sqlx::Error::RowNotFound), None);
        let nested = std::io::Error::other(sqlx::Error::PoolClosed);
        assert_eq!(condition(&nested), None, "io::Error hides its cause from source()");
    }
}
