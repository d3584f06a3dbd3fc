-- The last bid of each bidder on each auction: keep-last by event time.
CREATE TABLE result (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP(3), extra STRING
) WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT auction, bidder, price, channel, url, dateTime, extra
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS place FROM bid)
WHERE place <= 1;
