-- The inventory service's own tables; see orders.sql for the schema and the lock.
SELECT pg_advisory_xact_lock(hashtext('inventory.schema'));

CREATE SCHEMA IF NOT EXISTS inventory;

-- On purpose there is no unique key on `order_id`: it would hide a doubled effect, and here nothing but the inbox prevents one.
CREATE TABLE IF NOT EXISTS inventory.reservations (
    reservation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id       text NOT NULL,
    sku            text NOT NULL,
    quantity       integer NOT NULL CHECK (quantity > 0),
    reserved_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS reservations_order ON inventory.reservations (order_id);
