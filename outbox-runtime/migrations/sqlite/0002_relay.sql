-- The relay: order, delays, budgets.

-- The pause after a failed attempt: the first one, doubled for each further one up to the longest; milliseconds.
ALTER TABLE outbox_messages ADD COLUMN backoff_first INTEGER NOT NULL DEFAULT 1000 CHECK (backoff_first BETWEEN 1 AND 2147483647);
ALTER TABLE outbox_messages ADD COLUMN backoff_longest INTEGER NOT NULL DEFAULT 60000 CHECK (backoff_longest BETWEEN 1 AND 2147483647);
-- How often nobody knows whether the broker got it: a lost connection, a process that died with it.
ALTER TABLE outbox_messages ADD COLUMN unknown_count INTEGER NOT NULL DEFAULT 0 CHECK (unknown_count BETWEEN 0 AND 2147483647);
-- Later events of the same key no longer wait for this one.
ALTER TABLE outbox_messages ADD COLUMN skipped INTEGER NOT NULL DEFAULT 0 CHECK (skipped IN (0, 1));

-- The last number given to each key of ordered events. Rows are kept for ever: a number that came again would be an event out of order.
CREATE TABLE outbox_sequences (
    aggregate_type  TEXT NOT NULL,
    aggregate_id    TEXT NOT NULL,
    last_sequence   INTEGER NOT NULL,
    PRIMARY KEY (aggregate_type, aggregate_id)
) STRICT, WITHOUT ROWID;

-- The line of each key: its unpublished events, in order. An event waits for those before it; one that was found waiting has the greatest
-- next_attempt_at that there is (9223372036854775807) until the one before it is published, so that it costs the claim nothing.
CREATE INDEX outbox_messages_line ON outbox_messages (aggregate_type, aggregate_id, sequence)
    WHERE sequence IS NOT NULL AND status <> 'Published' AND NOT skipped;
