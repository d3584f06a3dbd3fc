-- What updating operators keep, and where nothing bounds it.
CREATE TABLE orders (
  order_id STRING, customer STRING, country STRING, product STRING, amount DECIMAL(10, 2), ordered_at TIMESTAMP(3),
  arrived_at AS PROCTIME(), WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');
CREATE TABLE payments (
  order_id STRING, paid DECIMAL(10, 2), paid_at TIMESTAMP(3), WATERMARK FOR paid_at AS paid_at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');
CREATE TABLE prices (product STRING, price DECIMAL(10, 2), priced_at TIMESTAMP(3), WATERMARK FOR priced_at AS priced_at) WITH ('connector' = 'datagen');

CREATE VIEW first_copies AS
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived_at) AS rn FROM orders) WHERE rn = 1;
CREATE VIEW current_prices AS
SELECT product, price, priced_at FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY priced_at DESC) AS rn FROM prices) WHERE rn = 1;

CREATE TABLE a (customer STRING, orders BIGINT, products BIGINT, PRIMARY KEY (customer) NOT ENFORCED) WITH ('connector' = 'blackhole');
CREATE TABLE b (order_id STRING, amount DECIMAL(10, 2), paid DECIMAL(10, 2)) WITH ('connector' = 'blackhole');
CREATE TABLE c (country STRING, customer STRING, total DECIMAL(38, 2)) WITH ('connector' = 'blackhole');
CREATE TABLE d (order_id STRING, price DECIMAL(10, 2)) WITH ('connector' = 'blackhole');
CREATE TABLE e (country STRING, total DECIMAL(38, 2), PRIMARY KEY (country) NOT ENFORCED) WITH ('connector' = 'blackhole');
CREATE TABLE f (customer STRING, spent DECIMAL(38, 2)) WITH ('connector' = 'blackhole');

EXPLAIN STATE STATEMENT SET BEGIN
  INSERT INTO a SELECT /*+ STATE_TTL('first_copies' = '7 d') */ customer, COUNT(*), COUNT(DISTINCT product) FROM first_copies GROUP BY customer;
  INSERT INTO b SELECT o.order_id, o.amount, p.paid FROM orders AS o LEFT JOIN payments AS p ON o.order_id = p.order_id;
  INSERT INTO b SELECT o.order_id, o.amount, p.paid FROM orders AS o JOIN payments AS p
    ON o.order_id = p.order_id AND p.paid_at BETWEEN o.ordered_at AND o.ordered_at + INTERVAL '1' HOUR;
  INSERT INTO c SELECT country, customer, total FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY country ORDER BY total DESC) AS rn
    FROM (SELECT country, customer, SUM(amount) AS total FROM orders GROUP BY country, customer)) WHERE rn <= 3;
  INSERT INTO d SELECT o.order_id, p.price FROM orders AS o LEFT JOIN current_prices FOR SYSTEM_TIME AS OF o.ordered_at AS p ON o.product = p.product;
  INSERT INTO e SELECT MAX(country), SUM(amount) FROM orders GROUP BY customer;
  INSERT INTO f SELECT customer, SUM(amount) OVER (PARTITION BY customer ORDER BY ordered_at RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW) FROM orders;
END;
