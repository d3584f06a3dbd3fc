-- A day of a retailer's tills: every line at the price in force when it was sold, sales by store and hour, and a running
-- total by store and business date. docs/retail.md tells the story; `./dev retail` makes the input and runs this.

-- A till log in six partitions is replayed from six files. They are read side by side, some kilobytes in turn, so that none
-- runs ahead of the others by more than a few minutes of sales.
SET 'volley.batch.bytes' = '8 kb';

-- What tills uploaded on one day (UTC). Most uploads come within two minutes, some after hours, some twice.
CREATE TABLE pos_basket_events (
  event_id    STRING,
  basket_id   STRING,
  store_id    STRING,               -- the country and a number: SG-0042
  till_id     STRING,
  currency    STRING,
  event_ts    TIMESTAMP(3),         -- when the till sold it
  uploaded_at TIMESTAMP(3),
  `lines`     ARRAY<ROW<line_no INT, sku STRING, qty INT, unit_price_minor BIGINT, discount_minor BIGINT, promo_id STRING>>,
  arrived_at AS PROCTIME(),
  WATERMARK FOR event_ts AS event_ts - INTERVAL '5' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'out/retail/input/pos', 'format' = 'json');

-- The price list: a row is in force from its time on, until the next of its article and country.
CREATE TABLE price_changes (
  sku            STRING,
  country        STRING,
  currency       STRING,
  price_minor    BIGINT,
  effective_from TIMESTAMP(3),
  WATERMARK FOR effective_from AS effective_from
) WITH ('connector' = 'filesystem', 'path' = 'out/retail/input/prices', 'format' = 'json');

-- The first copy of each basket to arrive. By arrival and not by event time, so that a late basket counts too.
CREATE VIEW baskets AS
SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY basket_id ORDER BY arrived_at ASC) AS rn FROM pos_basket_events)
WHERE rn = 1;

-- A versioned table: its key is (sku, country), the time of its versions effective_from.
CREATE VIEW price_versions AS
SELECT sku, country, currency, price_minor, effective_from FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY sku, country ORDER BY effective_from DESC) AS rn FROM price_changes)
WHERE rn = 1;

-- A row for each line, with the list price in force when the till sold it. The business date is the store's own: in summer
-- Britain is an hour ahead of UTC, India five and a half, Singapore eight.
CREATE VIEW sales_lines AS
SELECT b.event_id, b.basket_id, b.store_id, b.currency, b.event_ts,
       CAST(TIMESTAMPADD(MINUTE, CASE SUBSTRING(b.store_id, 1, 2) WHEN 'SG' THEN 480 WHEN 'IN' THEN 330 ELSE 60 END,
                         b.event_ts) AS DATE) AS business_date,
       l.line_no, l.sku, l.qty, l.unit_price_minor, l.qty * l.unit_price_minor - l.discount_minor AS net_minor,
       p.price_minor AS list_price_minor, p.effective_from AS price_from
FROM baskets AS b
CROSS JOIN UNNEST(b.`lines`) AS l (line_no, sku, qty, unit_price_minor, discount_minor, promo_id)
LEFT JOIN price_versions FOR SYSTEM_TIME AS OF b.event_ts AS p
  ON p.sku = l.sku AND p.country = SUBSTRING(b.store_id, 1, 2);

-- Every line once, for ever: append-only.
CREATE TABLE pos_sales_lines (
  event_id STRING, basket_id STRING, store_id STRING, business_date DATE, currency STRING, event_ts TIMESTAMP(3),
  line_no INT, sku STRING, qty INT, unit_price_minor BIGINT, net_minor BIGINT, list_price_minor BIGINT, price_from TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = 'out/retail/lines', 'format' = 'json');

-- An hour of a store, written once when the watermark has passed its end: append-only, but whoever comes later is missed …
CREATE TABLE store_sales_hourly (
  store_id STRING, currency STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3),
  basket_count BIGINT, line_count BIGINT, units_out INT, sales_minor BIGINT
) WITH ('connector' = 'filesystem', 'path' = 'out/retail/hourly', 'format' = 'json');

-- … and found here, with the watermark that had closed its hour.
CREATE TABLE late_lines (operator STRING, window_end TIMESTAMP(3), `watermark` TIMESTAMP(3), `row` STRING)
WITH ('connector' = 'filesystem', 'path' = 'out/retail/late', 'format' = 'json');
SET 'volley.late-rows.sink' = 'late_lines';

-- The running total of a store and business date: a row for every change, by key. It misses nobody.
CREATE TABLE store_sales_daily (
  store_id STRING, business_date DATE, currency STRING, basket_count BIGINT, units_out INT, sales_minor BIGINT,
  PRIMARY KEY (store_id, business_date) NOT ENFORCED
) WITH ('connector' = 'print');

-- One job: the till log is read, deduplicated and priced once for all three.
EXECUTE STATEMENT SET
BEGIN
  INSERT INTO pos_sales_lines
  SELECT event_id, basket_id, store_id, business_date, currency, event_ts,
         line_no, sku, qty, unit_price_minor, net_minor, list_price_minor, price_from
  FROM sales_lines;

  INSERT INTO store_sales_hourly
  SELECT store_id, currency, window_start, window_end, COUNT(DISTINCT basket_id), COUNT(*), SUM(qty), SUM(net_minor)
  FROM TABLE(TUMBLE(TABLE sales_lines, DESCRIPTOR(event_ts), INTERVAL '1' HOUR))
  GROUP BY store_id, currency, window_start, window_end;

  INSERT INTO store_sales_daily
  SELECT store_id, business_date, MAX(currency), COUNT(DISTINCT basket_id), SUM(qty), SUM(net_minor)
  FROM sales_lines
  GROUP BY store_id, business_date;
END;
