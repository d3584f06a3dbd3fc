-- The ten highest bids of each auction, with their ranks.
CREATE TABLE result (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP(3), extra STRING, place BIGINT
) WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT auction, bidder, price, channel, url, dateTime, extra, place
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid)
WHERE place <= 10;
