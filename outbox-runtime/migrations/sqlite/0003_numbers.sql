-- The number of an ordered event comes from the counter of its key, in the statement that writes the event: whoever inserts a row with the
-- sequence -1 gets the next one. A row that is not inserted (its event_id is there already) is not counted, and a rollback takes back both.
-- No clause for conflicts stands in here: that of the statement outside would take its place.
CREATE TRIGGER outbox_messages_number AFTER INSERT ON outbox_messages WHEN NEW.sequence = -1
BEGIN
    INSERT INTO outbox_sequences (aggregate_type, aggregate_id, last_sequence)
    SELECT NEW.aggregate_type, NEW.aggregate_id, 0
    WHERE NOT EXISTS (
        SELECT 1 FROM outbox_sequences WHERE aggregate_type = NEW.aggregate_type AND aggregate_id = NEW.aggregate_id
    );
    UPDATE outbox_sequences SET last_sequence = last_sequence + 1
    WHERE aggregate_type = NEW.aggregate_type AND aggregate_id = NEW.aggregate_id;
    UPDATE outbox_messages SET sequence = (
        SELECT last_sequence FROM outbox_sequences WHERE aggregate_type = NEW.aggregate_type AND aggregate_id = NEW.aggregate_id
    )
    WHERE event_id = NEW.event_id;
END;
