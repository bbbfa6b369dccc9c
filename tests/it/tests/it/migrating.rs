//! F20: bringing the tables up to date.

use std::time::Duration;

use outbox::Migrations;
use outbox_it::{TestDatabase, TestVhost, eventually};

use crate::scripted::{Script, quick, runtime, runtime_at};
use crate::world::{World, enqueue, settled};

const SOON: Duration = Duration::from_secs(30);
const EFFECTS: &str = "CREATE TABLE effects (consumer text NOT NULL, order_id text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())";
const OURS: &str = "relkind IN ('r', 'i') AND relnamespace = current_schema()::regnamespace";

/// F20: a migration that fails half-way leaves the schema as it was and the pool usable; when the cause is gone it works.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_migration_leaves_the_schema_untouched_and_the_pool_usable() {
    let db = TestDatabase::new().await;
    // In the way of the last table of the migration.
    db.execute("CREATE TABLE outbox_settings (mine int)").await;
    let pool = db.pool_of(1);
    for _ in 0..3 {
        let error = outbox::migrate(&pool).await.expect_err("it fails");
        assert!(format!("{error:?}").contains("outbox_settings"), "{error:?}");
        assert_eq!(db.count("pg_class", OURS).await, 1, "nothing of it is there");
        let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(&pool).await.unwrap();
        assert_eq!(one, 1);
        sqlx::query("INSERT INTO outbox_settings VALUES (1)").execute(&pool).await.unwrap();
    }
    assert_eq!(db.count("outbox_settings", "true").await, 3, "what the pool did afterwards is durable");
    assert_eq!(db.idle_in_transaction(Duration::ZERO).await, 0);
    db.execute("DROP TABLE outbox_settings").await;
    outbox::migrate(&pool).await.expect("it works");
    assert_eq!(db.count("outbox_messages", "true").await, 0);
}

/// F20: many instances start at once on an empty database: one brings the tables, the others wait, all work.
#[tokio::test(flavor = "multi_thread")]
async fn many_instances_may_migrate_at_once() {
    let (db, vhost) = tokio::join!(TestDatabase::new(), TestVhost::new());
    db.execute(EFFECTS).await;
    let script = Script::done();
    let starts: Vec<_> = (0..8)
        .map(|_| tokio::spawn(runtime_at(&db.url(), vhost.url(), &script, quick()).fail_fast(true).start()))
        .collect();
    let mut instances = Vec::new();
    for start in starts {
        instances.push(start.await.unwrap().expect("start"));
    }
    assert_eq!(db.count("_outbox_migrations", "success").await, db.count("_outbox_migrations", "true").await);
    enqueue(&db, 0, 100).await;
    settled(&db, 100, SOON).await;
    for instance in instances {
        instance.shutdown().await;
    }
}

/// F20: after a newer version has brought its tables, an older one starts and works beside it, whether it migrates or only checks.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_version_works_beside_newer_migrations() {
    let world = World::new().await;
    world
        .db
        .execute("INSERT INTO _outbox_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'from the future', true, '\\x00', 1)")
        .await;
    for (n, migrations) in [Migrations::Run, Migrations::Check].into_iter().enumerate() {
        let script = Script::done();
        let runtime =
            runtime(&world, &script, quick()).migrations(migrations).fail_fast(true).start().await.expect("start");
        world.enqueue(n * 10, n * 10 + 10).await;
        world.settled(n * 10 + 10, SOON).await;
        runtime.shutdown().await;
    }
    assert_eq!(world.db.count("_outbox_migrations", "version = 9999").await, 1);
}

/// F20: a database that lacks the tables is waited for; when somebody brings them, the runtime works.
#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_only_checks_waits_for_the_tables() {
    let (db, vhost) = tokio::join!(TestDatabase::new(), TestVhost::new());
    db.execute(EFFECTS).await;
    let script = Script::done();
    let runtime =
        runtime_at(&db.url(), vhost.url(), &script, quick()).migrations(Migrations::Check).start().await.unwrap();
    let told = async || {
        runtime
            .health()
            .component("database")
            .is_some_and(|part| !part.up && part.error.as_deref().is_some_and(|error| error.contains("0001_outbox")))
    };
    eventually(SOON, "health tells it", told).await;
    outbox::migrate(db.pool()).await.unwrap();
    enqueue(&db, 0, 10).await;
    settled(&db, 10, SOON).await;
    runtime.shutdown().await;
}
