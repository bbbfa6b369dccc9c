-- The relay: order, delays, budgets, wake-up.

ALTER TABLE outbox_messages
    -- The pause after a failed attempt: the first one, doubled for each further one up to the longest; milliseconds.
    ADD COLUMN backoff_first   integer NOT NULL DEFAULT 1000 CHECK (backoff_first >= 1),
    ADD COLUMN backoff_longest integer NOT NULL DEFAULT 60000 CHECK (backoff_longest >= 1),
    -- How often nobody knows whether the broker got it: a lost connection, a relay that died with it.
    ADD COLUMN unknown_count   integer NOT NULL DEFAULT 0,
    -- Later events of the same key no longer wait for this one.
    ADD COLUMN skipped         boolean NOT NULL DEFAULT false;

-- The last number given to each key of ordered events. A writer holds the row until its commit: the order of the numbers is the order of the
-- commits. Rows are kept for ever: a number that came again would be an event out of order.
CREATE TABLE outbox_sequences (
    aggregate_type  text COLLATE "C" NOT NULL,
    aggregate_id    text COLLATE "C" NOT NULL,
    last_sequence   bigint NOT NULL,
    PRIMARY KEY (aggregate_type, aggregate_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- The line of each key: its unpublished events, in order. An event waits for those before it; one that was found waiting has
-- next_attempt_at = 'infinity' until the one before it is published, so that it costs the claim nothing.
CREATE INDEX outbox_messages_line ON outbox_messages (aggregate_type, aggregate_id, sequence)
    WHERE sequence IS NOT NULL AND status <> 'Published' AND NOT skipped;

-- One row: until then every relay sleeps, and whoever writes an event notifies the channel. It expires by itself, so that a relay that
-- is gone costs nobody anything.
CREATE TABLE outbox_wakeup (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    asleep_until    timestamptz NOT NULL DEFAULT '-infinity',
    channel         text NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
INSERT INTO outbox_wakeup (channel) VALUES ('outbox_' || 'outbox_messages'::regclass::oid);
