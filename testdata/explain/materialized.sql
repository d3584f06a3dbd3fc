-- Changes of a sink whose primary key is not the query's key: [I,UB,UA], and the sink remembers rows.
CREATE TABLE orders (
  order_id STRING, customer STRING, store STRING, country STRING, product STRING, amount DECIMAL(10, 2), ordered_at TIMESTAMP(3),
  arrived_at AS PROCTIME(), WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');

CREATE TABLE last_store (total DECIMAL(38, 2), store STRING, PRIMARY KEY (total) NOT ENFORCED) WITH ('connector' = 'blackhole');

EXPLAIN CHANGELOG_MODE INSERT INTO last_store SELECT SUM(amount), store FROM orders GROUP BY store;
