-- The broker "database": what is bound to which queue, and the messages that wait in the queues.

-- A binding key with wildcards as a regular expression over words that each end with a dot, as AMQP defines them: `*` is one word, `#` is
-- any number of words, also none. NULL if the key has no wildcard. The function's text is read again in every session: strings with E mean
-- the same also where standard_conforming_strings is off.
CREATE FUNCTION outbox_topic_pattern(binding_key text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
SELECT CASE WHEN string_to_array(binding_key, '.') && ARRAY['*', '#'] THEN (
    SELECT '^' || string_agg(CASE word WHEN '*' THEN E'[^.]*\\.' WHEN '#' THEN E'(?:[^.]*\\.)*'
                             ELSE regexp_replace(word, E'[][\\\\^$|?*+(){}]', E'\\\\\\&', 'g') || E'\\.' END, '' ORDER BY place) || '$'
    FROM unnest(string_to_array(binding_key, '.')) WITH ORDINALITY AS words (word, place)
) END $$;

CREATE TABLE queue_bindings (
    queue           text COLLATE "C" NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 255),
    exchange        text COLLATE "C" NOT NULL CHECK (octet_length(exchange) BETWEEN 1 AND 255),
    binding_key     text COLLATE "C" NOT NULL CHECK (octet_length(binding_key) <= 255),
    pattern         text COLLATE "C" NULL GENERATED ALWAYS AS (outbox_topic_pattern(binding_key)) STORED,
    bound_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, exchange, binding_key)
);
CREATE INDEX queue_bindings_exchange ON queue_bindings (exchange);

CREATE TABLE queue_messages (
    message_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue           text COLLATE "C" NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 255),
    event_id        text COLLATE "C" NOT NULL,
    aggregate_id    text NOT NULL,
    event_type      text NOT NULL,
    event_version   integer NOT NULL,
    exchange        text NOT NULL,
    routing_key     text NOT NULL,
    envelope        text NOT NULL,
    payload         json NOT NULL,
    headers         jsonb NOT NULL,
    occurred_at     timestamptz NOT NULL,
    enqueued_at     timestamptz NOT NULL,
    -- How often it was handed to a consumer; a graceful put-back takes one back.
    deliveries      integer NOT NULL DEFAULT 0,
    -- When a consumer may take it: at once, or, while one has it, when its lease runs out.
    available_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    locked_by       text NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX queue_messages_due ON queue_messages (queue, available_at, message_id);
CREATE INDEX queue_messages_locked ON queue_messages (locked_by) WHERE locked_by IS NOT NULL;
