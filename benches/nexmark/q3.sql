-- Local items: who sells things of category 10 in three states. Both sides insert only; each waits for the other for ever.
CREATE TABLE result (name STRING, city STRING, state STRING, id BIGINT) WITH ('connector' = 'blackhole');

INSERT INTO result
SELECT seller.name, seller.city, seller.state, item.id
FROM auction AS item JOIN person AS seller ON item.seller = seller.id
WHERE item.category = 10 AND seller.state IN ('OR', 'ID', 'CA');
