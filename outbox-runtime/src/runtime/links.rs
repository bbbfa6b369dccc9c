//! The connections to RabbitMQ of one runtime: one to publish on, one to consume on.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alert::Alerts;
use crate::broker::Declare;
use crate::broker::rabbitmq::connection::{Link, LinkPlan, LinkState};
use crate::broker::rabbitmq::declare::declare;
use crate::broker::topology::Topology;
use crate::error::StartProblem;
use crate::runtime::explain;
use crate::runtime::health::Board;
use crate::runtime::setup::Setup;
use crate::store::Store;

/// Those that the role needs.
#[derive(Default)]
pub(super) struct Links {
    pub(super) publisher: Option<Arc<Link>>,
    pub(super) consumer: Option<Arc<Link>>,
}

impl Links {
    pub(super) fn new<DB: Store>(setup: &Setup<DB>, topology: &Arc<Topology>, alerts: &Alerts) -> Self {
        let link = |role: &'static str, wanted: bool| {
            setup.uri.clone().filter(|_| wanted).map(|uri| {
                Link::new(LinkPlan {
                    role,
                    instance: setup.instance.clone(),
                    uri,
                    ca: setup.builder.broker_ca.clone(),
                    topology: Arc::clone(topology),
                    declare: setup.builder.declare,
                    alerts: alerts.clone(),
                })
            })
        };
        Self {
            publisher: link("publisher", setup.builder.role.relays()),
            consumer: link("consumer", setup.builder.role.consumes() && !setup.plans.is_empty()),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.publisher.iter().chain(&self.consumer)
    }

    /// One try to connect and declare, on the engine's thread, for `fail_fast`.
    pub(super) async fn look(&self, engine: &Handle, topology: &Arc<Topology>, mode: Declare) -> Vec<StartProblem> {
        let Some(link) = self.all().next().cloned() else { return Vec::new() };
        let topology = Arc::clone(topology);
        engine.spawn(async move { once(&link, &topology, mode).await }).await.unwrap_or_default()
    }

    /// Keeps the connections up on the engine's thread, and their state in `health()`.
    pub(super) fn start(
        &self,
        engine: &Handle,
        board: &Arc<Board>,
        ending: &CancellationToken,
        connections: &TaskTracker,
    ) {
        for link in self.all() {
            connections.spawn_on(Arc::clone(link).supervise(ending.clone()), engine);
            connections.spawn_on(mirror(Arc::clone(link), Arc::clone(board), ending.clone()), engine);
        }
    }
}

async fn mirror(link: Arc<Link>, board: Arc<Board>, ending: CancellationToken) {
    let mut state = link.state();
    let part = format!("broker {}", link.role());
    loop {
        let now = state.borrow_and_update().clone();
        match now {
            LinkState::Down(error) => board.down(&part, error.unwrap_or_else(|| "not connected yet".to_owned())),
            LinkState::Blocked(_, reason) => board.down(&part, format!("blocked by the broker: {reason}")),
            LinkState::Up(_) => match link.problems().first() {
                Some(problem) => board.down(&part, problem.to_string()),
                None => board.up(&part),
            },
        }
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            () = ending.cancelled() => return,
        }
    }
}

async fn once(link: &Link, topology: &Topology, mode: Declare) -> Vec<StartProblem> {
    let connection = match link.connect().await {
        Ok(connection) => connection,
        Err(error) => return vec![explain::broker(&link.shown(), &error)],
    };
    let problems = match declare(&connection, topology, mode).await {
        Ok(problems) => problems.into_iter().map(|p| StartProblem::new(p.entity, p.problem, p.cure)).collect(),
        Err(error) => vec![explain::broker(&link.shown(), &error)],
    };
    let closed = connection.close(200, lapin::types::ShortString::from("checked"));
    let _ = tokio::time::timeout(Duration::from_secs(2), closed).await;
    problems
}
