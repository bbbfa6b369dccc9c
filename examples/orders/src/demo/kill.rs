//! SIGKILL at a moment when it hurts.

use std::time::{Duration, Instant};

use anyhow::bail;

use crate::chain::{InFlight, statements_end};
use crate::database::Database;
use crate::progress::say;
use crate::service::Service;
use crate::world::World;

/// How long to look for such a moment.
const SEARCH: Duration = Duration::from_secs(20);

/// Kills the service while `busy` is true of its work.
///
/// It is frozen before anybody looks: what is found is then what the kill interrupts, not what had been going on a little earlier.
///
/// The one `beside` it is frozen meanwhile: where both share a database, its relay does the other's work within milliseconds.
pub(crate) async fn while_busy(
    service: &mut Service,
    mut beside: Option<&mut Service>,
    database: &Database,
    world: &World,
    busy: fn(&InFlight) -> bool,
) -> anyhow::Result<()> {
    let start = Instant::now();
    while start.elapsed() < SEARCH {
        service.freeze()?;
        if let Some(beside) = &mut beside {
            beside.freeze()?;
        }
        statements_end(database).await?;
        let found = InFlight::now(world).await?;
        let busy = busy(&found);
        if busy {
            service.kill();
        }
        if let Some(beside) = &mut beside {
            beside.thaw()?;
        }
        if busy {
            say(format_args!("killed the {} (SIGKILL) with work in flight: {found}", service.name));
            return Ok(());
        }
        service.thaw()?;
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    bail!(
        "the {} had no work in flight within {SEARCH:?}, so killing it would prove nothing; try more orders",
        service.name
    )
}
