-- The average closing price of each category: a join, the highest bid of each auction, and an average over what keeps changing.
CREATE TABLE result (category BIGINT, average BIGINT) WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT closed.category, AVG(closed.price)
FROM (
  SELECT MAX(offer.price) AS price, item.category
  FROM auction AS item, bid AS offer
  WHERE item.id = offer.auction AND offer.dateTime BETWEEN item.dateTime AND item.expires
  GROUP BY item.id, item.category
) AS closed
GROUP BY closed.category;
