INSERT INTO reservations (order_id, quantity) VALUES ($1, $2)
