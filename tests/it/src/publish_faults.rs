//! A proxy to RabbitMQ that makes single publishes fail: it answers some with `basic.nack` in the broker's name, and breaks the connection at
//! others, before the broker has the message or between the message and its confirm.
//!
//! It reads the frames of AMQP 0-9-1. A publish that is answered here never reaches the broker, which numbers the later ones of the channel
//! differently than the client: the numbers of its confirms are translated.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How many of 1,000 publishes fail, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// Answered with `basic.nack`.
    pub nack: u32,
    /// Lost with the connection.
    pub lose_message: u32,
    /// Delivered, and the confirm is lost with the connection.
    pub lose_confirm: u32,
}

/// A running proxy. It ends with the test's runtime.
#[derive(Debug)]
pub struct PublishFaults {
    url: String,
    counts: Arc<Counts>,
    marked: Arc<Mutex<Vec<(String, Mark)>>>,
}

/// What becomes of a message that a test has marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Breaks,
    IsSwallowed,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    publishes: AtomicUsize,
    nacked: AtomicUsize,
    broken: AtomicUsize,
}

impl PublishFaults {
    /// A proxy to the broker of that URL.
    pub async fn to(url: &str, rates: Rates) -> Self {
        let mut url = url::Url::parse(url).expect("a URL");
        let upstream = format!("{}:{}", url.host_str().unwrap_or("127.0.0.1"), url.port().unwrap_or(5672));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(listener.local_addr().unwrap().port())).unwrap();
        let counts = Arc::new(Counts::default());
        let marked = Arc::<Mutex<Vec<(String, Mark)>>>::default();
        let (shared, marks) = (Arc::clone(&counts), Arc::clone(&marked));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&upstream).await else { continue };
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(client, server, rates, Arc::clone(&marks), Arc::clone(&shared)));
            }
        });
        Self { url: url.into(), counts, marked }
    }

    /// From now on a message with this id breaks each connection that it is sent on, before the broker has it.
    pub fn break_at(&self, event_id: &str) {
        self.marked.lock().unwrap().push((event_id.to_owned(), Mark::Breaks));
    }

    /// From now on a message with this text in its properties or body gets no answer, as from a queue whose replicas have no majority.
    pub fn swallow(&self, text: &str) {
        self.marked.lock().unwrap().push((text.to_owned(), Mark::IsSwallowed));
    }

    /// Only the rates hold from now on.
    pub fn cure(&self) {
        self.marked.lock().unwrap().clear();
    }

    /// Connections that were made so far.
    pub fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// The broker's URL by way of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Publishes seen, those answered with a nack, and connections broken.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.counts.publishes), count(&self.counts.nacked), count(&self.counts.broken))
    }
}

/// One channel's numbers: the client's number of each publish that went on, by the broker's number.
#[derive(Debug, Default)]
struct Numbers {
    sent: u64,
    passed: Vec<u64>,
    /// The broker's numbers that it has not answered.
    open: BTreeSet<u64>,
}

impl Numbers {
    /// The next message of the client goes on to the broker.
    fn pass(&mut self) {
        self.passed.push(self.sent);
        self.open.insert(self.passed.len() as u64);
    }

    /// The client's numbers that an answer of the broker is for. One for all up to a number is taken apart: a message between them may have
    /// been kept from the broker.
    fn answered(&mut self, number: u64, multiple: bool) -> Vec<u64> {
        let first = if multiple { 0 } else { number };
        let answered: Vec<u64> = self.open.range(first..=number).copied().collect();
        self.open.retain(|number| !answered.contains(number));
        answered.into_iter().filter_map(|number| self.passed.get(number as usize - 1).copied()).collect()
    }
}

struct Frame {
    kind: u8,
    channel: u16,
    bytes: Vec<u8>,
}

impl Frame {
    async fn read(from: &mut (impl AsyncReadExt + Unpin)) -> std::io::Result<Self> {
        let mut head = [0_u8; 7];
        from.read_exact(&mut head).await?;
        let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        let mut bytes = head.to_vec();
        bytes.resize(7 + size + 1, 0);
        from.read_exact(&mut bytes[7..]).await?;
        Ok(Self { kind: head[0], channel: u16::from_be_bytes([head[1], head[2]]), bytes })
    }

    /// Class and method.
    fn method(&self) -> Option<(u16, u16)> {
        let payload = self.bytes.get(7..11).filter(|_| self.kind == 1)?;
        Some((u16::from_be_bytes([payload[0], payload[1]]), u16::from_be_bytes([payload[2], payload[3]])))
    }

    fn body_size(&self) -> u64 {
        u64::from_be_bytes(self.bytes[11..19].try_into().unwrap())
    }

    /// `basic.nack` of one message.
    fn nack(channel: u16, number: u64) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.extend(channel.to_be_bytes());
        bytes.extend(13_u32.to_be_bytes());
        bytes.extend([0, 60, 0, 120]);
        bytes.extend(number.to_be_bytes());
        bytes.extend([0, 0xce]);
        bytes
    }
}

const PUBLISH: (u16, u16) = (60, 40);
const ACK: (u16, u16) = (60, 80);
const NACK: (u16, u16) = (60, 120);
const CHANNEL_OPEN: (u16, u16) = (20, 10);

/// Ends when either side does; both connections go with it.
async fn serve(
    client: TcpStream,
    server: TcpStream,
    rates: Rates,
    marked: Arc<Mutex<Vec<(String, Mark)>>>,
    counts: Arc<Counts>,
) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut client_in, client_out) = client.into_split();
    let (mut server_in, mut server_out) = server.into_split();
    let client_out = Arc::new(tokio::sync::Mutex::new(client_out));
    let numbers: Arc<Mutex<HashMap<u16, Numbers>>> = Arc::default();
    let down = {
        let (client_out, numbers) = (Arc::clone(&client_out), Arc::clone(&numbers));
        async move {
            while let Ok(mut frame) = Frame::read(&mut server_in).await {
                if matches!(frame.method(), Some(ACK | NACK)) {
                    let number = u64::from_be_bytes(frame.bytes[11..19].try_into().unwrap());
                    let multiple = frame.bytes[19] & 1 == 1;
                    let of_client = match numbers.lock().unwrap().get_mut(&frame.channel) {
                        Some(numbers) => numbers.answered(number, multiple),
                        None => Vec::new(),
                    };
                    frame.bytes[19] &= !1;
                    let one = std::mem::take(&mut frame.bytes);
                    for number in of_client {
                        let mut one = one.clone();
                        one[11..19].copy_from_slice(&number.to_be_bytes());
                        frame.bytes.extend(one);
                    }
                }
                if client_out.lock().await.write_all(&frame.bytes).await.is_err() {
                    return;
                }
            }
        }
    };
    let up = async move {
        let mut hello = [0_u8; 8];
        if client_in.read_exact(&mut hello).await.is_err() || server_out.write_all(&hello).await.is_err() {
            return;
        }
        while let Ok(frame) = Frame::read(&mut client_in).await {
            match frame.method() {
                Some(CHANNEL_OPEN) => drop(numbers.lock().unwrap().insert(frame.channel, Numbers::default())),
                Some(PUBLISH) => {
                    counts.publishes.fetch_add(1, Ordering::SeqCst);
                    let content = match content(&mut client_in).await {
                        Ok(content) => content,
                        Err(_) => return,
                    };
                    let has = |text: &str| content.windows(text.len()).any(|bytes| bytes == text.as_bytes());
                    let mark = marked.lock().unwrap().iter().find(|(text, _)| has(text)).map(|(_, mark)| *mark);
                    match mark {
                        Some(Mark::Breaks) => {
                            counts.broken.fetch_add(1, Ordering::SeqCst);
                            return;
                        }
                        Some(Mark::IsSwallowed) => {
                            numbers.lock().unwrap().entry(frame.channel).or_default().sent += 1;
                            continue;
                        }
                        None => {}
                    }
                    let dice = dice();
                    let number = {
                        let mut numbers = numbers.lock().unwrap();
                        let numbers = numbers.entry(frame.channel).or_default();
                        numbers.sent += 1;
                        if dice >= rates.nack {
                            numbers.pass();
                        }
                        numbers.sent
                    };
                    if dice < rates.nack {
                        counts.nacked.fetch_add(1, Ordering::SeqCst);
                        let nack = Frame::nack(frame.channel, number);
                        if client_out.lock().await.write_all(&nack).await.is_err() {
                            return;
                        }
                        continue;
                    }
                    let broken = dice < rates.nack + rates.lose_message + rates.lose_confirm;
                    if broken {
                        counts.broken.fetch_add(1, Ordering::SeqCst);
                    }
                    if dice >= rates.nack && dice < rates.nack + rates.lose_message {
                        return;
                    }
                    if server_out.write_all(&[frame.bytes, content].concat()).await.is_err() {
                        return;
                    }
                    if broken {
                        // No confirm gets through while the broker takes the message.
                        let _silent = client_out.lock().await;
                        tokio::time::sleep(Duration::from_millis(30)).await;
                        return;
                    }
                    continue;
                }
                _ => {}
            }
            if server_out.write_all(&frame.bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

/// The header and body frames of one message. The client writes them in one go.
async fn content(from: &mut (impl AsyncReadExt + Unpin)) -> std::io::Result<Vec<u8>> {
    let header = Frame::read(from).await?;
    let mut left = header.body_size();
    let mut bytes = header.bytes;
    while left > 0 {
        let body = Frame::read(from).await?;
        left = left.saturating_sub(body.bytes.len() as u64 - 8);
        bytes.extend(body.bytes);
    }
    Ok(bytes)
}

/// 0 to 999.
fn dice() -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    (RandomState::new().hash_one(0_u8) % 1_000) as u32
}
