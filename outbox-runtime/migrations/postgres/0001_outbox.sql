-- The outbox: events that wait for the relay, are with it, or were published.
CREATE TABLE outbox_messages (
    event_id        text COLLATE "C" PRIMARY KEY CHECK (octet_length(event_id) BETWEEN 1 AND 64),
    aggregate_type  text NOT NULL CHECK (octet_length(aggregate_type) <= 255),
    aggregate_id    text NOT NULL CHECK (octet_length(aggregate_id) <= 255),
    -- The event's number within its aggregate; only events that ask for order have one.
    sequence        bigint NULL,
    event_type      text NOT NULL CHECK (octet_length(event_type) BETWEEN 1 AND 255),
    event_version   integer NOT NULL DEFAULT 1 CHECK (event_version >= 1),
    exchange        text NOT NULL CHECK (octet_length(exchange) BETWEEN 1 AND 255),
    routing_key     text NOT NULL CHECK (octet_length(routing_key) <= 255),
    envelope        text NOT NULL DEFAULT 'flat',
    -- `json`, not `jsonb`: the bytes of the body come back as they went in.
    payload         json NOT NULL,
    payload_bytes   integer NOT NULL,
    headers         jsonb NOT NULL DEFAULT '{}',
    occurred_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    enqueued_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Policies travel with the row: a relay of another build behaves the same.
    unroutable      text NOT NULL DEFAULT 'hold' CHECK (unroutable IN ('hold', 'fail', 'discard')),
    max_attempts    integer NOT NULL DEFAULT 20 CHECK (max_attempts >= 1),
    max_age         interval NULL,
    on_failed       text NOT NULL DEFAULT 'block' CHECK (on_failed IN ('block', 'skip')),
    -- State.
    status          text NOT NULL DEFAULT 'Pending' CHECK (status IN ('Pending', 'Processing', 'Published', 'Failed')),
    attempt_count   integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error      text NULL,
    locked_by       text NULL,
    locked_until    timestamptz NULL,
    published_at    timestamptz NULL,
    CHECK ((status = 'Published') = (published_at IS NOT NULL)),
    CHECK ((status = 'Processing') = (locked_by IS NOT NULL)),
    CHECK ((locked_by IS NULL) = (locked_until IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05);

CREATE UNIQUE INDEX outbox_messages_order ON outbox_messages (aggregate_type, aggregate_id, sequence) WHERE sequence IS NOT NULL;
-- The claim is a range scan here, whatever else the table holds.
CREATE INDEX outbox_messages_due ON outbox_messages (next_attempt_at, event_id) WHERE status = 'Pending';
CREATE INDEX outbox_messages_leased ON outbox_messages (locked_until) WHERE status = 'Processing';
CREATE INDEX outbox_messages_published ON outbox_messages (published_at, event_id) WHERE status = 'Published';
-- Rows with an error that are not published: few, and an operator asks for the oldest.
CREATE INDEX outbox_messages_held ON outbox_messages (enqueued_at) WHERE status <> 'Published' AND last_error IS NOT NULL;

-- The inbox: one narrow row for each event that a consumer has taken a decision on.
CREATE TABLE inbox_messages (
    consumer        text COLLATE "C" NOT NULL,
    event_id        text COLLATE "C" NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND 64),
    state           text NOT NULL CHECK (state IN ('Processed', 'Retrying', 'Dead')),
    enqueued_at     timestamptz NOT NULL,
    event_version   integer NOT NULL,
    fingerprint     bytea NOT NULL,
    decided_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX inbox_messages_age ON inbox_messages (consumer, enqueued_at);

-- Messages enqueued before the floor of their consumer are older than the dedup window.
CREATE TABLE inbox_floors (
    consumer        text COLLATE "C" PRIMARY KEY,
    floor           timestamptz NOT NULL DEFAULT '-infinity',
    announced_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Until then an instance works on a backlog that is older than the next floor.
    held_until      timestamptz NOT NULL DEFAULT '-infinity'
);

-- Messages that wait for another run, or for a person. What has no usable id still has a place to live.
CREATE TABLE parked_messages (
    parked_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer        text COLLATE "C" NOT NULL,
    event_id        text COLLATE "C" NULL,
    event_type      text NULL,
    body            bytea NOT NULL,
    properties      json NOT NULL,
    status          text NOT NULL CHECK (status IN ('Retrying', 'Dead')),
    reason          text NOT NULL,
    error           text NULL,
    attempts        integer NOT NULL DEFAULT 0,
    -- Runs alone: it never came to an end, and may have taken the process with it.
    isolated        boolean NOT NULL DEFAULT false,
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    locked_by       text NULL,
    locked_until    timestamptz NULL,
    enqueued_at     timestamptz NULL,
    parked_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((locked_by IS NULL) = (locked_until IS NULL))
);
CREATE INDEX parked_messages_due ON parked_messages (consumer, next_attempt_at, parked_id) WHERE status = 'Retrying';
-- Those that must run alone, and those that run now: few.
CREATE INDEX parked_messages_alone ON parked_messages (consumer, next_attempt_at) WHERE status = 'Retrying' AND (isolated OR locked_by IS NOT NULL);
CREATE INDEX parked_messages_event ON parked_messages (consumer, event_id);
CREATE INDEX parked_messages_dead ON parked_messages (consumer, parked_at) WHERE status = 'Dead';

-- What the runtime remembers about this database.
CREATE TABLE outbox_settings (
    key             text PRIMARY KEY,
    value           text NOT NULL
);
