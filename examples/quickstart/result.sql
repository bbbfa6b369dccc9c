SELECT (SELECT count(*) FROM orders),
       (SELECT count(*) FROM reservations),
       (SELECT count(*) FROM orders WHERE order_id NOT IN (SELECT order_id FROM reservations)
                                       OR order_id NOT IN (SELECT order_id FROM notifications)),
       (SELECT count(*) - count(DISTINCT order_id) FROM reservations)
         + (SELECT count(*) - count(DISTINCT order_id) FROM notifications)
