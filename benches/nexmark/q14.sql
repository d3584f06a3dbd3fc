-- Calculation: a filter, a CASE and the number of letters c (the benchmark has a function of its own for it).
CREATE TABLE result (
  auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), bid_time STRING, dateTime TIMESTAMP(3), extra STRING, c_count BIGINT
) WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT auction, bidder, 0.908 * price,
       CASE
         WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN 'dayTime'
         WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime'
         ELSE 'otherTime'
       END,
       dateTime, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', ''))
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
