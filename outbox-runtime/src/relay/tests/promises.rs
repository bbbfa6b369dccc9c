//! What must hold after each step, and in the end.

use std::collections::HashMap;

use proptest::test_runner::TestCaseError;
use sqlx::pool::PoolConnection;

use super::Mistake;
use super::history::Answer;
use super::model::Model;
use super::table::{Seen, Table};

pub(super) type Checked = Result<(), TestCaseError>;

impl<DB: Table> Model<DB> {
    /// Promise 5: a first occurrence comes after those of all earlier events of its key that had to be waited for.
    pub(super) fn arrives(&mut self, event_id: &str) -> Checked {
        let place = self.committed.iter().position(|event| event.event_id == event_id);
        let Some(place) = place else { return Err(unexpected(format!("{event_id} was never committed"))) };
        if self.arrived.insert(event_id.to_owned()) && self.committed[place].kind.is_ordered() {
            let key = self.committed[place].key;
            let before = self.committed[..place].iter().filter(|event| event.kind.is_ordered() && event.key == key);
            for event in before {
                let id = &event.event_id;
                let passed = [&self.arrived, &self.passable, &self.taken_away].iter().any(|ids| ids.contains(id));
                ensure(passed, || format!("{event_id} came before {id}, which is earlier in its line"))?;
            }
        }
        Ok(())
    }

    /// Promises 1 and 2.
    pub(super) async fn holds(&self, connection: &mut PoolConnection<DB>) -> Checked {
        let rows: HashMap<String, _> =
            DB::rows(connection).await.into_iter().map(|row| (row.event_id.clone(), row)).collect();
        for (id, row) in &rows {
            ensure(self.committed.iter().any(|event| event.event_id == *id), || format!("{id} is a ghost"))?;
            let proven = self.confirmed.contains(id) || self.discarded.contains(id);
            ensure(row.status != "Published" || proven, || format!("{id} is Published without proof"))?;
            ensure(!row.skipped || self.passable.contains(id), || format!("{id} is skipped without a reason"))?;
        }
        for event in &self.committed {
            let id = &event.event_id;
            let may_be_gone = [&self.confirmed, &self.discarded, &self.taken_away].iter().any(|ids| ids.contains(id));
            ensure(rows.contains_key(id) || may_be_gone, || format!("{id} is lost"))?;
        }
        Ok(())
    }

    /// With a broker that takes everything, all of it is published in the end, but for what is Failed and what waits for such an event.
    pub(super) async fn drain(&mut self, connection: &mut PoolConnection<DB>) -> Checked {
        self.relays = [None, None];
        DB::run(connection, DB::EXPIRE).await;
        for _ in 0..200 {
            DB::put_back_expired(connection, 1_000).await.map_err(unexpected)?;
            DB::run(connection, DB::TIME_PASSES).await;
            if self.mistake != Some(Mistake::NeverSweeps) {
                let swept = DB::release_waiting(connection, self.cursor.as_ref(), 2).await;
                self.cursor = swept.map_err(unexpected)?.1;
            }
            self.claim(connection, 0, 5, 100_000).await?;
            self.publish(0, &[Answer::Confirm])?;
            self.settle(connection, 0).await?;
            self.holds(connection).await?;
            let rows = DB::rows(connection).await;
            if rows.iter().all(|row| !self.must_go(row, &rows)) {
                return Ok(());
            }
        }
        let rows = DB::rows(connection).await;
        let left: Vec<_> = rows.iter().filter(|row| self.must_go(row, &rows)).collect();
        Err(unexpected(format!("never published: {left:#?}")))
    }

    fn must_go(&self, row: &Seen, rows: &[Seen]) -> bool {
        let known = |id: &str| self.committed.iter().position(|event| event.event_id == id);
        if row.status == "Failed" || row.status == "Published" {
            return false;
        }
        let Some(place) = known(&row.event_id) else { return true };
        let event = &self.committed[place];
        // It waits for an earlier event of its key that is Failed.
        !event.kind.is_ordered()
            || !rows.iter().any(|other| {
                let before = known(&other.event_id).filter(|other| *other < place).map(|other| &self.committed[other]);
                other.status == "Failed"
                    && !other.skipped
                    && before.is_some_and(|other| other.kind.is_ordered() && other.key == event.key)
            })
    }
}

pub(super) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(TestCaseError::fail(otherwise())) }
}

pub(super) fn unexpected(error: impl std::fmt::Display) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}
