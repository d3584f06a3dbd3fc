-- Url directories: the parts of a path.
CREATE TABLE result (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING)
WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url, '/', 5)
FROM bid;
