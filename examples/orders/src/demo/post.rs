//! The customers: they post orders, and ask again until they get an answer.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::{Client, StatusCode};
use tokio::sync::watch;

/// Orders that are posted at the same time.
const CONCURRENCY: usize = 16;
/// How long a customer tries.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a customer waits for one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a customer waits before asking again.
const PAUSE: Duration = Duration::from_millis(50);

/// The id of an order by its number.
pub(crate) fn order_id(number: usize) -> String {
    format!("demo-{number:06}")
}

/// What happened beside 201.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Trouble {
    /// Requests that got no answer, or 5xx.
    pub(crate) unanswered: usize,
    /// Orders that had been placed by a request whose answer was lost.
    pub(crate) placed_before: usize,
}

/// Posts the orders `0..orders` to wherever the service is at the moment; `accepted` counts those that were answered.
pub(crate) async fn all(
    orders: usize,
    service: &watch::Receiver<String>,
    accepted: &watch::Sender<usize>,
) -> anyhow::Result<Trouble> {
    let client = Client::builder().timeout(ANSWER).no_proxy().build()?;
    stream::iter(0..orders)
        .map(|number| one(&client, number, service))
        .buffer_unordered(CONCURRENCY)
        .try_fold(Trouble::default(), async |sum, order| {
            accepted.send_modify(|accepted| *accepted += 1);
            Ok(Trouble {
                unanswered: sum.unanswered + order.unanswered,
                placed_before: sum.placed_before + order.placed_before,
            })
        })
        .await
}

/// The order's id is ours, so asking again after a lost answer cannot place it twice.
async fn one(client: &Client, number: usize, service: &watch::Receiver<String>) -> anyhow::Result<Trouble> {
    let start = Instant::now();
    let mut trouble = Trouble::default();
    while start.elapsed() < PATIENCE {
        let url = format!("{}/orders", *service.borrow());
        let request = client.post(url).header("content-type", "application/json").body(body(number));
        match request.send().await {
            Ok(answer) if answer.status() == StatusCode::CREATED => return Ok(trouble),
            Ok(answer) if answer.status() == StatusCode::OK => {
                trouble.placed_before = 1;
                return Ok(trouble);
            }
            Ok(answer) if !answer.status().is_server_error() => {
                let status = answer.status();
                bail!("order {number} was refused: {status} {}", answer.text().await.unwrap_or_default());
            }
            Ok(_) | Err(_) => trouble.unanswered += 1,
        }
        tokio::time::sleep(PAUSE).await;
    }
    bail!("order {number} got no answer within {PATIENCE:?}")
}

/// Written by hand: an amount has two decimals, also when they are zero.
fn body(number: usize) -> String {
    format!(
        r#"{{"orderId":"{}","customerId":"C{}","amount":{}.{:02},"currency":"CNY","sku":"SKU-{}","quantity":{}}}"#,
        order_id(number),
        10_000 + number % 97,
        10 + number % 500,
        number % 100,
        number % 13,
        1 + number % 3,
    )
}

/// Whether the service at this address says that all of it is up.
pub(crate) async fn is_ready(client: &Client, service: &str) -> bool {
    let answer = client.get(format!("{service}/health")).timeout(ANSWER).send().await;
    answer.is_ok_and(|answer| answer.status().is_success())
}

/// What `GET /orders/{id}` answers.
pub(crate) async fn get(client: &Client, service: &str, number: usize) -> anyhow::Result<serde_json::Value> {
    let answer = client.get(format!("{service}/orders/{}", order_id(number))).timeout(ANSWER).send().await;
    answer.context("GET of an order")?.error_for_status()?.json().await.context("the answer to GET of an order")
}
