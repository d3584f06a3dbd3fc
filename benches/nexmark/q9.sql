-- Winning bids: of each auction the highest bid in its time, the earliest of several, with everything known about the auction.
CREATE TABLE result (
  id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP(3), expires TIMESTAMP(3),
  seller BIGINT, category BIGINT, extra STRING,
  auction BIGINT, bidder BIGINT, price BIGINT, bid_dateTime TIMESTAMP(3), bid_extra STRING
) WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra,
       auction, bidder, price, bid_dateTime, bid_extra
FROM (
  SELECT item.*, offer.auction, offer.bidder, offer.price, offer.dateTime AS bid_dateTime, offer.extra AS bid_extra,
         ROW_NUMBER() OVER (PARTITION BY item.id ORDER BY offer.price DESC, offer.dateTime ASC) AS place
  FROM auction AS item, bid AS offer
  WHERE item.id = offer.auction AND offer.dateTime BETWEEN item.dateTime AND item.expires
)
WHERE place <= 1;
