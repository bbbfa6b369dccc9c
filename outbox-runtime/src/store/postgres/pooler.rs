//! Whether a pooler stands before the server that gives its sessions away after each transaction, and whether prepared statements survive it (F22).

use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Postgres, Row as _};
use ulid::Ulid;

use crate::store::Pooling;
use crate::store::session::within;

/// Looks before we believe that there is none.
const LOOKS: usize = 5;
/// Looks where a session is older than its connection: then there is a pooler, and other clients may take its sessions in between.
const LOOKS_AT_A_POOLER: usize = 40;
/// Tries to bring two connections to one session of the server's; each needs a moment in which nobody else takes it.
const TRIES: usize = 30;
/// How long one answer may take. A pooler with a single session lets one connection wait while another has it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Read-only: where names are mixed up, somebody else's statement may be run in place of ours.
const BEGIN: &str = "BEGIN READ ONLY; SELECT pg_backend_pid()";
const BACKEND: &str = "SELECT pg_backend_pid()";
/// The seconds since the session began.
const AGE: &str = "SELECT COALESCE(extract(epoch FROM clock_timestamp() - backend_start), 0)::float8 FROM pg_stat_activity WHERE pid = pg_backend_pid()";
const ISOLATION: &str = "SELECT current_setting('default_transaction_isolation')";

/// `first` is a connection nobody has prepared anything on.
pub(super) async fn pooling(first: &mut PgConnection, options: &PgConnectOptions) -> Result<Pooling, sqlx::Error> {
    let begun = Instant::now();
    let mut second = within(PATIENCE, PgConnection::connect_with(options)).await?;
    let age: f64 = answer(&mut second, AGE).await?;
    let looks = if age > begun.elapsed().as_secs_f64() + 0.05 { LOOKS_AT_A_POOLER } else { LOOKS };
    let pooling = if shares_sessions(first, &mut second, looks).await? {
        survival(first, &mut second).await?
    } else {
        Pooling::Sessions
    };
    let _ = within(PATIENCE, second.close()).await;
    Ok(pooling)
}

/// Proof that sessions are shared: two open connections have the same one, or a connection has had two.
async fn shares_sessions(
    first: &mut PgConnection,
    second: &mut PgConnection,
    looks: usize,
) -> Result<bool, sqlx::Error> {
    for _ in 0..looks {
        let before: i32 = answer(first, BACKEND).await?;
        let during: i32 = answer(second, BEGIN).await?;
        // While `second` keeps its session, `first` must get another one if it has none of its own.
        let shared = during == before || answer::<i32>(first, BACKEND).await? != before;
        rollback(second).await?;
        if shared {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One value, by a simple query: nothing is prepared.
async fn answer<T>(connection: &mut PgConnection, sql: &'static str) -> Result<T, sqlx::Error>
where
    T: for<'r> sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    within(PATIENCE, connection.fetch_one(sqlx::raw_sql(sql))).await?.try_get(0)
}

async fn rollback(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    within(PATIENCE, async { sqlx::raw_sql("ROLLBACK").execute(connection).await.map(drop) }).await
}

/// What became of a statement with a name.
enum Prepared {
    /// It ran on this session.
    On(i32),
    /// It is not known here, or its name is somebody else's.
    Lost(String),
}

/// Runs a prepared statement (prepares it first where the connection has not yet) that nobody else has, by its token: one of the same name that
/// somebody left in the session would answer otherwise. In a transaction, so that all of it happens in one session.
async fn prepared(connection: &mut PgConnection, token: Ulid) -> Result<Prepared, sqlx::Error> {
    let sql = AssertSqlSafe(format!("SELECT pg_backend_pid(), '{token}'::text"));
    let ran = within(PATIENCE, sqlx::query_as::<_, (i32, String)>(sql).fetch_one(connection)).await;
    match ran {
        Ok((backend, answered)) if answered == token.to_string() => Ok(Prepared::On(backend)),
        Err(sqlx::Error::Database(error)) => Ok(Prepared::Lost(error.message().to_owned())),
        // No answer says nothing of statements.
        Err(error @ (sqlx::Error::Io(_) | sqlx::Error::Tls(_))) => Err(error),
        _ => Ok(Prepared::Lost("another client's statement was run in its place".to_owned())),
    }
}

/// Proof that prepared statements survive: two connections have one of the same name on the same session, or one runs where it was not prepared.
async fn survival(first: &mut PgConnection, second: &mut PgConnection) -> Result<Pooling, sqlx::Error> {
    let unusable = |why: String| Ok(Pooling::Unusable(why));
    let (mut home, token) = (None, Ulid::new());
    for _ in 0..TRIES {
        answer::<i32>(first, BEGIN).await?;
        let here = match prepared(first, token).await? {
            Prepared::On(here) => here,
            Prepared::Lost(why) => return unusable(format!("prepared statements do not survive it: {why}")),
        };
        rollback(first).await?;
        if first.cached_statements_size() == 0 {
            return unusable(
                "the URL or the pool says statement-cache-capacity=0: each statement would be prepared anew and given up by nobody"
                    .to_owned(),
            );
        }
        let moved = *home.get_or_insert(here) != here;
        let there: i32 = answer(second, BEGIN).await?;
        let met = there == here;
        let twin = if met { Some(prepared(second, token).await?) } else { None };
        if let Some(Prepared::Lost(why)) = twin {
            return unusable(format!("prepared statements do not survive it: {why}"));
        }
        let isolation: String = answer(second, ISOLATION).await?;
        rollback(second).await?;
        if !isolation.eq_ignore_ascii_case("read committed") {
            return unusable(format!(
                "the default isolation of its sessions is {isolation:?}, and no session can be told otherwise: ALTER ROLE .. SET default_transaction_isolation = 'read committed'"
            ));
        }
        if met || moved {
            return Ok(Pooling::Transactions);
        }
    }
    Err(sqlx::Error::Io(std::io::Error::other(
        "a transaction pooler stands before the server, and it could not be found out whether prepared statements survive it",
    )))
}
