INSERT INTO orders (order_id, quantity) VALUES ($1, $2) ON CONFLICT (order_id) DO NOTHING
