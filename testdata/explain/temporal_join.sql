-- Orders with the price that was valid when they were placed: the versions come as [I,UA,D], what comes out is [I].
CREATE TABLE orders (
  order_id STRING, customer STRING, store STRING, country STRING, product STRING, amount DECIMAL(10, 2), ordered_at TIMESTAMP(3),
  arrived_at AS PROCTIME(), WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');

CREATE TABLE prices (
  product STRING, price DECIMAL(10, 2), priced_at TIMESTAMP(3), WATERMARK FOR priced_at AS priced_at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');

CREATE VIEW latest_prices AS
SELECT product, price, priced_at
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY priced_at DESC) AS version FROM prices)
WHERE version = 1;

CREATE TABLE priced_orders (order_id STRING, amount DECIMAL(10, 2), price DECIMAL(10, 2)) WITH ('connector' = 'blackhole');

EXPLAIN CHANGELOG_MODE INSERT INTO priced_orders
SELECT o.order_id, o.amount, p.price
FROM orders AS o JOIN latest_prices FOR SYSTEM_TIME AS OF o.ordered_at AS p ON o.product = p.product;
