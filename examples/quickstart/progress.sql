SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM reservations), (SELECT count(*) FROM notifications)
