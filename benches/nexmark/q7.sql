-- The highest bids of every ten seconds: each bid against the highest price of the windows that end up to ten seconds later.
CREATE TABLE result (auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3), extra STRING) WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT offer.auction, offer.bidder, offer.price, offer.dateTime, offer.extra
FROM bid AS offer
JOIN (
  SELECT MAX(price) AS price, window_end AS dateTime
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) AS highest
ON offer.price = highest.price
WHERE offer.dateTime BETWEEN highest.dateTime - INTERVAL '10' SECOND AND highest.dateTime;
