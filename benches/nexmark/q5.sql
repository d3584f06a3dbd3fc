-- Hot items: the auctions with the most bids of the last ten seconds, every two seconds.
CREATE TABLE result (auction BIGINT, num BIGINT) WITH ('connector' = 'blackhole');

CREATE VIEW auction_bids AS
SELECT auction, COUNT(*) AS num, window_start, window_end
FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;

INSERT INTO result
SELECT each.auction, each.num
FROM auction_bids AS each
JOIN (
  SELECT MAX(num) AS most, window_start, window_end FROM auction_bids GROUP BY window_start, window_end
) AS best
ON each.window_start = best.window_start AND each.window_end = best.window_end AND each.num >= best.most;
