//! A relay as a service of its own, for tests that kill it or weigh it. Configured by the environment as any service, and by
//! `RELAY_LEASE_MS` with `RELAY_CONFIRM_MS`, and `RELAY_POLL_MS`.
#![allow(clippy::print_stdout)]

use std::time::Duration;

fn millis(name: &str, default: u64) -> Duration {
    Duration::from_millis(std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
    let runtime = outbox::Runtime::builder()
        .from_env()?
        .role(outbox::Role::Relay)
        .registry([])
        .lease(millis("RELAY_LEASE_MS", 60_000), millis("RELAY_CONFIRM_MS", 30_000))
        .poll_interval(millis("RELAY_POLL_MS", 100))
        .start()
        .await?;
    println!("relay started");
    Ok(runtime.run().await?)
}
