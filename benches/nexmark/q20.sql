-- Bids with the auctions of category 10 that they are for: a join whose both sides stay for ever.
CREATE TABLE result (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, bid_dateTime TIMESTAMP(3), bid_extra STRING,
  itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, auction_dateTime TIMESTAMP(3), expires TIMESTAMP(3),
  seller BIGINT, category BIGINT, auction_extra STRING
) WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT offer.auction, offer.bidder, offer.price, offer.channel, offer.url, offer.dateTime, offer.extra,
       item.itemName, item.description, item.initialBid, item.reserve, item.dateTime, item.expires,
       item.seller, item.category, item.extra
FROM bid AS offer JOIN auction AS item ON offer.auction = item.id
WHERE item.category = 10;
