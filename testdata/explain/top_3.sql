-- The three largest orders of each country, into a table of the same key: [I,UA,D].
CREATE TABLE orders (
  order_id STRING, customer STRING, store STRING, country STRING, product STRING, amount DECIMAL(10, 2), ordered_at TIMESTAMP(3),
  arrived_at AS PROCTIME(), WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');

CREATE TABLE largest (country STRING, place BIGINT, order_id STRING, amount DECIMAL(10, 2), PRIMARY KEY (country, place) NOT ENFORCED) WITH ('connector' = 'blackhole');

EXPLAIN CHANGELOG_MODE INSERT INTO largest
SELECT country, place, order_id, amount
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY country ORDER BY amount DESC) AS place FROM orders)
WHERE place <= 3;
