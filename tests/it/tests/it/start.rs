//! Starting: everything is checked as a whole, each problem says which setting, what was tried and what to do; no password anywhere.

use std::time::Duration;

use outbox::{Broker, ConsumerOptions, Migrations, RuntimeBuilder, State, handler, handlers};
use outbox_it::{Logs, TestDatabase, eventually};

use crate::world::{OrderCreated, World};

struct Mailer;

#[handler(consumer = "mail")]
async fn send_mail(_order: OrderCreated, _mailer: State<Mailer>) -> outbox::Result<()> {
    Ok(())
}

#[handler(consumer = "inventory")]
async fn reserve_again(_order: OrderCreated) -> outbox::Result<()> {
    Ok(())
}

#[handler(consumer = "narrow", concurrency = 8)]
async fn narrow(_order: OrderCreated) -> outbox::Result<()> {
    Ok(())
}

async fn refused(builder: RuntimeBuilder) -> String {
    let error = builder.signals(false).start().await.expect_err("it must not start");
    assert!(error.as_start().is_some(), "{error:?}");
    format!("{error:?}")
}

fn assert_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

/// No silent default for money, and all problems at once.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_configured_prints_the_lines_to_add() {
    let text = refused(RuntimeBuilder::from_env(outbox::Runtime::builder().registry([])).unwrap()).await;
    // Under `./test` the variables may be set; the registry is empty in any case.
    assert_parts(&text, &["no handler is linked", "handlers!["]);
    let text = refused(outbox::Runtime::builder().registry(handlers![crate::world::reserve_stock])).await;
    assert_parts(&text, &["2 problems", "DATABASE_URL=postgres://", "AMQP_URL=amqp://", "Broker::RabbitMq"]);
}

/// Bad input: every contradiction with its places, in one error.
#[tokio::test(flavor = "multi_thread")]
async fn contradictions_are_told_at_once_with_both_places() {
    let builder = outbox::Runtime::builder()
        .database_url("postgres://u:s3cret@127.0.0.1:5432/x")
        .broker(Broker::RabbitMq("amqp://u:s3cret@127.0.0.1:5672/%2f".into()))
        .registry(handlers![crate::world::reserve_stock, reserve_again, send_mail, narrow])
        .expect_consumers(["billing"])
        .consumer("narrow", ConsumerOptions::new().prefetch(2).concurrency(4))
        .consumer("mail", ConsumerOptions::new().queue("inventory"))
        .namespace("bad namespace")
        .lease(Duration::from_secs(10), Duration::from_secs(10));
    let text = refused(builder).await;
    assert_parts(
        &text,
        &[
            "event \"order.created\" has two handlers",
            "`reserve_again` (tests/it/tests/it/start.rs:",
            "`reserve_stock` (tests/it/tests/it/world.rs:",
            "takes `State<it::start::Mailer>`",
            "`.state(value)`",
            "consumer \"billing\" has no handler",
            "`concurrency` is 4 at the runtime's configuration and 8 at tests/it/tests/it/start.rs:",
            "`prefetch` is 2",
            "share the queue \"inventory\"",
            "\"bad namespace\"",
            "the confirm timeout (10s) is not shorter than the lease (10s)",
        ],
    );
    assert!(!text.contains("s3cret"), "{text}");
}

/// Wrong URLs are told without what they contain.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_urls_are_told_without_their_password() {
    for (database, broker, parts) in [
        (
            "postgres//u:s3cret@h/d",
            "amqp://u:s3cret@h:port/",
            vec!["DATABASE_URL: is not a URL", "AMQP_URL: is not an AMQP URL"],
        ),
        ("mysql://u:s3cret@h/d", "http://u:s3cret@h/", vec!["begins with `mysql:`", "AMQP_URL: is not an AMQP URL"]),
        ("postgres://u:s3cret@h:port/d", "amqp://u:s3cret@h:5672/", vec!["is not a PostgreSQL URL", "the vhost \"\""]),
    ] {
        let builder = outbox::Runtime::builder()
            .database_url(database)
            .broker(Broker::RabbitMq(broker.into()))
            .registry(handlers![crate::world::reserve_stock]);
        let text = refused(builder).await;
        assert!(!text.contains("s3cret"), "{text}");
        assert_parts(&text, &parts);
    }
}

/// Wrong password, database, vhost, an unreachable server: with `fail_fast` one start error that says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn with_fail_fast_an_unusable_server_is_a_start_error() {
    let world = World::new().await;
    let good = || world.runtime(handlers![crate::world::reserve_stock]).fail_fast(true);
    let port = outbox_it::guard::free_port();
    let text = refused(good().database_url(format!("postgres://u:s3cret@127.0.0.1:{port}/d"))).await;
    assert_parts(&text, &["DATABASE_URL: u@127.0.0.1:", "is the server running"]);
    assert!(!text.contains("s3cret"), "{text}");
    let mut wrong = url::Url::parse(&world.db.url()).unwrap();
    wrong.set_path("no_such_database");
    let text = refused(good().database_url(wrong.as_str())).await;
    assert_parts(&text, &["no_such_database", "create the database"]);
    let text = refused(good().broker(Broker::RabbitMq("amqp://nobody:s3cret@127.0.0.1:5672/%2f".into()))).await;
    assert_parts(&text, &["AMQP_URL: nobody@127.0.0.1:5672/%2f", "403", "check user and password"]);
    assert!(!text.contains("s3cret"), "{text}");
    let text = refused(good().broker(Broker::RabbitMq("amqp://guest:guest@127.0.0.1:5672/no_such_vhost".into()))).await;
    assert_parts(&text, &["AMQP_URL", "no_such_vhost", "check the vhost"]);
    let text = refused(good().broker(Broker::RabbitMq(format!("amqp://u:s3cret@127.0.0.1:{port}/%2f")))).await;
    assert_parts(&text, &["AMQP_URL: u@127.0.0.1:", "is RabbitMQ running"]);
}

/// Missing tables under `Migrations::Check`, and the same without `fail_fast`: it says so, keeps trying, and works as soon as they are there.
#[tokio::test(flavor = "multi_thread")]
async fn missing_tables_are_told_and_waited_for() {
    let db = TestDatabase::new().await;
    let vhost = outbox_it::TestVhost::new().await;
    let builder = || {
        crate::world::builder(db.url(), vhost.url(), handlers![crate::world::reserve_stock])
            .migrations(Migrations::Check)
    };
    let text = refused(builder().fail_fast(true)).await;
    assert_parts(&text, &["missing: 0001_outbox", "outbox::migrate(&pool)"]);

    let logs = Logs::capture();
    let runtime = builder().start().await.unwrap();
    assert!(!runtime.health().ready);
    logs.assert_present(&["the database cannot be used yet", "0001_outbox"]);
    crate::world::prepare(&db).await;
    crate::world::enqueue(&db, 0, 5).await;
    crate::world::settled(&db, 5, Duration::from_secs(20)).await;
    eventually(Duration::from_secs(5), "ready", async || runtime.health().ready).await;
    runtime.shutdown().await;
}

/// The broker kind is remembered: a runtime with another one refuses.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_remembers_its_kind_of_broker() {
    let world = World::new().await;
    world.db.execute("INSERT INTO outbox_settings VALUES ('broker', 'database')").await;
    let text = refused(world.runtime(handlers![crate::world::reserve_stock])).await;
    assert_parts(&text, &["worked with the broker `database` before", "OUTBOX_BROKER_MOVED_FROM=database"]);
}

/// The start-up table tells what runs here and where it stands.
#[tokio::test(flavor = "multi_thread")]
async fn the_start_up_table_tells_what_runs_and_where_it_stands() {
    let world = World::new().await;
    let logs = Logs::capture();
    let runtime = world.runtime(handlers![crate::world::reserve_stock]).start().await.unwrap();
    logs.assert_present(&["outbox starts", "event", "exchange", "consumer", "queue", "handler"]);
    logs.assert_present(&["order.created v1", "orders.events", "inventory", "it::world::reserve_stock", "world.rs:"]);
    runtime.shutdown().await;
}
