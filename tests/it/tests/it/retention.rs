//! A running relay deletes what it need not keep.

use std::time::Duration;

use crate::claim_statement::{old_and_new, only_old_published_rows_are_gone};
use crate::producing::{relay, rows};
use crate::world::World;

/// S5: a running relay deletes in chunks, beside its work; what is younger or not published stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_relay_deletes_old_published_rows_in_chunks() {
    let world = World::new().await;
    old_and_new(&world.db, 2_500).await;
    world
        .db
        .execute(
            "CREATE TABLE chunks (rows bigint);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO chunks SELECT count(*) FROM gone; RETURN NULL; END $$;
             CREATE TRIGGER note AFTER DELETE ON outbox_messages REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note()",
        )
        .await;
    let runtime = relay(&world).retention(outbox::Retention::keep(Duration::from_secs(3600))).start().await.unwrap();
    rows(&world.db, "event_id LIKE 'old-%'", 0, Duration::from_secs(20)).await;
    only_old_published_rows_are_gone(&world.db, 2_500).await;
    assert!(world.db.number("SELECT max(rows) FROM chunks").await <= 1_000, "bounded chunks");
    assert!(world.db.number("SELECT count(*) FROM chunks WHERE rows > 0").await >= 3);
    runtime.shutdown().await;
    only_old_published_rows_are_gone(&world.db, 2_500).await;
}
