-- The same into a sink that takes retractions: [I,UB,UA].
CREATE TABLE orders (
  order_id STRING, customer STRING, store STRING, country STRING, product STRING, amount DECIMAL(10, 2), ordered_at TIMESTAMP(3),
  arrived_at AS PROCTIME(), WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');

CREATE TABLE daily (store STRING, `day` STRING, total DECIMAL(38, 2)) WITH ('connector' = 'print');

EXPLAIN CHANGELOG_MODE INSERT INTO daily
SELECT store, DATE_FORMAT(ordered_at, 'yyyy-MM-dd'), SUM(amount)
FROM orders
GROUP BY store, DATE_FORMAT(ordered_at, 'yyyy-MM-dd');
