-- Enqueue for producers in plain SQL: triggers, other languages, a session of psql. It writes what the library writes, and refuses what the
-- library refuses. Nothing in here names a schema: tables and functions are found by the caller's search_path, with the caller's rights.

-- What is wrong with a text that becomes a name, a key or an id; NULL if nothing is. `grammar`: 'words' joined by dots, the name of an 'entity' of
-- the broker, or any 'text'.
CREATE FUNCTION outbox_text_problem(argument text, value text, longest integer, grammar text) RETURNS text
LANGUAGE sql IMMUTABLE AS $function$
    SELECT CASE
        WHEN value = '' THEN format('%s is empty', argument)
        WHEN octet_length(value) > longest THEN format('%s has %s bytes, the limit is %s', argument, octet_length(value), longest)
        WHEN value COLLATE "C" ~ E'[\\x01-\\x1f\\x7f-\\x9f]' THEN format('%s %s has a control character', argument, to_json(left(value, 64)))
        WHEN grammar <> 'text' AND starts_with(value, 'amq.')
            THEN format('%s %s begins with "amq.", which is reserved for the broker', argument, to_json(left(value, 64)))
        WHEN grammar = 'words' AND value COLLATE "C" !~ E'^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$'
            THEN format('%s %s is not made of words of ASCII letters, digits, "-" and "_" joined by single dots', argument, to_json(left(value, 64)))
    END
$function$;

-- Everything that is wrong with headers: each must have a form in AMQP, and all of them room in one frame. Not compiled: the planner cannot know how
-- few they are, and compiling takes a thousand times as long as running.
CREATE FUNCTION outbox_header_problems(headers jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $function$
BEGIN
    RETURN (
        WITH RECURSIVE node (top, key, value, level) AS (
            SELECT each.key, each.key, each.value, 1 FROM jsonb_each(headers) AS each
            UNION ALL
            SELECT node.top, child.key, child.value, node.level + 1
            FROM node CROSS JOIN LATERAL (
                SELECT field.key, field.value
                FROM jsonb_each(CASE jsonb_typeof(node.value) WHEN 'object' THEN node.value ELSE '{}' END) AS field
                UNION ALL
                SELECT NULL, item.value
                FROM jsonb_array_elements(CASE jsonb_typeof(node.value) WHEN 'array' THEN node.value ELSE '[]' END) AS item
            ) AS child
            WHERE node.level <= 8
        ),
        told (problem) AS (
            SELECT outbox_text_problem('a key of headers', key, 255, 'text') FROM node WHERE level = 1
            UNION ALL
            SELECT format('the header %s is reserved: keys that begin with "outbox-" or "x-", "traceparent" and "tracestate" are set by the runtime or the broker', to_json(left(key, 64)))
            FROM node WHERE level = 1 AND lower(key) COLLATE "C" ~ '^(outbox-|x-|traceparent$|tracestate$)'
            UNION ALL
            SELECT format('the header %s is nested too deeply: at most 8 levels', to_json(left(top, 64))) FROM node WHERE level > 8
            UNION ALL
            SELECT format('the header %s has a nested key that is empty, longer than 255 bytes, or has a control character', to_json(left(top, 64)))
            FROM node WHERE level > 1 AND outbox_text_problem('', key, 255, 'text') IS NOT NULL
            UNION ALL
            SELECT format('the header %s is an integer beyond 64 bits, which AMQP has no type for: send it as a string', to_json(left(top, 64)))
            FROM (
                SELECT top, CASE WHEN jsonb_typeof(value) = 'number' THEN (value #>> '{}')::numeric END AS number FROM node
            ) AS numbers
            WHERE trunc(number) = number AND number NOT BETWEEN -9223372036854775808 AND 9223372036854775807
            UNION ALL
            SELECT format('headers would have %s bytes, the limit is 65536', bytes)
            FROM (
                SELECT 4 + sum(COALESCE(1 + octet_length(key), 0) + CASE jsonb_typeof(value)
                    WHEN 'null' THEN 1 WHEN 'boolean' THEN 2 WHEN 'number' THEN 9 WHEN 'string' THEN 5 + octet_length(value #>> '{}') ELSE 5
                END) AS bytes FROM node
            ) AS total
            WHERE bytes > 65536
        )
        SELECT array_agg(DISTINCT problem) FROM told WHERE problem IS NOT NULL
    );
END
$function$;

-- Writes one event in the caller's transaction and returns its id. NULL for an argument means its default. Call it with named arguments:
--
--   SELECT outbox_enqueue('order.created', json_build_object('order_id', 'A-1', 'quantity', 2), key => 'A-1', exchange => 'orders.events');
--
-- Errors: 22023 with all that is wrong, each by the name of its argument; 23505 if an event with this id is in the outbox already.
CREATE FUNCTION outbox_enqueue(
    event_type      text,
    payload         json,
    -- The id of what it happened to; without it the event's own id.
    key             text        DEFAULT NULL,
    exchange        text        DEFAULT 'outbox.events',
    -- At most 64 bytes; a new one if it is NULL.
    event_id        text        DEFAULT NULL,
    version         integer     DEFAULT 1,
    envelope        text        DEFAULT 'flat',
    headers         jsonb       DEFAULT '{}',
    -- The kind of thing it happened to; the name up to its last dot if it is NULL.
    aggregate_type  text        DEFAULT NULL,
    occurred_at     timestamptz DEFAULT NULL,
    -- Published not before then: a time, or so long after now. Not for ordered events.
    deliver_at      timestamptz DEFAULT NULL,
    delay           interval    DEFAULT NULL,
    ordered         boolean     DEFAULT false,
    unroutable      text        DEFAULT 'hold',
    max_attempts    integer     DEFAULT 20,
    max_age         interval    DEFAULT NULL,
    -- 'block' or 'skip', for ordered events.
    on_failed       text        DEFAULT NULL,
    backoff_first   interval    DEFAULT '1 second',
    backoff_longest interval    DEFAULT '60 seconds',
    correlation_id  text        DEFAULT NULL,
    causation_id    text        DEFAULT NULL,
    traceparent     text        DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $function$
#variable_conflict use_column
DECLARE
    blanks      CONSTANT text := E' \t\n\r';
    earliest    CONSTANT timestamptz := '0001-01-01 00:00:00+00';
    latest      CONSTANT timestamptz := '10000-01-01 00:00:00+00';
    aggregate_id text;
    own         text := ltrim(payload::text, blanks);
    happened    text;
    fraction    text;
    body        text;
    number      bigint;
    woken       bigint;
    problems    text[];
BEGIN
    exchange := COALESCE(exchange, 'outbox.events');
    version := COALESCE(version, 1);
    envelope := COALESCE(envelope, 'flat');
    headers := COALESCE(headers, '{}');
    ordered := COALESCE(ordered, false);
    unroutable := COALESCE(unroutable, 'hold');
    max_attempts := COALESCE(max_attempts, 20);
    backoff_first := COALESCE(backoff_first, '1 second');
    backoff_longest := COALESCE(backoff_longest, '60 seconds');
    occurred_at := COALESCE(occurred_at, clock_timestamp());
    aggregate_type := COALESCE(aggregate_type, regexp_replace(event_type, E'\\.[^.]*$', ''));
    -- A UUID of version 7: ids of one time lie side by side in the index.
    event_id := COALESCE(event_id, (
        SELECT substr(millis, 1, 8) || '-' || substr(millis, 9, 4) || '-7' || substr(gen_random_uuid()::text, 16)
        FROM (SELECT lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') AS millis) AS clock
    ));
    aggregate_id := COALESCE(key, event_id);

    problems := array_remove(ARRAY[
        CASE WHEN event_type IS NULL THEN 'event_type is NULL' END,
        CASE WHEN payload IS NULL THEN 'payload is NULL' END,
        outbox_text_problem('event_type', event_type, 128, 'words'),
        outbox_text_problem('key', key, 255, 'text'),
        outbox_text_problem('exchange', exchange, 255, 'entity'),
        outbox_text_problem('event_id', event_id, 64, 'text'),
        CASE WHEN version < 1 THEN 'version is at least 1' END,
        CASE WHEN envelope NOT IN ('flat', 'versioned', 'bare', 'cloudevents')
            THEN 'envelope is one of "flat", "versioned", "bare" and "cloudevents"' END,
        CASE WHEN jsonb_typeof(headers) <> 'object' THEN 'headers is not a JSON object' END,
        outbox_text_problem('aggregate_type', aggregate_type, 128, 'words'),
        CASE WHEN occurred_at < earliest OR occurred_at >= latest THEN 'occurred_at is outside the years 1 to 9999' END,
        CASE WHEN deliver_at < earliest OR deliver_at >= latest THEN 'deliver_at is outside the years 1 to 9999' END,
        CASE WHEN extract(epoch FROM delay) < 0 THEN 'delay is negative'
             -- Far from where the sum would be an error of its own.
             WHEN extract(epoch FROM delay) > 8e12 THEN 'delay leads outside the years 1 to 9999'
             WHEN clock_timestamp() + delay >= latest THEN 'delay leads outside the years 1 to 9999' END,
        CASE WHEN deliver_at IS NOT NULL AND delay IS NOT NULL THEN 'deliver_at and delay are both given: say one of them' END,
        CASE WHEN ordered AND (deliver_at IS NOT NULL OR delay IS NOT NULL)
            THEN 'ordered events cannot be delayed (deliver_at, delay): the later events of the key would have to wait' END,
        CASE WHEN ordered AND key IS NULL THEN 'ordered needs key: order is kept among the events of one key' END,
        CASE WHEN unroutable NOT IN ('hold', 'fail', 'discard') THEN 'unroutable is one of "hold", "fail" and "discard"' END,
        CASE WHEN max_attempts < 1 THEN 'max_attempts is at least 1' END,
        CASE WHEN extract(epoch FROM max_age) NOT BETWEEN 0.001 AND 31536000
            THEN 'max_age is at least 1 millisecond and at most 8760 hours' END,
        CASE WHEN on_failed NOT IN ('block', 'skip') THEN 'on_failed is one of "block" and "skip"' END,
        CASE WHEN on_failed IS NOT NULL AND NOT ordered THEN 'on_failed needs ordered: no other event waits for one that failed' END,
        CASE WHEN extract(epoch FROM backoff_first) NOT BETWEEN 0.001 AND 604800
            THEN 'backoff_first is at least 1 millisecond and at most 168 hours' END,
        CASE WHEN extract(epoch FROM backoff_longest) NOT BETWEEN 0.001 AND 604800
            THEN 'backoff_longest is at least 1 millisecond and at most 168 hours' END,
        CASE WHEN backoff_first > backoff_longest THEN 'backoff_first is longer than backoff_longest' END,
        outbox_text_problem('correlation_id', correlation_id, 255, 'text'),
        outbox_text_problem('causation_id', causation_id, 255, 'text'),
        CASE WHEN traceparent COLLATE "C" !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' OR traceparent COLLATE "C" ~ '^(ff|..-0{32}|..-.{32}-0{16})'
            THEN 'traceparent is not one of the W3C' END
    ], NULL);
    IF headers <> '{}' AND jsonb_typeof(headers) = 'object' THEN
        problems := problems || outbox_header_problems(headers);
    END IF;
    IF envelope = 'flat' AND payload IS NOT NULL THEN
        IF json_typeof(payload) <> 'object' THEN
            problems := problems || 'payload is not a JSON object, which the flat envelope needs: use envelope => ''versioned'''::text;
        ELSIF own ~ E'eventId|eventType|occurredAt|eventVersion|\\\\u' THEN
            -- The keys as a consumer reads them. An escaped NUL, which no text of PostgreSQL can hold, is in none of the four.
            problems := problems || (
                SELECT array_agg(DISTINCT format('payload has a field "%s", which the flat envelope needs for itself: rename it or use envelope => ''versioned''', field))
                FROM json_object_keys(replace(own, E'\\u0000', E'\\u0001')::json) AS field
                WHERE field IN ('eventId', 'eventType', 'occurredAt', 'eventVersion')
            );
        END IF;
    END IF;
    IF octet_length(own) > 16777216 THEN
        problems := problems || format('payload has %s bytes, the limit is 16777216', octet_length(own));
    END IF;
    IF cardinality(problems) > 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'outbox_enqueue: ' || array_to_string(problems, '; ');
    END IF;

    fraction := to_char(occurred_at, 'US');
    happened := to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
        || CASE WHEN fraction = '000000' THEN '' WHEN right(fraction, 3) = '000' THEN '.' || left(fraction, 3) ELSE '.' || fraction END || 'Z';
    body := CASE envelope
        WHEN 'flat' THEN '{"eventId":' || to_json(event_id)::text || ',"eventType":"' || event_type || '","occurredAt":"' || happened || '"'
            || CASE WHEN version = 1 THEN '' ELSE ',"eventVersion":' || version END
            || CASE WHEN starts_with(ltrim(substr(own, 2), blanks), '}') THEN '' ELSE ',' END || substr(own, 2)
        WHEN 'versioned' THEN '{"v":' || version || ',"data":' || own || '}'
        WHEN 'cloudevents' THEN '{"specversion":"1.0","id":' || to_json(event_id)::text || ',"source":' || to_json('/' || aggregate_type)::text
            || ',"type":"' || event_type || '","time":"' || happened || '","datacontenttype":"application/json","dataversion":"' || version
            || '","data":' || own || '}'
        ELSE own
    END;
    IF octet_length(body) > 16777216 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('outbox_enqueue: payload is too large: the body would have %s bytes, the limit is 16777216', octet_length(body));
    END IF;

    IF ordered THEN
        -- Locked until the caller's commit: the order of the numbers is the order of the commits.
        INSERT INTO outbox_sequences AS s (aggregate_type, aggregate_id, last_sequence) VALUES (aggregate_type, aggregate_id, 1)
        ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET last_sequence = s.last_sequence + 1
        RETURNING s.last_sequence INTO number;
    END IF;
    INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, event_version, exchange, routing_key, envelope,
                                 payload, payload_bytes, headers, occurred_at, unroutable, max_attempts, max_age, on_failed,
                                 backoff_first, backoff_longest, next_attempt_at, enqueued_at)
    VALUES (event_id, aggregate_type, aggregate_id, number, event_type, version, exchange, event_type, envelope, body::json, octet_length(body),
            headers || jsonb_strip_nulls(jsonb_build_object('outbox-correlation-id', correlation_id, 'outbox-causation-id', causation_id, 'traceparent', traceparent)),
            occurred_at, unroutable, max_attempts, max_age, COALESCE(on_failed, 'block'), (extract(epoch FROM backoff_first) * 1000)::integer,
            (extract(epoch FROM backoff_longest) * 1000)::integer, COALESCE(deliver_at, clock_timestamp() + COALESCE(delay, interval '0')),
            GREATEST(COALESCE(deliver_at, clock_timestamp() + COALESCE(delay, interval '0')), clock_timestamp()))
    ON CONFLICT (event_id) DO NOTHING
    -- Whoever writes while every relay sleeps wakes them.
    RETURNING (SELECT count(pg_notify(w.channel, '')) FROM outbox_wakeup AS w WHERE w.asleep_until > clock_timestamp()) INTO woken;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'unique_violation',
            MESSAGE = format('outbox_enqueue: an event with the id %s is in the outbox already', to_json(event_id));
    END IF;
    RETURN event_id;
END
$function$;
