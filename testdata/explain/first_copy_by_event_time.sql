-- The earliest copy of each order: held until the watermark has passed it, then final: [I].
CREATE TABLE orders (
  order_id STRING, customer STRING, store STRING, country STRING, product STRING, amount DECIMAL(10, 2), ordered_at TIMESTAMP(3),
  arrived_at AS PROCTIME(), WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');

CREATE TABLE first_copies (order_id STRING, amount DECIMAL(10, 2)) WITH ('connector' = 'blackhole');

EXPLAIN CHANGELOG_MODE INSERT INTO first_copies
SELECT order_id, amount
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY ordered_at) AS copy FROM orders)
WHERE copy = 1;
