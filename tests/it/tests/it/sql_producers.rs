//! Producers in plain SQL: `outbox_enqueue` on PostgreSQL writes what the library writes and refuses what it refuses; on SQLite it is an INSERT.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outbox::{Draft, Enqueue, Message, handler, handlers};
use outbox_it::TestDatabase;
use serde_json::value::RawValue;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Sqlite};

use crate::matrix::place::{BrokerKind, Place};
use crate::matrix::stores::TestStore as _;
use crate::world::effect;

macro_rules! forms {
    ($($type:ident $handler:ident: $name:literal $envelope:literal $version:literal;)*) => {
        $(
            #[outbox::event(name = $name, envelope = $envelope, version = $version, exchange = "orders.events", key = id)]
            #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
            struct $type {
                id: String,
                text: String,
                amount: Box<RawValue>,
            }

            #[handler(consumer = "forms")]
            async fn $handler(event: Message<$type>, db: &mut PgConnection) -> sqlx::Result<()> {
                let of = event.metadata.occurred_at().unwrap().duration_since(UNIX_EPOCH).unwrap().as_micros();
                let told = format!(
                    "{} {} v{} {:?} {of} {:?} {} {:?} {}",
                    &event.metadata.event_id().as_str()[5..],
                    event.metadata.event_type(),
                    event.metadata.version(),
                    event.metadata.key(),
                    event.metadata.headers(),
                    event.id,
                    event.text,
                    event.amount,
                );
                effect(db, "forms", &told).await
            }
        )*

        /// Writes an event of each form by the library and by SQL, as `rust-..` and `sql-..`.
        async fn write_both(pool: &PgPool, at: SystemTime, micros: i64, round: usize) {
            $(
                let event = $type {
                    id: "ORD \"7\" é".into(),
                    text: "tab\t \"quoted\" \u{1f600} eventId \u{0}".into(),
                    amount: RawValue::from_string("199.00".into()).unwrap(),
                };
                let id = format!("{} {round}", $name);
                let options = Enqueue::new().event_id(format!("rust {id}")).occurred_at(at).header("tenant", "acme").correlation_id("c-1");
                let mut tx = pool.begin().await.unwrap();
                outbox::enqueue_all(&mut tx, [Draft::new(&event, options)]).await.unwrap();
                let returned: String = sqlx::query_scalar(
                    r#"SELECT outbox_enqueue($1, $2::json, key => $3, exchange => 'orders.events', event_id => $4, version => $5, envelope => $6,
                                             headers => '{"tenant":"acme"}', correlation_id => 'c-1', occurred_at => to_timestamp(0) + $7 * interval '1 microsecond')"#,
                )
                .bind($name)
                .bind(serde_json::to_string(&event).unwrap())
                .bind(&event.id)
                .bind(format!("sql! {id}"))
                .bind($version)
                .bind($envelope)
                .bind(micros)
                .fetch_one(&mut *tx)
                .await
                .unwrap();
                assert_eq!(returned, format!("sql! {id}"));
                tx.commit().await.unwrap();
            )*
        }
    };
}

forms! {
    Flat flat: "form.flat" "flat" 1;
    FlatTwo flat_two: "form.flat-two" "flat" 2;
    Versioned versioned: "form.versioned" "versioned" 3;
    Bare bare: "form.bare" "bare" 2;
    Cloud cloud: "form.line.cloud" "cloudevents" 4;
}

/// Every column is the same, the body byte for byte, and the handlers read the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_written_in_sql_is_the_event_that_the_library_writes() {
    let place = Place::<Postgres>::new(BrokerKind::Database, "sql").await;
    let runtime = place.start(handlers![flat, flat_two, versioned, bare, cloud]).await;
    let pool = place.pool().clone();
    let times: [i64; 4] = [1_784_109_600_000_000, 1_784_109_600_120_000, 1_784_109_600_123_456, 1_784_109_600_000_007];
    for (round, micros) in times.into_iter().enumerate() {
        write_both(&pool, UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs()), micros, round).await;
    }
    // The two ids have one length, and are made equal for the comparison.
    let row = "replace(concat_ws(' | ', aggregate_type, aggregate_id, COALESCE(sequence, -1), event_type, event_version, exchange, routing_key, envelope, payload,
                                 payload_bytes, headers, occurred_at, unroutable, max_attempts, COALESCE(max_age, '0'), on_failed, backoff_first, backoff_longest),
                       'sql! ', 'rust ')";
    let twins = format!(
        "SELECT l.row || ' <> ' || s.row FROM (SELECT event_id, {row} AS row FROM outbox_messages WHERE event_id LIKE 'rust %') AS l
         JOIN (SELECT event_id, {row} AS row FROM outbox_messages WHERE event_id LIKE 'sql! %') AS s ON l.event_id = replace(s.event_id, 'sql! ', 'rust ')"
    );
    assert_eq!(place.texts(&twins).await.len(), 20);
    let differing = place.texts(&format!("{twins} WHERE l.row <> s.row")).await;
    assert_eq!(differing, [""; 0]);
    assert_eq!(place.count("outbox_messages", "event_id LIKE 'sql! %' AND payload::text LIKE '%199.00%'").await, 20);
    place.rows_become("effects", "true", 40).await;
    let once = place.texts("SELECT order_id FROM effects GROUP BY order_id HAVING count(*) <> 2").await;
    assert_eq!(once, [""; 0], "read differently");
    assert_eq!(place.number("SELECT count(DISTINCT order_id) FROM effects").await, 20);
    runtime.shutdown().await;
}

/// The code blocks of a language in docs/producing.md.
fn blocks(language: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/producing.md");
    let text = std::fs::read_to_string(path).expect("docs/producing.md");
    let fence = format!("\n```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

/// The example of docs/producing.md: a trigger tells of each row, in the transaction that wrote it.
#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_tells_of_each_row_in_its_transaction() {
    let place = Place::<Postgres>::new(BrokerKind::Database, "sql").await;
    place.execute("CREATE TABLE orders (id text, quantity integer, tenant text)").await;
    let example = blocks("sql").into_iter().find(|block| block.contains("CREATE TRIGGER")).expect("the example");
    place.execute(&example).await;
    let runtime = place.start([Postgres::handlers().stock]).await;
    place.execute("INSERT INTO orders SELECT 'order-' || n, n, 'acme' FROM generate_series(1, 30) AS n").await;
    place.execute("BEGIN; INSERT INTO orders VALUES ('never', 1, NULL); ROLLBACK").await;
    place.settled(30).await;
    assert_eq!(
        place.count("outbox_messages", "headers = '{\"tenant\":\"acme\"}' AND aggregate_id LIKE 'order-%'").await,
        30
    );
    assert_eq!(place.count("outbox_messages", "true").await, 30);
    runtime.shutdown().await;
}

/// The statement of docs/producing.md, unordered and ordered.
#[tokio::test(flavor = "multi_thread")]
async fn an_insert_on_sqlite_is_an_event() {
    let place = Place::<Sqlite>::new(BrokerKind::Database, "sql").await;
    let runtime = place.start([Sqlite::handlers().stock]).await;
    let insert = blocks("sql").into_iter().find(|block| block.contains("randomblob")).expect("the statement");
    place.execute(&insert).await;
    place.settled(1).await;
    let ordered = insert.replace("'A-1'", "'B-1'").replace("aggregate_id,", "aggregate_id, sequence,");
    let ordered = ordered.replace("'order', key,", "'order', key, -1,");
    for _ in 0..2 {
        place.execute(&ordered).await;
    }
    // A repeated id is not counted, whatever the statement does about it.
    let same = ordered.replace("lower(hex(randomblob(16)))", "'same'").replace("'B-1'", "'C-1'");
    for ignoring in ["INSERT OR IGNORE INTO", "INSERT OR IGNORE INTO"] {
        place.execute(&same.replace("INSERT INTO", ignoring)).await;
    }
    let upsert = format!("{} WHERE true ON CONFLICT DO NOTHING", same.trim_end_matches([';', '\n']));
    place.execute(&upsert).await;
    place.execute(&upsert.replace("'same'", "'other'")).await;
    assert_eq!(
        place.texts("SELECT aggregate_id || CAST(sequence AS text) FROM outbox_messages WHERE sequence IS NOT NULL ORDER BY 1").await,
        ["B-11", "B-12", "C-11", "C-12"]
    );
    runtime.shutdown().await;
}

/// What a call is refused with: SQLSTATE and text.
async fn refused(pool: &PgPool, arguments: &str) -> (String, String) {
    let call = sqlx::query(AssertSqlSafe(format!("SELECT outbox_enqueue({arguments})"))).execute(pool).await;
    let error = call.expect_err(arguments);
    let error = error.as_database_error().unwrap_or_else(|| panic!("{arguments}: {error}"));
    (error.code().unwrap_or_default().into_owned(), error.message().to_owned())
}

/// Everything that the library refuses, all of it at once, by the names of the arguments.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_library_refuses_is_refused_by_the_name_of_its_argument() {
    let place = Place::<Postgres>::new(BrokerKind::Database, "sql").await;
    let pool = place.pool();
    let table: [(&str, &[&str]); 25] = [
        ("NULL, NULL", &["event_type is NULL", "payload is NULL"]),
        ("'order created', '[1]'", &["event_type \"order created\"", "payload is not a JSON object"]),
        ("'order..created', '{}', aggregate_type => 'a.'", &["event_type", "aggregate_type"]),
        (
            "repeat('e', 129), '{}', exchange => 'amq.topic'",
            &["event_type has 129 bytes, the limit is 128", "exchange \"amq.topic\""],
        ),
        (
            "'a', '{}', key => repeat('€', 86), event_id => repeat('i', 65)",
            &["key has 258 bytes, the limit is 255", "event_id has 65 bytes, the limit is 64"],
        ),
        (
            r"'a', '{}', key => '', event_id => E'a\nb', exchange => E'\u0085'",
            &["key is empty", "event_id \"a\\nb\" has a control character", "exchange"],
        ),
        ("'a', '{}', version => 0, envelope => 'fat'", &["version is at least 1", "envelope is one of"]),
        (
            r#"'a', '{"eventId":1,"x":{"eventType":1}}'"#,
            &["payload has a field \"eventId\"", "envelope => 'versioned'"],
        ),
        (r#"'a', '{"x":"\u0000","\u0065ventVersion":1}'"#, &["payload has a field \"eventVersion\""]),
        ("'a', '[1]'", &["payload is not a JSON object"]),
        ("'a', '{}', headers => '[1]'", &["headers is not a JSON object"]),
        (
            r#"'a', '{}', headers => '{"X-Death":1,"outbox-a":1,"traceparent":1,"":1}'"#,
            &[
                "\"X-Death\" is reserved",
                "\"outbox-a\" is reserved",
                "\"traceparent\" is reserved",
                "a key of headers is empty",
            ],
        ),
        (
            "'a', '{}', headers => jsonb_build_object(repeat('k', 256), 1)",
            &["a key of headers has 256 bytes, the limit is 255"],
        ),
        (
            r#"'a', '{}', headers => '{"n":[[[[[[[[1]]]]]]]],"big":9223372036854775808,"in":{"":1}}'"#,
            &["\"n\" is nested too deeply", "\"big\" is an integer beyond 64 bits", "\"in\" has a nested key"],
        ),
        (
            "'a', '{}', headers => jsonb_build_object('a', (SELECT jsonb_agg(1) FROM generate_series(1, 8000)))",
            &["headers would have 72"],
        ),
        ("'a', json_build_object('a', repeat('x', 16777216))", &["payload has 16777", "the limit is 16777216"]),
        (
            r#"'a', ('{"a":"' || repeat('x', 16777200) || '"}')::json"#,
            &["payload is too large", "the limit is 16777216"],
        ),
        ("'a', '{}', ordered => true", &["ordered needs key"]),
        ("'a', '{}', key => 'k', ordered => true, delay => '1 second'", &["ordered events cannot be delayed"]),
        (
            "'a', '{}', deliver_at => now(), delay => '-1 second'",
            &["deliver_at and delay are both given", "delay is negative"],
        ),
        (
            "'a', '{}', deliver_at => 'infinity', occurred_at => '0044-03-15 BC'",
            &["deliver_at is outside", "occurred_at is outside"],
        ),
        ("'a', '{}', delay => '9000 years'", &["delay leads outside"]),
        ("'a', '{}', on_failed => 'skip'", &["on_failed needs ordered"]),
        (
            "'a', '{}', unroutable => 'drop', max_attempts => 0, max_age => '0', backoff_first => '2 minutes', backoff_longest => '300 hours'",
            &[
                "unroutable is one of",
                "max_attempts is at least 1",
                "max_age is at least",
                "backoff_longest is at least",
            ],
        ),
        (
            "'a', '{}', backoff_first => '2 minutes', traceparent => '00-0', correlation_id => '', causation_id => repeat('c', 256)",
            &["backoff_first is longer", "traceparent", "correlation_id is empty", "causation_id has 256 bytes"],
        ),
    ];
    for (arguments, parts) in table {
        let (code, text) = refused(pool, arguments).await;
        assert_eq!(code, "22023", "{arguments}: {text}");
        assert!(text.starts_with("outbox_enqueue: "), "{text}");
        for part in parts {
            assert!(text.contains(part), "{part:?} is missing in: {text}");
        }
        assert!(text.len() < 3_000, "no payload in an error: {} bytes", text.len());
    }
    assert_eq!(place.count("outbox_messages", "true").await + place.count("outbox_sequences", "true").await, 0);
}

/// Defaults, policies, order, delays; NULL is the default.
#[tokio::test(flavor = "multi_thread")]
async fn order_delays_and_policies_can_be_said_in_sql() {
    let place = Place::<Postgres>::new(BrokerKind::Database, "sql").await;
    place
        .execute(
            "SELECT outbox_enqueue('order.line.added', '{}', key => NULL, exchange => NULL, event_id => NULL, version => NULL, envelope => NULL, headers => NULL,
                                   ordered => NULL, unroutable => NULL, max_attempts => NULL, max_age => NULL, on_failed => NULL, backoff_first => NULL);
             SELECT outbox_enqueue('order.added', ' { } ', event_id => 'b', version => 2, delay => '1 hour');
             SELECT outbox_enqueue('order.added', '{}', event_id => 'c', deliver_at => '2096-10-02 07:06:40.123456+00');
             SELECT outbox_enqueue('order.added', '{}', event_id => 'd', key => 'k', ordered => true, on_failed => 'skip', unroutable => 'fail', max_attempts => 7,
                                   max_age => '2 hours', backoff_first => '250 milliseconds', backoff_longest => '90 seconds');
             SELECT outbox_enqueue('order.added', '{}', event_id => 'e', key => 'k', ordered => true)",
        )
        .await;
    assert_eq!(
        place.texts("SELECT aggregate_type || ' ' || exchange || ' ' || routing_key || ' ' || (aggregate_id = event_id) || ' ' || (event_id ~ '^[0-9a-f-]{36}$') || ' ' || unroutable || max_attempts
                     FROM outbox_messages WHERE event_type = 'order.line.added'").await,
        ["order.line outbox.events order.line.added true true hold20"]
    );
    assert_eq!(place.count("outbox_messages", "event_id = 'b' AND next_attempt_at BETWEEN now() + interval '59 minutes' AND now() + interval '60 minutes'").await, 1);
    assert_eq!(
        place
            .count(
                "outbox_messages",
                "event_id = 'b' AND payload::text ~ '^{\"eventId\":\"b\",.*,\"eventVersion\":2 } $'"
            )
            .await,
        1
    );
    assert_eq!(
        place.count("outbox_messages", "event_id = 'c' AND next_attempt_at = '2096-10-02 07:06:40.123456+00'").await,
        1
    );
    assert_eq!(
        place.count("outbox_messages", "event_id = 'd' AND sequence = 1 AND on_failed = 'skip' AND unroutable = 'fail' AND max_attempts = 7 AND max_age = '2 hours'
                     AND backoff_first = 250 AND backoff_longest = 90000").await,
        1
    );
    assert_eq!(place.count("outbox_messages", "event_id = 'e' AND sequence = 2 AND on_failed = 'block'").await, 1);
    let (code, text) = refused(place.pool(), "'order.added', '{}', event_id => 'e', key => 'k', ordered => true").await;
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("23505", "outbox_enqueue: an event with the id \"e\" is in the outbox already")
    );
    assert_eq!(place.number("SELECT last_sequence FROM outbox_sequences").await, 2);
}

/// S8: the caller's `search_path` chooses the schema, call by call.
#[tokio::test(flavor = "multi_thread")]
async fn the_search_path_chooses_the_outbox() {
    let db = TestDatabase::new().await;
    for schema in ["one", "two"] {
        db.execute(&format!("CREATE SCHEMA {schema}")).await;
        let options = db.options().options([("search_path", schema)]);
        outbox::migrate(&PgPool::connect_with(options).await.unwrap()).await.unwrap();
    }
    db.execute(
        "SET search_path = one; SELECT outbox_enqueue('a', '{}', headers => '{\"x\":1}');
         SET search_path = two; SELECT outbox_enqueue('a', '{}'); SELECT outbox_enqueue('a', '{}', headers => '{\"x\":1}');
         SELECT one.outbox_enqueue('a', '{}', key => 'k', ordered => true); SET search_path = public",
    )
    .await;
    assert_eq!((db.count("one.outbox_messages", "true").await, db.count("two.outbox_messages", "true").await), (1, 3));
    let outside = sqlx::query("SELECT one.outbox_enqueue('a', '{}')").execute(db.pool()).await.unwrap_err();
    assert_eq!(outside.as_database_error().unwrap().code().as_deref(), Some("42883"), "{outside}");
}
