-- A lookup that asks side by side and again where nothing is found: unordered is taken because all orders are inserts.
CREATE TABLE orders (
  order_id STRING, product STRING, arrived_at AS PROCTIME()
) WITH ('connector' = 'datagen');

CREATE TABLE products (product STRING, name STRING, price DECIMAL(10, 2)) WITH ('connector' = 'filesystem', 'path' = 'products', 'format' = 'json');

CREATE TABLE named_orders (order_id STRING, name STRING) WITH ('connector' = 'blackhole');

EXPLAIN INSERT INTO named_orders
SELECT /*+ LOOKUP('table' = 'p', 'async' = 'true', 'output-mode' = 'allow_unordered', 'capacity' = '1000',
  'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' = '10 s', 'max-attempts' = '3') */ o.order_id, p.name
FROM orders AS o JOIN products FOR SYSTEM_TIME AS OF o.arrived_at AS p ON o.product = p.product;
