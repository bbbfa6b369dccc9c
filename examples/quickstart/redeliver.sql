-- What a relay leaves that died after it had published an event and before it could note it: the event is published once more.
UPDATE outbox_messages SET status = 'Pending', published_at = NULL
WHERE event_id = (SELECT min(event_id) FROM outbox_messages WHERE status = 'Published')
