//! Which routing keys a binding key fits: RabbitMQ's answer is the truth, for the Rust matcher and for the SQL of the broker "database".

use std::collections::BTreeSet;
use std::iter::successors;

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Confirmation};
use outbox_it::{TestDatabase, TestVhost};
use outbox_runtime::__private::topic_matches;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

const X255: &str = text(&key(b"x", b""));
const X_AND_STAR: &str = text(&key(b"x", b".*"));
const X_AND_HASH: &str = text(&key(b"x", b".#"));
const X_AND_EMPTY: &str = text(&key(b"x", b"."));
const X_AND_Y: &str = text(&key(b"x", b".y"));
const ACCENTS: &str = text(&key("é".as_bytes(), b"x"));
const B128: &str = text(&key(b"b.", b""));
const STARS128: &str = text(&key(b"*.", b""));
const DOTS: &str = text(&key(b".", b""));
const A21: &str = "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a";
const A20_B: &str = "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.b";

/// Binding key, routing key, whether they fit.
const TABLE: &[(&str, &str, bool)] = &[
    // Without wildcards.
    ("order.created", "order.created", true),
    ("order.created", "order.Created", false),
    ("order.created", "order.created.v2", false),
    ("order.created", "order", false),
    ("order.created", "order.created.", false),
    ("order.created", "order_created", false),
    ("a", "a", true),
    ("a", "A", false),
    ("a", "", false),
    ("a..b", "a..b", true),
    ("a..b", "a.b", false),
    // No word, and empty words.
    ("", "", true),
    ("", ".", false),
    ("", "a", false),
    (".", ".", true),
    (".", "", false),
    (".", "..", false),
    ("..", "..", true),
    ("..", ".", false),
    (".a", ".a", true),
    (".a", "a", false),
    ("a.", "a.", true),
    ("a.", "a", false),
    (DOTS, DOTS, true),
    // `*` is one word.
    ("*", "a", true),
    ("*", "", false),
    ("*", ".", false),
    ("*", "a.b", false),
    ("*", "*", true),
    ("*", "#", true),
    ("*", "two words", true),
    ("*", "two\nlines", true),
    ("*", "größe", true),
    ("*.*", ".", true),
    ("*.*", "a.", true),
    ("*.*", ".a", true),
    ("*.*", "a", false),
    ("*.*", "..", false),
    ("a.*", "a.b", true),
    ("a.*", "a.", true),
    ("a.*", "a", false),
    ("a.*", "a.b.c", false),
    ("a.*", "A.b", false),
    ("*.b", "a.b", true),
    ("*.b", ".b", true),
    ("*.b", "b", false),
    ("a.*.b", "a..b", true),
    ("a.*.b", "a.x.b", true),
    ("a.*.b", "a.b", false),
    ("a.*.b", "a.x.y.b", false),
    ("*.", ".", true),
    ("*.", "a.", true),
    ("*.", "a", false),
    // `#` is any number of words.
    ("#", "", true),
    ("#", ".", true),
    ("#", "a", true),
    ("#", "a.b.c", true),
    ("#", "two\nlines", true),
    ("#", DOTS, true),
    ("#.#", "", true),
    ("#.#", "a", true),
    ("#.#", "a.b.c", true),
    ("*.#", "", false),
    ("*.#", "a", true),
    ("*.#", "a.b.c", true),
    ("#.*", "", false),
    ("#.*", ".", true),
    ("#.*", "a.b.c", true),
    ("#.*.#", "", false),
    ("#.*.#", "a", true),
    ("*.#.*", "a", false),
    ("*.#.*", ".", true),
    ("*.#.*", "a.b.c", true),
    ("a.#", "a", true),
    ("a.#", "a.", true),
    ("a.#", "a.b.c", true),
    ("a.#", "ab", false),
    ("a.#", ".a", false),
    ("a.#", "", false),
    ("#.b", "b", true),
    ("#.b", "a.b", true),
    ("#.b", "b.b", true),
    ("#.b", "ab", false),
    ("#.b", "b.", false),
    ("#.", "", false),
    ("#.", ".", true),
    ("#.", "a", false),
    ("#.", "a.", true),
    (".#", "", false),
    (".#", "a", false),
    (".#", ".a.b", true),
    ("a.#.b", "a.b", true),
    ("a.#.b", "a..b", true),
    ("a.#.b", "a.x.y.b", true),
    ("a.#.b", "a", false),
    ("a.#.b", "a.b.c", false),
    ("a.#.b.#.c", "a.b.c", true),
    ("a.#.b.#.c", "a.x.b.b.y.c", true),
    ("a.#.b.#.c", "a.c.b.c.c", true),
    ("a.#.b.#.c", "a.c.b", false),
    ("a.#.b.#.c", "a.b.c.d", false),
    ("#.a.b.#", "a.a.b", true),
    ("#.a.b.#", "b.a", false),
    ("a.*.#.c", "a.b.c", true),
    ("a.*.#.c", "a.c", false),
    // Only a whole word is a wildcard.
    ("a*", "a*", true),
    ("a*", "ab", false),
    ("a*", "a", false),
    ("*a", "*a", true),
    ("*a", "ba", false),
    ("a#", "a#", true),
    ("a#", "a.b", false),
    ("**", "**", true),
    ("**", "a", false),
    ("##", "a.b", false),
    ("*#.*", "*#.b", true),
    ("*#.*", "a.b", false),
    (" *", "a", false),
    (" *", " *", true),
    ("#\n", "a", false),
    // In a routing key nothing is a wildcard.
    ("a.b", "*.b", false),
    ("a.b", "#", false),
    ("#.b", "#", false),
    ("*.b", "#.b", true),
    // What a regular expression would read, beside a wildcard so that there is one.
    ("a.[x]", "a.[x]", true),
    ("*.[x]", "a.[x]", true),
    ("*.[x]", "a.x", false),
    ("*.[^x]", "a.y", false),
    ("*.a+b", "x.a+b", true),
    ("*.a+b", "x.aab", false),
    ("*.a?b", "x.a?b", true),
    ("*.a?b", "x.b", false),
    ("*.$", "x.$", true),
    ("*.$", "x.", false),
    ("*.^", "x.^", true),
    ("^.#", "^", true),
    ("^.#", "a", false),
    ("$.#", "$.a", true),
    (r"*.\", r"x.\", true),
    (r"*.\", r"x.\\", false),
    (r"\.#", r"\.a", true),
    (r"*.\d", r"x.\d", true),
    (r"*.\d", "x.1", false),
    (r"*.a\", r"x.a\", true),
    (r"\\.*", r"\\.x", true),
    (r"\\.*", r"\.x", false),
    ("*.(a)", "x.(a)", true),
    ("*.(a)", "x.a", false),
    ("*.(", "x.(", true),
    ("*.)", "x.)", true),
    ("*.a{2}", "x.a{2}", true),
    ("*.a{2}", "x.aa", false),
    ("#.a|b", "x.a|b", true),
    ("#.a|b", "a", false),
    ("(?i)A.*", "(?i)A.b", true),
    ("(?i)A.*", "a.b", false),
    ("***=a.*", "***=a.b", true),
    ("*.[[:alpha:]]", "x.a", false),
    ("*.-]", "x.-]", true),
    ("*.a-z", "x.b", false),
    (r"#.&\1%_'", r"&\1%_'", true),
    ("%.*", "a.b", false),
    // Letters beyond ASCII, spaces, line ends.
    ("größe.*", "größe.änderung", true),
    ("größe.*", "grösse.änderung", false),
    ("größe.*", "GRÖSSE.änderung", false),
    // The second has its accents as letters of their own.
    ("*.é", "x.\u{e9}", true),
    ("*.é", "x.e\u{301}", false),
    ("#.注文.*", "店.注文.作成", true),
    ("*.🛒", "x.🛒", true),
    // A full stop of another script ends no word.
    ("a.*", "a。b", false),
    ("*.a b", "x.a b", true),
    ("*.a b", "x.ab", false),
    ("* .a", "x.a", false),
    ("*.a\n", "x.a\n", true),
    ("*.a", "x.a\n", false),
    ("a.*", "a.\n", true),
    ("*.a", "b\nx.a", true),
    ("#.a", "b\na", false),
    // As long as a key may be.
    (X255, X255, true),
    ("*", X255, true),
    (X_AND_STAR, X_AND_Y, true),
    (X_AND_STAR, X_AND_EMPTY, false),
    (X_AND_HASH, X_AND_Y, true),
    (X_AND_HASH, X255, false),
    ("#", ACCENTS, true),
    ("*.*", ACCENTS, false),
    (ACCENTS, ACCENTS, true),
    (STARS128, B128, true),
    (STARS128, DOTS, false),
    ("*.#.b.*", B128, true),
    // Many ways to share the words. Not more of them: RabbitMQ tries them all.
    ("#.a.#.a.#.a.#.a.#.b", A21, false),
    ("#.a.#.a.#.a.#.a.#.b", A20_B, true),
    ("#.a.#.a.#.a.#.a.#.b", "a.a.a.a", false),
    ("#.a.#.a.#.a.#.a.#.b", "a.a.a.a.b", true),
];

/// `N` bytes: one text again and again, then another.
const fn key<const N: usize>(repeated: &[u8], end: &[u8]) -> [u8; N] {
    let mut key = [0; N];
    let mut i = 0;
    while i < N {
        key[i] = if i + end.len() < N { repeated[i % repeated.len()] } else { end[i + end.len() - N] };
        i += 1;
    }
    key
}

const fn text(bytes: &'static [u8; 255]) -> &'static str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("half a letter"),
    }
}

/// Pairs of a binding key and a routing key that fit.
type Fits = BTreeSet<(String, String)>;

/// Binding keys and routing keys; all of them are asked with each other.
struct Keys {
    binding: Vec<String>,
    routing: Vec<String>,
}

impl Keys {
    fn of(binding: impl IntoIterator<Item = String>, routing: impl IntoIterator<Item = String>) -> Self {
        let [binding, routing] = [binding.into_iter().collect::<BTreeSet<_>>(), routing.into_iter().collect()];
        Self { binding: Vec::from_iter(binding), routing: Vec::from_iter(routing) }
    }

    /// Those of the table.
    fn of_the_table() -> Self {
        Self::of(TABLE.iter().map(|row| row.0.to_owned()), TABLE.iter().map(|row| row.1.to_owned()))
    }

    /// Every key of few words.
    fn short() -> Self {
        Self::of(keys_of(&["", "a", "b", "*", "#"], 3), keys_of(&["", "a", "b"], 4))
    }

    /// More ways to share the words than RabbitMQ could try.
    fn many_wildcards() -> Self {
        let binding =
            [["#"; 128].join("."), ["#.a"; 63].join("."), ["#.a"; 63].join(".") + ".b", ["#.*"; 63].join(".") + ".#"];
        let windows = ["#.a.", &["*"; 100].join("."), "#.a.#.a.#.a.#.a.#.b"].map(str::to_owned);
        let routing = [["a"; 128].join("."), ["a.a.b"; 42].join("."), ["a"; 127].join(".") + ".b"];
        Self::of(binding.into_iter().chain(windows), routing)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.binding.iter().flat_map(|binding| self.routing.iter().map(|routing| (binding.as_str(), routing.as_str())))
    }

    fn matcher_says(&self) -> Fits {
        self.pairs().filter(|(b, r)| topic_matches(b, r)).map(|(b, r)| (b.to_owned(), r.to_owned())).collect()
    }

    /// A queue for each binding key, one message for each routing key, and which message is in which queue then.
    async fn rabbitmq_says(&self) -> Fits {
        let vhost = TestVhost::new().await;
        let wire = vhost.wire().await;
        wire.topic_exchange("topics").await;
        let channel = wire.channel().await;
        let mut queues = Vec::new();
        for key in &self.binding {
            let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..Default::default() };
            let queue = channel.queue_declare("".into(), options, FieldTable::default()).await.unwrap().name().clone();
            let options = QueueBindOptions::default();
            channel
                .queue_bind(queue.clone(), "topics".into(), short(key), options, FieldTable::default())
                .await
                .unwrap();
            queues.push(queue);
        }
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        for key in &self.routing {
            let options = BasicPublishOptions::default();
            let properties = BasicProperties::default();
            let confirm = channel.basic_publish("topics".into(), short(key), options, b"", properties).await.unwrap();
            assert_eq!(confirm.await.unwrap(), Confirmation::Ack(None), "{key:?}");
        }
        let mut fits = Fits::new();
        for (binding, queue) in self.binding.iter().zip(queues) {
            // A confirmed message is in its queues.
            while let Some(got) = channel.basic_get(queue.clone(), BasicGetOptions { no_ack: true }).await.unwrap() {
                let routing = got.delivery.routing_key.to_string();
                assert!(
                    fits.insert((binding.clone(), routing)),
                    "{binding:?} got {:?} twice",
                    got.delivery.routing_key
                );
            }
        }
        fits
    }

    /// The pairs that fit by the table of bindings, in a database with this setting.
    async fn postgres_says(&self, setting: &str) -> Fits {
        let db = TestDatabase::new().await;
        db.execute(&format!("ALTER DATABASE {} SET {setting}", db.name())).await;
        let mut connection = PgConnection::connect_with(&db.options()).await.unwrap();
        let migration = include_str!("../../../../outbox-runtime/migrations/postgres/0002_database_broker.sql");
        sqlx::raw_sql(migration).execute(&mut connection).await.unwrap();
        let insert =
            "INSERT INTO queue_bindings (queue, exchange, binding_key) SELECT 'q', 'topics', unnest($1::text[])";
        sqlx::query(insert).bind(&self.binding).execute(&mut connection).await.unwrap();
        let ask = "SELECT binding_key, routing_key FROM queue_bindings, unnest($1::text[]) AS messages (routing_key)
                   WHERE CASE WHEN pattern IS NULL THEN binding_key = routing_key
                         ELSE (routing_key || CASE routing_key WHEN '' THEN '' ELSE '.' END) ~ pattern END";
        let fits = sqlx::query_as(AssertSqlSafe(ask)).bind(&self.routing).fetch_all(&mut connection).await.unwrap();
        fits.into_iter().collect()
    }
}

/// Every key of up to so many of these words.
fn keys_of(words: &[&str], most: usize) -> impl Iterator<Item = String> {
    let one = words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let longer = move |keys: &Vec<String>| {
        Some(keys.iter().flat_map(|key| words.iter().map(move |word| format!("{key}.{word}"))).collect())
    };
    successors(Some(one), longer).take(most).flatten()
}

fn short(text: &str) -> ShortString {
    ShortString::try_new(text).expect("a short string")
}

#[track_caller]
fn assert_same(truth: &Fits, other: &Fits, who: &str) {
    let wrong: Vec<_> = truth.symmetric_difference(other).collect();
    assert!(wrong.is_empty(), "{who} is wrong about {} pairs: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

/// Each key of the table with each other, by the broker, the matcher and the database; and the table is right.
#[tokio::test]
async fn matcher_and_database_route_the_keys_of_the_table_as_rabbitmq_does() {
    let keys = Keys::of_the_table();
    let truth = keys.rabbitmq_says().await;
    let fits = |row: &(&str, &str, bool)| truth.contains(&(row.0.to_owned(), row.1.to_owned()));
    let wrong: Vec<_> = TABLE.iter().filter(|row| fits(row) != row.2).collect();
    assert!(wrong.is_empty(), "RabbitMQ says otherwise: {wrong:#?}");
    let pairs: BTreeSet<_> = TABLE.iter().map(|row| (row.0, row.1)).collect();
    assert_eq!(pairs.len(), TABLE.len(), "a pair is there twice");
    assert_same(&truth, &keys.matcher_says(), "the matcher");
    assert_same(&truth, &keys.postgres_says("statement_timeout = '20s'").await, "PostgreSQL");
    println!("{} rows, {} pairs, {} fit", TABLE.len(), keys.pairs().count(), truth.len());
}

#[tokio::test]
async fn matcher_and_database_route_every_short_key_as_rabbitmq_does() {
    let keys = Keys::short();
    let truth = keys.rabbitmq_says().await;
    assert_same(&truth, &keys.matcher_says(), "the matcher");
    assert_same(&truth, &keys.postgres_says("statement_timeout = '20s'").await, "PostgreSQL");
    println!("{} pairs, {} fit", keys.pairs().count(), truth.len());
}

/// The body of the SQL function is read in the session that binds.
#[tokio::test]
async fn the_database_routes_the_same_where_a_backslash_in_a_string_is_an_escape() {
    let keys = Keys::of_the_table();
    assert_same(&keys.matcher_says(), &keys.postgres_says("standard_conforming_strings = off").await, "PostgreSQL");
}

/// A binding key is no way to stop the database.
#[tokio::test]
async fn many_wildcards_against_many_words_end_soon() {
    let keys = Keys::many_wildcards();
    assert_same(&keys.matcher_says(), &keys.postgres_says("statement_timeout = '5s'").await, "PostgreSQL");
}
