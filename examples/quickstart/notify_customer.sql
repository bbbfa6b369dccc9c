INSERT INTO notifications (order_id) VALUES ($1)
