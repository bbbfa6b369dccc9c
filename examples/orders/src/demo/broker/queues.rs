//! The queues of the broker "database": rows beside the outbox.

use crate::database::Database;

/// The queues in the database that both services share.
pub(crate) struct Queues {
    pub(crate) database: Database,
}

impl Queues {
    pub(super) async fn inventory_consumes(&self) -> anyhow::Result<bool> {
        // Who takes messages is written nowhere. But events go into a queue only after it is bound, and the service has sessions only while it runs.
        let bound = "SELECT count(*) FROM queue_bindings WHERE queue = 'inventory'";
        let sessions = "SELECT count(*) FROM pg_stat_activity
                        WHERE datname = current_database() AND application_name = 'inventory-service'";
        // Before the service's migration there is no such table.
        let migrated = "SELECT count(to_regclass('queue_bindings'))";
        Ok(self.database.number(migrated).await? > 0
            && self.database.number(bound).await? > 0
            && self.database.number(sessions).await? > 0)
    }

    pub(super) async fn inventory_claimed(&self) -> anyhow::Result<i64> {
        let claimed = "SELECT count(*) FROM queue_messages WHERE queue = 'inventory' AND locked_by IS NOT NULL";
        self.database.number(claimed).await
    }

    /// All messages: one that a consumer has stays in the table until it is handled.
    pub(super) async fn waiting(&self) -> anyhow::Result<i64> {
        self.database.number("SELECT count(*) FROM queue_messages").await
    }
}
