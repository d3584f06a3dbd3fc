-- The latest price of each product, into a table of the same key: [I,UA,D].
CREATE TABLE prices (
  product STRING, price DECIMAL(10, 2), priced_at TIMESTAMP(3), WATERMARK FOR priced_at AS priced_at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');

CREATE VIEW latest_prices AS
SELECT product, price, priced_at
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY priced_at DESC) AS version FROM prices)
WHERE version = 1;

CREATE TABLE current_prices (product STRING, price DECIMAL(10, 2), PRIMARY KEY (product) NOT ENFORCED) WITH ('connector' = 'blackhole');

EXPLAIN CHANGELOG_MODE INSERT INTO current_prices SELECT product, price FROM latest_prices;
