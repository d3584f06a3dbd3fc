-- User sessions: the bids of each user until ten seconds pass without one.
CREATE TABLE result (bidder BIGINT, bids BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3))
WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT bidder, COUNT(*), window_start, window_end
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
