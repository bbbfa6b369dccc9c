//! A TCP proxy between the code under test and a server, whose network can be broken at run time.
//!
//! It runs on a thread of its own, so it goes on while a test's runtime is busy or blocked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};

/// Which way of a connection a mode is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Both.
    Both,
}

/// What the network does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes.
    Pass,
    /// Bytes vanish and no FIN or RST is sent. New connections are accepted and answered by nobody.
    /// A connection that lost bytes stays dead after the network heals, as behind a router that forgot it.
    BlackHole(Way),
    /// Nothing is read: senders fill their buffers and wait. After the network heals everything arrives, complete.
    Stall(Way),
    /// Each piece of data is held for this long, each way: a round trip takes twice as long.
    Delay(Duration),
    /// The port is closed: connecting is refused. Open connections live on.
    Refuse,
}

impl Mode {
    fn swallows(self, way: Way) -> bool {
        matches!(self, Self::BlackHole(w) if w == Way::Both || w == way)
    }

    fn stalls(self, way: Way) -> bool {
        matches!(self, Self::Stall(w) if w == Way::Both || w == way)
    }
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicUsize,
    open: AtomicUsize,
    to_server: AtomicUsize,
    to_client: AtomicUsize,
}

/// A running proxy; its connections are closed when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    resets: watch::Sender<u64>,
    counters: Arc<Counters>,
    thread: Option<(oneshot::Sender<()>, std::thread::JoinHandle<()>)>,
}

impl Proxy {
    /// A proxy in mode `Pass` to `upstream` (`host:port`).
    pub async fn to(upstream: &str) -> Self {
        let (mode, resets) = (watch::Sender::new(Mode::Pass), watch::Sender::new(0));
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = oneshot::channel();
        let (ready, address) = oneshot::channel();
        let shared = Shared {
            upstream: upstream.to_owned(),
            mode: mode.subscribe(),
            resets: resets.subscribe(),
            counters: Arc::clone(&counters),
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let _ = ready.send(listener.local_addr().unwrap());
                tokio::select! {
                    () = accept(listener, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address: address.await.unwrap(), mode, resets, counters, thread: Some((stop, thread)) }
    }

    /// A proxy to the server of an AMQP or PostgreSQL URL, and that URL by way of the proxy.
    pub async fn for_url(url: &str) -> (Self, String) {
        let mut url = url::Url::parse(url).expect("a URL");
        let default = if url.scheme().starts_with("amqp") { 5672 } else { 5432 };
        let host = url.host_str().filter(|host| !host.is_empty()).unwrap_or("127.0.0.1");
        let proxy = Self::to(&format!("{host}:{}", url.port().unwrap_or(default))).await;
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(proxy.address.port())).unwrap();
        (proxy, url.into())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what the network does, for open and new connections.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Resets (RST) every connection that is open now.
    pub fn reset_all(&self) {
        self.resets.send_modify(|generation| *generation += 1);
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.counters.accepted.load(Ordering::SeqCst)
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.counters.open.load(Ordering::SeqCst)
    }

    /// Bytes that passed so far: to the server, to the client.
    pub fn bytes(&self) -> (usize, usize) {
        (self.counters.to_server.load(Ordering::SeqCst), self.counters.to_client.load(Ordering::SeqCst))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

#[derive(Debug, Clone)]
struct Shared {
    upstream: String,
    mode: watch::Receiver<Mode>,
    resets: watch::Receiver<u64>,
    counters: Arc<Counters>,
}

async fn accept(listener: TcpListener, shared: Shared) {
    let address = listener.local_addr().unwrap();
    let mut listener = Some(listener);
    let mut mode = shared.mode.clone();
    loop {
        let refuse = *mode.borrow_and_update() == Mode::Refuse;
        if refuse {
            listener = None;
        } else if listener.is_none() {
            listener = Some(listen_again(address).await);
        }
        let incoming = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = mode.changed() => if changed.is_err() { return },
            connection = incoming => if let Ok((client, _)) = connection {
                tokio::spawn(serve(client, shared.clone()));
            }
        }
    }
}

async fn listen_again(address: SocketAddr) -> TcpListener {
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        let _ = socket.set_reuseaddr(true);
        if let Ok(listener) = socket.bind(address).and_then(|()| socket.listen(128)) {
            return listener;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn serve(mut client: TcpStream, shared: Shared) {
    shared.counters.accepted.fetch_add(1, Ordering::SeqCst);
    shared.counters.open.fetch_add(1, Ordering::SeqCst);
    let mut resets = shared.resets.clone();
    resets.borrow_and_update();
    // In a black hole nobody answers a new connection, and it stays dead.
    let dead = matches!(*shared.mode.borrow(), Mode::BlackHole(_));
    let mut server = if dead { None } else { TcpStream::connect(&shared.upstream).await.ok() };
    let passing = async {
        match &mut server {
            Some(server) => relay(&mut client, server, &shared).await,
            None if dead => std::future::pending().await,
            None => {}
        }
    };
    let reset = tokio::select! {
        () = passing => false,
        _ = resets.changed() => true,
    };
    if reset {
        let _ = client.set_zero_linger();
        let _ = server.as_ref().map(TcpStream::set_zero_linger);
    }
    drop((client, server));
    shared.counters.open.fetch_sub(1, Ordering::SeqCst);
}

async fn relay(client: &mut TcpStream, server: &mut TcpStream, shared: &Shared) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let dead = watch::Sender::new(false);
    // Borrowed halves: an owned one would send a FIN when a reset drops it.
    let ((client_in, client_out), (server_in, server_out)) = (client.split(), server.split());
    let up = pump(client_in, server_out, Way::ToServer, shared, &dead);
    let down = pump(server_in, client_out, Way::ToClient, shared, &dead);
    tokio::join!(up, down);
}

async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, way: Way, shared: &Shared, dead: &watch::Sender<bool>) {
    let mut mode = shared.mode.clone();
    let passed = if way == Way::ToServer { &shared.counters.to_server } else { &shared.counters.to_client };
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let _ = mode.wait_for(|mode| !mode.stalls(way)).await;
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            // The mode may have become a stall: look again before anything is read.
            _ = mode.changed() => continue,
        };
        let now = *mode.borrow_and_update();
        if now.swallows(way) {
            dead.send_replace(true);
        }
        if *dead.borrow() {
            // Neither data nor the end of it gets through any more.
            match read {
                Ok(n) if n > 0 => continue,
                _ => return std::future::pending().await,
            }
        }
        let Ok(n @ 1..) = read else { break };
        if let Mode::Delay(latency) = now {
            tokio::time::sleep(latency).await;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            break;
        }
        passed.fetch_add(n, Ordering::SeqCst);
    }
    let _ = to.shutdown().await;
}
