//! Promise 5 up to the queue, on real servers: relays that are killed, publishes that fail, and no key out of order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use outbox_it::{Process, PublishFaults, Rates};

use crate::world::World;

const KEYS: usize = 200;
const EACH: usize = 50;
const RELAYS: usize = 3;

#[outbox::event(name = "account.moved", exchange = "accounts", key = account, ordered)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct AccountMoved {
    account: String,
    number: usize,
}

/// Writers of all keys at once; some transactions roll back, some write several events of a key.
async fn write(db: &outbox_it::TestDatabase) {
    let mut writers = Vec::new();
    for writer in 0..8 {
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_with(db.options()).await.unwrap();
        writers.push(tokio::spawn(async move {
            let mut keys: Vec<(usize, usize)> = (0..KEYS).filter(|key| key % 8 == writer).map(|key| (key, 0)).collect();
            let (mut turn, mut tries) = (writer, 0);
            while !keys.is_empty() {
                turn = (turn * 31 + 17) % keys.len();
                let (key, number) = keys[turn];
                let account = format!("account-{key:03}");
                let some = 1 + number % 3;
                let events: Vec<_> = (number..(number + some).min(EACH))
                    .map(|number| AccountMoved { account: account.clone(), number })
                    .collect();
                let mut tx = pool.begin().await.unwrap();
                outbox::enqueue_all(&mut tx, events.iter().map(AccountMoved::draft)).await.unwrap();
                tries += 1;
                if tries % 13 == 0 {
                    tx.rollback().await.unwrap();
                    continue;
                }
                tx.commit().await.unwrap();
                keys[turn].1 += events.len();
                keys.retain(|(_, number)| *number < EACH);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

fn relay(world: &World, broker: &PublishFaults) -> Process {
    let env = [
        ("DATABASE_URL", world.db.url()),
        ("AMQP_URL", broker.url().to_owned()),
        ("RELAY_LEASE_MS", "2000".to_owned()),
        ("RELAY_CONFIRM_MS", "1000".to_owned()),
    ];
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Process::spawn(Path::new(env!("CARGO_BIN_EXE_relay")), &[], &env)
}

/// 200 keys of 50 events, three relays, every twentieth publish fails, and each second one relay dies.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_first_occurrences_keep_the_order_of_their_key_while_relays_die_and_publishes_fail() {
    let world = World::new().await;
    let wire = world.wire().await;
    wire.topic_exchange("accounts").await;
    wire.quorum_queue("ledger").await;
    wire.bind("ledger", "accounts", "#").await;
    let mut brokers = Vec::new();
    for _ in 0..RELAYS {
        let rates = Rates { nack: 45, lose_message: 2, lose_confirm: 3 };
        brokers.push(PublishFaults::to(world.vhost.url(), rates).await);
    }
    let mut relays: Vec<_> = brokers.iter().map(|broker| relay(&world, broker)).collect();
    let writing = async {
        write(&world.db).await;
        Instant::now()
    };
    let storm = async {
        let started = Instant::now();
        let mut kills = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let left = world.db.count("outbox_messages", "status <> 'Published'").await;
            let written = world.db.count("outbox_messages", "true").await;
            if left == 0 && written == (KEYS * EACH) as i64 {
                break kills;
            }
            assert!(started.elapsed() < Duration::from_secs(200), "{left} of {written} are left after {kills} kills");
            let victim = kills % RELAYS;
            relays[victim] = relay(&world, &brokers[victim]);
            kills += 1;
        }
    };
    let (_, kills) = tokio::join!(writing, storm);
    drop(relays);

    let messages = wire.drain("ledger").await;
    let mut seen = HashSet::new();
    let mut next: BTreeMap<String, usize> = BTreeMap::new();
    let mut inversions = Vec::new();
    let mut copies: HashMap<String, usize> = HashMap::new();
    for message in &messages {
        let id = message.delivery.properties.message_id().as_ref().unwrap().to_string();
        *copies.entry(id.clone()).or_default() += 1;
        if !seen.insert(id) {
            continue;
        }
        let event: AccountMoved = serde_json::from_slice(&message.delivery.data).unwrap();
        let expected = next.entry(event.account.clone()).or_default();
        if event.number != *expected {
            inversions.push(format!("{}: {} where {expected} was expected", event.account, event.number));
        }
        *expected = event.number + 1;
    }
    let (publishes, nacked, broken) = brokers
        .iter()
        .map(PublishFaults::counts)
        .fold((0, 0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1, sum.2 + counts.2));
    println!(
        "keys={KEYS} events={} publishes={publishes} nacked={nacked} connections broken={broken} kills={kills} copies={} inversions={}",
        seen.len(),
        messages.len() - seen.len(),
        inversions.len()
    );
    assert_eq!(seen.len(), KEYS * EACH, "every event reached the queue");
    assert!(inversions.is_empty(), "{} inversions: {:#?}", inversions.len(), &inversions[..inversions.len().min(10)]);
    assert!(nacked * 100 > publishes * 3 && broken > 10 && kills > 3, "the faults hit");
}
