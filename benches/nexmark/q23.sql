-- Bids of people who sell something too, with the person and what they sell: two joins on one key.
CREATE TABLE result (
  bidder BIGINT, price BIGINT, channel STRING, url STRING, bid_extra STRING,
  person_id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, person_extra STRING,
  itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, auction_dateTime TIMESTAMP(3), expires TIMESTAMP(3),
  seller BIGINT, category BIGINT, auction_extra STRING
) WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT offer.bidder, offer.price, offer.channel, offer.url, offer.extra,
       buyer.id, buyer.name, buyer.emailAddress, buyer.creditCard, buyer.city, buyer.state, buyer.extra,
       item.itemName, item.description, item.initialBid, item.reserve, item.dateTime, item.expires,
       item.seller, item.category, item.extra
FROM bid AS offer
JOIN person AS buyer ON buyer.id = offer.bidder
JOIN auction AS item ON item.seller = offer.bidder;
