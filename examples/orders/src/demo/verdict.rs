//! The comparison of the two services' tables.

use std::collections::BTreeMap;
use std::fmt;

use crate::world::World;

/// Orders by their id, with a count: of reservations, or of confirmations.
type Counts = BTreeMap<String, i64>;

/// What the tables say in the end.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// How many orders were posted.
    wanted: usize,
    /// Orders in the order service, with how often each was confirmed as reserved.
    orders: Counts,
    /// Events `order.created` that the relay has marked as published.
    published: i64,
    /// Reservations in the inventory service.
    reservations: Counts,
    /// Messages that a consumer gave up on.
    dead: i64,
    /// What was still going on when the time was over.
    unrest: Option<String>,
}

impl Verdict {
    /// Reads the tables of both services.
    pub(crate) async fn read(world: &World, wanted: usize, unrest: Option<String>) -> anyhow::Result<Self> {
        let published =
            "SELECT count(*) FROM outbox_messages WHERE event_type = 'order.created' AND status = 'Published'";
        let confirmations = "SELECT order_id, confirmations::bigint FROM orders.orders";
        let reservations = "SELECT order_id, count(*) FROM inventory.reservations GROUP BY order_id";
        let dead_orders = "SELECT count(*) FROM parked_messages WHERE consumer = 'orders' AND status = 'Dead'";
        let dead_stock = "SELECT count(*) FROM parked_messages WHERE consumer = 'inventory' AND status = 'Dead'";
        Ok(Self {
            wanted,
            orders: world.orders.pairs(confirmations).await?.into_iter().collect(),
            published: world.orders.number(published).await?,
            reservations: world.inventory.pairs(reservations).await?.into_iter().collect(),
            dead: world.orders.number(dead_orders).await? + world.inventory.number(dead_stock).await?,
            unrest,
        })
    }

    /// Orders without a reservation.
    fn lost(&self) -> Vec<&str> {
        self.orders.keys().filter(|id| !self.reservations.contains_key(*id)).map(String::as_str).collect()
    }

    /// Orders with more than one reservation.
    fn doubled(&self) -> Vec<&str> {
        self.reservations.iter().filter(|(_, count)| **count > 1).map(|(id, _)| id.as_str()).collect()
    }

    /// Orders with at least one reservation.
    fn reserved(&self) -> usize {
        self.orders.keys().filter(|id| self.reservations.contains_key(*id)).count()
    }

    /// Everything that is wrong; nothing, if the promise was kept.
    pub(crate) fn problems(&self) -> Vec<String> {
        let orders = self.orders.len();
        let unconfirmed = self.orders.iter().filter(|(_, count)| **count == 0).map(|(id, _)| id.as_str()).collect();
        let confirmed_twice = self.orders.iter().filter(|(_, count)| **count > 1).map(|(id, _)| id.as_str()).collect();
        let strangers = self.reservations.keys().filter(|id| !self.orders.contains_key(*id)).map(String::as_str);
        let mut problems = Vec::new();
        if orders != self.wanted {
            problems.push(format!("{} orders were posted, {orders} are there", self.wanted));
        }
        if usize::try_from(self.published) != Ok(orders) {
            problems.push(format!("{orders} orders, {} published events", self.published));
        }
        for (what, ids) in [
            ("orders without a reservation", self.lost()),
            ("orders with more than one reservation", self.doubled()),
            ("reservations without an order", strangers.collect()),
            ("orders that were never confirmed as reserved", unconfirmed),
            ("orders that were confirmed more than once", confirmed_twice),
        ] {
            if !ids.is_empty() {
                let some: Vec<&str> = ids.iter().take(5).copied().collect();
                problems.push(format!("{} {what}, such as {}", ids.len(), some.join(", ")));
            }
        }
        if self.dead > 0 {
            problems.push(format!("{} messages that a consumer gave up on (parked_messages)", self.dead));
        }
        problems.extend(self.unrest.clone());
        problems
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "orders={} published={} reservations={} lost={} doubled={}",
            self.orders.len(),
            self.published,
            self.reserved(),
            self.lost().len(),
            self.doubled().len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(entries: &[(&str, i64)]) -> Counts {
        entries.iter().map(|(id, count)| ((*id).to_owned(), *count)).collect()
    }

    fn fine() -> Verdict {
        Verdict {
            wanted: 2,
            orders: counts(&[("a", 1), ("b", 1)]),
            published: 2,
            reservations: counts(&[("a", 1), ("b", 1)]),
            ..Verdict::default()
        }
    }

    #[test]
    fn only_a_complete_run_has_no_problems() {
        assert_eq!(fine().problems(), Vec::<String>::new());
        assert_eq!(fine().to_string(), "orders=2 published=2 reservations=2 lost=0 doubled=0");
    }

    #[test]
    fn each_kind_of_failure_is_a_problem_and_shows_in_the_line() {
        let cases = [
            (Verdict { wanted: 3, ..fine() }, "orders=2 published=2 reservations=2 lost=0 doubled=0"),
            (Verdict { published: 1, ..fine() }, "orders=2 published=1 reservations=2 lost=0 doubled=0"),
            (
                Verdict { reservations: counts(&[("a", 1)]), ..fine() },
                "orders=2 published=2 reservations=1 lost=1 doubled=0",
            ),
            (
                Verdict { reservations: counts(&[("a", 1), ("b", 2)]), ..fine() },
                "orders=2 published=2 reservations=2 lost=0 doubled=1",
            ),
            (
                Verdict { reservations: counts(&[("a", 1), ("b", 1), ("c", 1)]), ..fine() },
                "orders=2 published=2 reservations=2 lost=0 doubled=0",
            ),
            (
                Verdict { orders: counts(&[("a", 1), ("b", 0)]), ..fine() },
                "orders=2 published=2 reservations=2 lost=0 doubled=0",
            ),
            (
                Verdict { orders: counts(&[("a", 2), ("b", 1)]), ..fine() },
                "orders=2 published=2 reservations=2 lost=0 doubled=0",
            ),
            (Verdict { dead: 1, ..fine() }, "orders=2 published=2 reservations=2 lost=0 doubled=0"),
            (
                Verdict { unrest: Some("restless".to_owned()), ..fine() },
                "orders=2 published=2 reservations=2 lost=0 doubled=0",
            ),
        ];
        for (verdict, line) in cases {
            assert_eq!(verdict.problems().len(), 1, "{:?}", verdict.problems());
            assert_eq!(verdict.to_string(), line);
        }
    }
}
