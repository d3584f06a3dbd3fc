-- Processing-time windows: the bids of each user in ten seconds of the clock.
CREATE TABLE result (bidder BIGINT, bids BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3))
WITH ('connector' = 'blackhole');

CREATE VIEW clocked AS SELECT bidder, PROCTIME() AS seen FROM bid;

INSERT INTO result
SELECT bidder, COUNT(*), window_start, window_end
FROM TABLE(TUMBLE(TABLE clocked, DESCRIPTOR(seen), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
