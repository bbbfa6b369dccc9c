-- The shop's own tables. Those of the library are created by the runtime when it starts.
-- Reservations and notifications have no unique key: if an event took effect twice, it would show.
CREATE TABLE IF NOT EXISTS orders (order_id TEXT PRIMARY KEY, quantity INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS reservations (order_id TEXT NOT NULL, quantity INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS notifications (order_id TEXT NOT NULL) STRICT;
