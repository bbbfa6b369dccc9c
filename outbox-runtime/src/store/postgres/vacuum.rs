//! What holds back vacuum (F44): as long as an old transaction may look at them, each claim's scan meets the rows of the claims before it.

use std::time::Duration;

use sqlx::PgConnection;

use crate::store::Vacuum;

/// Sessions of other roles show their snapshots to members of `pg_read_all_stats` only; to others they are NULL, and not counted. A prepared
/// transaction is nobody's session. Vacuum itself has a snapshot that holds back nothing.
const VACUUM: &str = "
SELECT COALESCE(extract(epoch FROM clock_timestamp() - LEAST(
           (SELECT min(xact_start) FROM pg_stat_activity
            WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND backend_type NOT LIKE 'autovacuum%' AND datname = current_database() AND pid <> pg_backend_pid()),
           (SELECT min(prepared) FROM pg_prepared_xacts WHERE database = current_database()))), 0)::float8,
       COALESCE(pg_stat_get_dead_tuples(to_regclass('outbox_messages')), 0)";

pub(super) async fn vacuum(connection: &mut PgConnection) -> Result<Vacuum, sqlx::Error> {
    let (seconds, dead): (f64, i64) = sqlx::query_as(VACUUM).fetch_one(connection).await?;
    Ok(Vacuum {
        oldest_snapshot: Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default(),
        dead_rows: u64::try_from(dead).unwrap_or(0),
    })
}
