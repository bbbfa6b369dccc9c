//! The topology of the broker "database": bindings as rows (T2).

use std::time::Duration;

use sqlx::Pool;

use crate::alert::Alert;
use crate::backoff::Backoff;
use crate::broker::topology::{Binding, Topology};
use crate::broker::{Declare, EntityProblem};
use crate::runtime::engine::STATEMENT;
use crate::runtime::health::Board;
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::Repeated;

const PART: &str = "broker database";

/// Creates what is missing, or tells it.
pub(super) async fn declare<DB: Store>(
    pool: &Pool<DB>,
    topology: &Topology,
    mode: Declare,
) -> Result<Vec<EntityProblem>, sqlx::Error> {
    let bindings: Vec<Binding> = topology.bindings.iter().cloned().collect();
    if bindings.is_empty() || mode == Declare::Off {
        return Ok(Vec::new());
    }
    let mut session = Session::writer(pool).await?;
    let connection = session.connection()?;
    let missing = match mode {
        Declare::On => within(STATEMENT, DB::bind(connection, &bindings)).await.map(|()| Vec::new()),
        _ => within(STATEMENT, DB::unbound(connection, &bindings)).await,
    };
    Ok(session.finish(missing)?.into_iter().map(problem).collect())
}

fn problem(binding: Binding) -> EntityProblem {
    EntityProblem {
        entity: format!("binding of queue {:?} to exchange {:?} by {:?}", binding.queue, binding.exchange, binding.key),
        problem: "is not in `queue_bindings`, so its events reach no handler".to_owned(),
        cure: "start once with `Declare::On`, or insert the row".to_owned(),
    }
}

/// Declares before anything is consumed; tries until it works, or until the runtime stops.
pub(super) async fn until_declared<DB: Store>(
    pool: &Pool<DB>,
    topology: &Topology,
    mode: Declare,
    board: &Board,
    stopping: &tokio_util::sync::CancellationToken,
) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    let mut trouble = Repeated::new();
    loop {
        let error = match declare(pool, topology, mode).await {
            Ok(problems) => {
                for problem in &problems {
                    board.alerts().raise(|| Alert::BrokerEntity {
                        entity: problem.entity.clone(),
                        problem: problem.problem.clone(),
                        cure: problem.cure.clone(),
                    });
                    tracing::error!(entity = %problem.entity, problem = %problem.problem, cure = %problem.cure, "the broker \"database\" lacks something");
                }
                match problems.first() {
                    Some(problem) => board.down(PART, problem.to_string()),
                    None => board.up(PART),
                }
                return;
            }
            Err(error) => error,
        };
        board.down(PART, error.to_string());
        if let Some(count) = trouble.note(&error.to_string()) {
            tracing::warn!(%error, failures = count, "the queues could not be bound; trying again for ever");
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next()) => {}
            () = stopping.cancelled() => return,
        }
    }
}
