-- Rows that wait in a lookup come back to another subtask than the keys they have, after a restore: the second aggregation deals them anew.
CREATE TABLE orders (product STRING, amount BIGINT) WITH ('connector' = 'datagen');

CREATE TABLE products (product STRING, name STRING, price BIGINT) WITH ('connector' = 'filesystem', 'path' = 'products', 'format' = 'json');

CREATE TABLE sold (product STRING, price BIGINT) WITH ('connector' = 'blackhole');

EXPLAIN INSERT INTO sold
SELECT /*+ LOOKUP('table' = 'p', 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' = '10 s', 'max-attempts' = '3') */
  t.product, SUM(t.amount * p.price) AS price
FROM (SELECT product, SUM(amount) AS amount, PROCTIME() AS at FROM orders GROUP BY product) AS t
JOIN products FOR SYSTEM_TIME AS OF t.at AS p ON t.product = p.product
GROUP BY t.product;
