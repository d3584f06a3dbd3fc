-- Channel id: four known channels, for the others a regular expression on the url.
CREATE TABLE result (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, channel_id STRING)
WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT auction, bidder, price, channel,
       CASE LOWER(channel)
         WHEN 'apple' THEN '0'
         WHEN 'google' THEN '1'
         WHEN 'facebook' THEN '2'
         WHEN 'baidu' THEN '3'
         ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)
       END
FROM bid
WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL
   OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu');
