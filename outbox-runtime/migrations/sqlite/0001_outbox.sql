-- All times are integers: microseconds since 1970-01-01 00:00:00 UTC, by the clock of the machine. To read one:
-- SELECT datetime(enqueued_at / 1000000, 'unixepoch') FROM outbox_messages;

-- The outbox: events that wait for the relay, are with it, or were published.
CREATE TABLE outbox_messages (
    event_id        TEXT NOT NULL PRIMARY KEY CHECK (octet_length(event_id) BETWEEN 1 AND 64),
    aggregate_type  TEXT NOT NULL CHECK (octet_length(aggregate_type) <= 255),
    aggregate_id    TEXT NOT NULL CHECK (octet_length(aggregate_id) <= 255),
    -- The event's number within its aggregate; only events that ask for order have one.
    sequence        INTEGER NULL,
    event_type      TEXT NOT NULL CHECK (octet_length(event_type) BETWEEN 1 AND 255),
    event_version   INTEGER NOT NULL DEFAULT 1 CHECK (event_version BETWEEN 1 AND 2147483647),
    exchange        TEXT NOT NULL CHECK (octet_length(exchange) BETWEEN 1 AND 255),
    routing_key     TEXT NOT NULL CHECK (octet_length(routing_key) <= 255),
    envelope        TEXT NOT NULL DEFAULT 'flat',
    -- The bytes of the body come back as they went in.
    payload         TEXT NOT NULL CHECK (json_valid(payload)),
    payload_bytes   INTEGER NOT NULL CHECK (payload_bytes BETWEEN 0 AND 2147483647),
    headers         TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(headers)),
    occurred_at     INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    enqueued_at     INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    -- Policies travel with the row: a relay of another build behaves the same.
    unroutable      TEXT NOT NULL DEFAULT 'hold' CHECK (unroutable IN ('hold', 'fail', 'discard')),
    max_attempts    INTEGER NOT NULL DEFAULT 20 CHECK (max_attempts BETWEEN 1 AND 2147483647),
    -- Microseconds.
    max_age         INTEGER NULL,
    on_failed       TEXT NOT NULL DEFAULT 'block' CHECK (on_failed IN ('block', 'skip')),
    -- State.
    status          TEXT NOT NULL DEFAULT 'Pending' CHECK (status IN ('Pending', 'Processing', 'Published', 'Failed')),
    attempt_count   INTEGER NOT NULL DEFAULT 0 CHECK (attempt_count BETWEEN 0 AND 2147483647),
    next_attempt_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    last_error      TEXT NULL,
    locked_by       TEXT NULL,
    locked_until    INTEGER NULL,
    published_at    INTEGER NULL,
    CHECK ((status = 'Published') = (published_at IS NOT NULL)),
    CHECK ((status = 'Processing') = (locked_by IS NOT NULL)),
    CHECK ((locked_by IS NULL) = (locked_until IS NULL))
) STRICT;

CREATE UNIQUE INDEX outbox_messages_order ON outbox_messages (aggregate_type, aggregate_id, sequence) WHERE sequence IS NOT NULL;
-- The claim is a range scan here, whatever else the table holds.
CREATE INDEX outbox_messages_due ON outbox_messages (next_attempt_at, event_id) WHERE status = 'Pending';
CREATE INDEX outbox_messages_leased ON outbox_messages (locked_until) WHERE status = 'Processing';
CREATE INDEX outbox_messages_claimed ON outbox_messages (locked_by) WHERE status = 'Processing';
CREATE INDEX outbox_messages_published ON outbox_messages (published_at, event_id) WHERE status = 'Published';
-- Rows with an error that are not published: few, and an operator asks for the oldest.
CREATE INDEX outbox_messages_held ON outbox_messages (enqueued_at, status) WHERE status <> 'Published' AND last_error IS NOT NULL;

-- The inbox: one narrow row for each event that a consumer has taken a decision on.
CREATE TABLE inbox_messages (
    consumer        TEXT NOT NULL,
    event_id        TEXT NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND 64),
    state           TEXT NOT NULL CHECK (state IN ('Processed', 'Retrying', 'Dead')),
    enqueued_at     INTEGER NOT NULL,
    event_version   INTEGER NOT NULL CHECK (event_version BETWEEN -2147483648 AND 2147483647),
    fingerprint     BLOB NOT NULL,
    decided_at      INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    -- The number of the run that wrote it: the commit of that run asks for it (C1).
    run             INTEGER NULL,
    PRIMARY KEY (consumer, event_id)
) STRICT;
CREATE INDEX inbox_messages_age ON inbox_messages (consumer, enqueued_at);

-- Messages enqueued before the floor of their consumer are older than the dedup window.
CREATE TABLE inbox_floors (
    consumer        TEXT NOT NULL PRIMARY KEY,
    -- The year 1.
    floor           INTEGER NOT NULL DEFAULT -62135596800000000,
    announced_at    INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    -- Until then somebody works on a backlog that is older than the next floor.
    held_until      INTEGER NOT NULL DEFAULT -62135596800000000
) STRICT;

-- Messages that wait for another run, or for a person. What has no usable id still has a place to live.
CREATE TABLE parked_messages (
    -- A number is never given twice: a person may have noted it down.
    parked_id       INTEGER PRIMARY KEY AUTOINCREMENT,
    consumer        TEXT NOT NULL,
    event_id        TEXT NULL,
    event_type      TEXT NULL,
    body            BLOB NOT NULL,
    properties      TEXT NOT NULL CHECK (json_valid(properties)),
    status          TEXT NOT NULL CHECK (status IN ('Retrying', 'Dead')),
    reason          TEXT NOT NULL,
    error           TEXT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0 CHECK (attempts BETWEEN -2147483648 AND 2147483647),
    -- Runs alone: it never came to an end, and may have taken the process with it.
    isolated        INTEGER NOT NULL DEFAULT 0 CHECK (isolated IN (0, 1)),
    next_attempt_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    locked_by       TEXT NULL,
    locked_until    INTEGER NULL,
    enqueued_at     INTEGER NULL,
    parked_at       INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    CHECK ((locked_by IS NULL) = (locked_until IS NULL))
) STRICT;
CREATE INDEX parked_messages_due ON parked_messages (consumer, next_attempt_at, parked_id) WHERE status = 'Retrying';
-- Those that must run alone, and those that run now: few.
CREATE INDEX parked_messages_alone ON parked_messages (consumer, next_attempt_at, parked_id) WHERE status = 'Retrying' AND (isolated OR locked_by IS NOT NULL);
CREATE INDEX parked_messages_event ON parked_messages (consumer, event_id);
CREATE INDEX parked_messages_dead ON parked_messages (consumer, parked_at) WHERE status = 'Dead';

-- What the runtime remembers about this database.
CREATE TABLE outbox_settings (
    key             TEXT NOT NULL PRIMARY KEY,
    value           TEXT NOT NULL
) STRICT;

-- The broker "database": what is bound to which queue, and the messages that wait in the queues.
CREATE TABLE queue_bindings (
    queue           TEXT NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 255),
    exchange        TEXT NOT NULL CHECK (octet_length(exchange) BETWEEN 1 AND 255),
    binding_key     TEXT NOT NULL CHECK (octet_length(binding_key) <= 255),
    bound_at        INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    PRIMARY KEY (queue, exchange, binding_key)
) STRICT;
CREATE INDEX queue_bindings_exchange ON queue_bindings (exchange);

CREATE TABLE queue_messages (
    message_id      INTEGER PRIMARY KEY,
    queue           TEXT NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 255),
    event_id        TEXT NOT NULL,
    aggregate_id    TEXT NOT NULL,
    event_type      TEXT NOT NULL,
    event_version   INTEGER NOT NULL CHECK (event_version BETWEEN -2147483648 AND 2147483647),
    exchange        TEXT NOT NULL,
    routing_key     TEXT NOT NULL,
    envelope        TEXT NOT NULL,
    payload         TEXT NOT NULL,
    headers         TEXT NOT NULL,
    occurred_at     INTEGER NOT NULL,
    enqueued_at     INTEGER NOT NULL,
    -- How often it was handed to a consumer; a graceful put-back takes one back.
    deliveries      INTEGER NOT NULL DEFAULT 0 CHECK (deliveries BETWEEN 0 AND 2147483647),
    -- When a consumer may take it: at once, or, while one has it, when its lease runs out.
    available_at    INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    locked_by       TEXT NULL
) STRICT;
CREATE INDEX queue_messages_due ON queue_messages (queue, available_at, message_id);
CREATE INDEX queue_messages_locked ON queue_messages (locked_by) WHERE locked_by IS NOT NULL;
