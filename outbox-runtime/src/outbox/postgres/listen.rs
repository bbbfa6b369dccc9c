//! The listener: one connection of its own, which proves again and again that it hears.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{PgPool, Postgres};
use tokio::time::Instant;

use crate::outbox::postgres::wakeup;
use crate::outbox::{Deaf, Ear, Heard, ListenFrom};
use crate::store::session::{Session, within};

/// How long connecting, and each statement, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Within this time the listener hears what is said for it.
const HEARS_WITHIN: Duration = Duration::from_secs(5);
/// How often it is tried: a link of which one end is gone looks like a quiet one.
const TRIED_EVERY: Duration = Duration::from_secs(15);
/// What begins like this is said to try a listener, and wakes nobody.
const TRIAL: &str = "trial:";

/// Listens until it cannot any more.
pub(crate) async fn listen(from: &ListenFrom<Postgres>, ear: &Ear) -> Deaf {
    match session(from, ear).await {
        Ok(deaf) => deaf,
        Err(error) => Deaf::Lost(error),
    }
}

async fn session(from: &ListenFrom<Postgres>, ear: &Ear) -> Result<Deaf, sqlx::Error> {
    let mut channels = Vec::with_capacity(ear.wants().len());
    for heard in ear.wants() {
        channels.push((channel(&from.pool, *heard).await?, *heard));
    }
    let Some((tried, _)) = channels.first().cloned() else { return Ok(Deaf::Unheard) };
    let mut listener = within(PATIENCE, connect(from.options.clone())).await?;
    within(PATIENCE, listener.listen_all(channels.iter().map(|(channel, _)| channel.as_str()))).await?;
    let mut proven = false;
    loop {
        // Said by another connection: a pooler would give back on this one what is said on it, and nothing else.
        let trial = format!("{TRIAL}{}", ulid::Ulid::new());
        say(&from.pool, &tried, &trial).await?;
        if !hear(&mut listener, &channels, ear, HEARS_WITHIN, Some(&trial)).await? {
            return Ok(if proven { Deaf::Silent } else { Deaf::Unheard });
        }
        if !proven {
            proven = true;
            ear.opened();
        }
        hear(&mut listener, &channels, ear, TRIED_EVERY, None).await?;
    }
}

/// A connection outside every pool, since it is never given back.
async fn connect(options: PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    let only = PgPoolOptions::new()
        .min_connections(0)
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .acquire_timeout(PATIENCE)
        .connect_lazy_with(options.application_name("outbox listener"));
    let mut listener = PgListener::connect_with(&only).await?;
    // A lost connection is told to the supervisor, which begins from the start.
    listener.eager_reconnect(false);
    Ok(listener)
}

/// Passes on what is heard for that long, or until `trial` is heard; whether it was.
async fn hear(
    listener: &mut PgListener,
    channels: &[(String, Heard)],
    ear: &Ear,
    time: Duration,
    trial: Option<&str>,
) -> Result<bool, sqlx::Error> {
    let until = Instant::now() + time;
    loop {
        let Ok(received) = tokio::time::timeout_at(until, listener.try_recv()).await else { return Ok(false) };
        let Some(notification) = received? else {
            let lost = std::io::Error::new(std::io::ErrorKind::ConnectionAborted, "the connection was closed");
            return Err(sqlx::Error::Io(lost));
        };
        let payload = notification.payload();
        if payload.starts_with(TRIAL) {
            if Some(payload) == trial {
                return Ok(true);
            }
        } else if payload != ear.name()
            && let Some((_, heard)) = channels.iter().find(|(channel, _)| channel == notification.channel())
        {
            ear.hear(*heard);
        }
    }
}

async fn channel(pool: &PgPool, heard: Heard) -> Result<String, sqlx::Error> {
    let mut session = Session::<Postgres>::reader(pool).await?;
    let result = within(PATIENCE, wakeup::channel(session.connection()?, heard)).await;
    session.finish(result)
}

async fn say(pool: &PgPool, channel: &str, payload: &str) -> Result<(), sqlx::Error> {
    let mut session = Session::<Postgres>::writer(pool).await?;
    let result = within(PATIENCE, wakeup::say(session.connection()?, channel, payload)).await;
    session.finish(result)
}
