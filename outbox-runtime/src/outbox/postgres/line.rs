//! What claiming and routing share: which due rows may go, and which of them wait for an earlier one of their key (S4, R6). In one statement.
//!
//! An ordered row may go only together with every unpublished row before it: a claim takes the first rows of a key's line without a gap, those
//! that were found waiting too. A due row that cannot go is deferred, so that it is met once and not in every scan.
//!
//! The locks read the latest version of a row, everything else the statement's snapshot. A row may be older in the snapshot than under its lock;
//! then the one before it may have been published since, with a new `next_attempt_at` for this row. Such a row is left as it is: deferred, nobody
//! would ever pull it forward again. Whatever makes a row Pending or pulls it forward stamps `next_attempt_at` anew for that reason.
//! And while a relay has the one before it, that relay may settle without having seen this row: it is deferred for a moment only.
//!
//! A skipped row has left its line, and no other waits for it. It still waits for those before it, and looks for itself whether they are gone.

/// `$1` rows, `$2` bytes, `$3` the claim, `$4` the lease in milliseconds, `$5` from where the scan begins. The argument lists more columns of `outbox_messages AS o` that the
/// rest of the statement reads where the row is locked. What follows can use:
///
/// - `fitting`: rows that go, in the order of `place`, with `place`, `aggregate_type`, `aggregate_id`, `sequence` (NULL without order) and those columns;
/// - `met`: the latest time at which a row was due that was met, as `latest`;
/// - `deferred`: `event_id`, `until`, and `previous`, the id of the row before it in its line.
///
/// `MATERIALIZED` keeps a limit a limit, whatever plan the server takes (F45); `= ANY (ARRAY(..))` reads rows by the primary key, whatever
/// the server thinks how many there are. The byte budget always lets one row through.
macro_rules! line {
    ($columns:literal) => {
        concat!(
            "
due AS MATERIALIZED (
    SELECT o.event_id, o.next_attempt_at, o.payload_bytes, o.aggregate_type, o.aggregate_id,
           CASE WHEN o.skipped THEN NULL ELSE o.sequence END AS sequence, CASE WHEN o.skipped THEN o.sequence END AS skipped_at",
            $columns,
            "
    FROM outbox_messages AS o
    WHERE o.status = 'Pending' AND o.next_attempt_at <= now() AND o.next_attempt_at >= COALESCE($5, timestamptz '-infinity')
    ORDER BY o.next_attempt_at, o.event_id LIMIT $1 FOR UPDATE SKIP LOCKED
),
met AS MATERIALIZED (SELECT GREATEST(max(next_attempt_at), '0001-01-01') AS latest FROM due),
behind AS MATERIALIZED (
    SELECT due.event_id, before.event_id AS previous FROM due CROSS JOIN LATERAL (
        SELECT m.event_id FROM outbox_messages AS m
        WHERE m.aggregate_type = due.aggregate_type AND m.aggregate_id = due.aggregate_id AND m.sequence < due.skipped_at
          AND m.sequence IS NOT NULL AND m.status <> 'Published' AND NOT m.skipped
        LIMIT 1
    ) AS before WHERE due.skipped_at IS NOT NULL
),
keys AS MATERIALIZED (
    SELECT DISTINCT aggregate_type, aggregate_id FROM due WHERE sequence IS NOT NULL
),
first AS MATERIALIZED (
    SELECT l.* FROM keys CROSS JOIN LATERAL (
        SELECT event_id, row_number() OVER in_line AS rank,
               bool_and(status = 'Pending' AND (next_attempt_at <= now() OR next_attempt_at = 'infinity')) OVER in_line AS open
        FROM (
            SELECT m.event_id, m.sequence, m.status, m.next_attempt_at FROM outbox_messages AS m
            WHERE m.aggregate_type = keys.aggregate_type AND m.aggregate_id = keys.aggregate_id
              AND m.sequence IS NOT NULL AND m.status <> 'Published' AND NOT m.skipped
            ORDER BY m.sequence LIMIT LEAST(64, GREATEST(1, $1 / (SELECT count(*) FROM keys)))
        ) AS head WINDOW in_line AS (ORDER BY sequence)
    ) AS l WHERE l.open
),
locked AS MATERIALIZED (
    SELECT o.event_id, o.next_attempt_at, o.payload_bytes, o.aggregate_type, o.aggregate_id, o.sequence",
            $columns,
            "
    FROM outbox_messages AS o
    WHERE o.event_id = ANY (ARRAY(SELECT event_id FROM first)) AND o.status = 'Pending' AND NOT o.skipped
      AND (o.next_attempt_at <= now() OR o.next_attempt_at = 'infinity')
    FOR UPDATE SKIP LOCKED
),
prefix AS MATERIALIZED (
    SELECT * FROM (
        SELECT locked.*, first.rank, row_number() OVER in_line AS here,
               max(CASE WHEN next_attempt_at = 'infinity' THEN '-infinity' ELSE next_attempt_at END) OVER in_line AS turn
        FROM locked JOIN first USING (event_id)
        WINDOW in_line AS (PARTITION BY aggregate_type, aggregate_id ORDER BY sequence)
    ) AS numbered WHERE rank = here
),
placed AS MATERIALIZED (
    SELECT event_id, row_number() OVER in_turn AS place, sum(payload_bytes::bigint) OVER in_turn AS total FROM (
        SELECT event_id, payload_bytes, next_attempt_at AS turn, NULL AS aggregate_type, NULL AS aggregate_id, NULL::bigint AS sequence
        FROM due WHERE sequence IS NULL AND NOT EXISTS (SELECT FROM behind WHERE behind.event_id = due.event_id)
        UNION ALL
        SELECT event_id, payload_bytes, turn, aggregate_type, aggregate_id, sequence FROM prefix
    ) AS candidates WINDOW in_turn AS (ORDER BY turn, aggregate_type, aggregate_id, sequence, event_id)
),
fitting AS MATERIALIZED (
    SELECT o.event_id, o.aggregate_type, o.aggregate_id, o.sequence, o.payload_bytes, placed.place",
            $columns,
            "
    FROM due AS o JOIN placed USING (event_id) WHERE o.sequence IS NULL AND (total <= $2 OR place = 1) AND place <= $1
    UNION ALL
    SELECT o.event_id, o.aggregate_type, o.aggregate_id, o.sequence, o.payload_bytes, placed.place",
            $columns,
            "
    FROM prefix AS o JOIN placed USING (event_id) WHERE (total <= $2 OR place = 1) AND place <= $1
),
deferred AS MATERIALIZED (
    SELECT due.event_id, before.event_id AS previous,
           CASE WHEN before.status = 'Processing' OR before.status = 'Pending' AND before.next_attempt_at <= now()
                     AND NOT EXISTS (SELECT FROM due AS d WHERE d.event_id = before.event_id)
                     AND NOT EXISTS (SELECT FROM locked AS l WHERE l.event_id = before.event_id)
                THEN clock_timestamp() + LEAST(interval '2 seconds', GREATEST(interval '20 milliseconds',
                     (now() - GREATEST(LEAST(seen.enqueued_at, now()), now() - interval '1 minute')) / 4))
                ELSE 'infinity' END AS until
    FROM due
    CROSS JOIN LATERAL (
        SELECT m.next_attempt_at, m.enqueued_at FROM outbox_messages AS m WHERE m.event_id = due.event_id LIMIT 1
    ) AS seen
    CROSS JOIN LATERAL (
        SELECT m.event_id, m.status, m.next_attempt_at FROM outbox_messages AS m
        WHERE m.aggregate_type = due.aggregate_type AND m.aggregate_id = due.aggregate_id AND m.sequence < due.sequence
          AND m.sequence IS NOT NULL AND m.status <> 'Published' AND NOT m.skipped
        ORDER BY m.sequence DESC LIMIT 1
    ) AS before
    WHERE due.sequence IS NOT NULL AND seen.next_attempt_at = due.next_attempt_at
      AND NOT EXISTS (SELECT FROM prefix WHERE prefix.event_id = due.event_id)
    UNION ALL
    SELECT event_id, previous, clock_timestamp() + interval '2 seconds' FROM behind
)"
        )
    };
}
pub(crate) use line;
