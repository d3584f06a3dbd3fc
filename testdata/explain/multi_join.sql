-- A chain of joins on one key: what else must be equal becomes a condition, and each input is remembered once.
CREATE TABLE orders (order_id BIGINT, customer_id BIGINT, region STRING, amount DECIMAL(10, 2), PRIMARY KEY (order_id) NOT ENFORCED)
WITH ('connector' = 'datagen');
CREATE TABLE payments (order_id BIGINT, region STRING, paid DECIMAL(10, 2)) WITH ('connector' = 'datagen');
CREATE TABLE shipments (order_id BIGINT, carrier STRING, weight INT) WITH ('connector' = 'datagen');

EXPLAIN CHANGELOG_MODE, STATE
SELECT /*+ MULTI_JOIN(o, p, s), STATE_TTL('s' = '1 d') */ o.customer_id, p.paid, s.carrier
FROM orders AS o
LEFT JOIN payments AS p ON p.order_id = o.order_id AND p.region = o.region
JOIN shipments AS s ON s.order_id = o.order_id AND s.weight < p.paid;
