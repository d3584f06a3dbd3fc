-- The turnover of each store and hour, once when the hour is over: [I].
CREATE TABLE orders (
  order_id STRING, customer STRING, store STRING, country STRING, product STRING, amount DECIMAL(10, 2), ordered_at TIMESTAMP(3),
  arrived_at AS PROCTIME(), WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');

CREATE TABLE hourly (store STRING, window_start TIMESTAMP(3), total DECIMAL(38, 2)) WITH ('connector' = 'blackhole');

EXPLAIN CHANGELOG_MODE INSERT INTO hourly
SELECT store, window_start, SUM(amount)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '1' HOUR))
GROUP BY store, window_start, window_end;
