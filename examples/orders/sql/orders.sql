-- The order service's own tables, in a schema of their own: the database may be shared with other services. The library's tables come from its own
-- migrations and stand where `search_path` points, by default in `public`.
--
-- The lock lets any number of instances start at once: `IF NOT EXISTS` alone can fail when two of them create the same thing in the same moment.
SELECT pg_advisory_xact_lock(hashtext('orders.schema'));

CREATE SCHEMA IF NOT EXISTS orders;

CREATE TABLE IF NOT EXISTS orders.orders (
    order_id      text PRIMARY KEY,
    customer_id   text NOT NULL,
    -- Without a scale: 199.00 stays 199.00.
    amount        numeric NOT NULL CHECK (amount >= 0),
    currency      text NOT NULL,
    sku           text NOT NULL,
    quantity      integer NOT NULL CHECK (quantity > 0),
    status        text NOT NULL DEFAULT 'Pending' CHECK (status IN ('Pending', 'Reserved')),
    -- How often stock was reported as reserved. Anything but 1 at the end is a lost or a doubled event.
    confirmations integer NOT NULL DEFAULT 0,
    placed_at     timestamptz NOT NULL DEFAULT now(),
    reserved_at   timestamptz NULL
);
