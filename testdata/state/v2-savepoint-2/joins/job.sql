-- Joins of every kind.
SET 'pipeline.name' = 'joins';

CREATE TABLE events (id BIGINT, k STRING, g INT, v INT, amount DECIMAL(10, 2), ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input/events.csv', 'format' = 'csv', 'csv.null-literal' = '-');
CREATE TABLE others (id BIGINT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input/others.csv', 'format' = 'csv', 'csv.null-literal' = '-');
CREATE TABLE changes (id INT, k STRING, v INT)
WITH ('connector' = 'changelog-files', 'path' = 'input/changes.csv', 'changelog' = 'retract');
CREATE TABLE upserts (id INT, k STRING, v INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'changelog-files', 'path' = 'input/upserts.csv', 'changelog' = 'upsert');
CREATE TABLE versions (k STRING, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'changelog-files', 'path' = 'input/versions.csv', 'changelog' = 'retract');
CREATE TABLE dimension (k STRING, name STRING)
WITH ('connector' = 'filesystem', 'path' = 'input/dimension.csv', 'format' = 'csv', 'csv.null-literal' = '-');

CREATE TABLE inner_join (id BIGINT, other INT, v INT) WITH ('connector' = 'changelog-files', 'path' = 'output/inner_join');
CREATE TABLE full_join (k STRING, n BIGINT, id INT, v INT) WITH ('connector' = 'changelog-files', 'path' = 'output/full_join');
CREATE TABLE join_by_key (id INT, v INT, w INT) WITH ('connector' = 'changelog-files', 'path' = 'output/join_by_key');
CREATE TABLE semi_join (id BIGINT) WITH ('connector' = 'changelog-files', 'path' = 'output/semi_join');
CREATE TABLE anti_join (id BIGINT) WITH ('connector' = 'changelog-files', 'path' = 'output/anti_join');
CREATE TABLE multi_join (id BIGINT, v INT, w INT) WITH ('connector' = 'changelog-files', 'path' = 'output/multi_join');
CREATE TABLE interval_join (id BIGINT, other BIGINT) WITH ('connector' = 'filesystem', 'path' = 'output/interval_join', 'format' = 'csv');
CREATE TABLE temporal_join (id BIGINT, rate INT) WITH ('connector' = 'filesystem', 'path' = 'output/temporal_join', 'format' = 'json');
CREATE TABLE lookup_again (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = 'output/lookup_again', 'format' = 'csv');
CREATE TABLE materialized_by_key (id BIGINT, k STRING, v INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'changelog-files', 'path' = 'output/materialized_by_key', 'changelog' = 'upsert');

EXECUTE STATEMENT SET BEGIN
  INSERT INTO inner_join SELECT e.id, c.id, c.v FROM events AS e JOIN changes AS c ON e.g = c.id AND e.v > c.v;
  INSERT INTO full_join SELECT COALESCE(n.k, c.k), n.n, c.id, c.v
    FROM (SELECT k, COUNT(*) AS n FROM others GROUP BY k) AS n FULL JOIN changes AS c ON n.k = c.k;
  INSERT INTO join_by_key SELECT a.id, a.v, b.s FROM upserts AS a LEFT JOIN (SELECT id, SUM(v) AS s FROM changes GROUP BY id) AS b ON a.id = b.id;
  INSERT INTO semi_join SELECT id FROM events WHERE k IN (SELECT k FROM changes WHERE v > 30);
  INSERT INTO anti_join SELECT id FROM others AS o WHERE NOT EXISTS (SELECT 1 FROM upserts AS u WHERE u.k = o.k AND u.v > 20);
  INSERT INTO multi_join SELECT /*+ MULTI_JOIN(e, c, u) */ e.id, c.v, u.v FROM others AS e LEFT JOIN changes AS c ON e.v = c.id LEFT JOIN upserts AS u ON e.v = u.id;
  INSERT INTO interval_join SELECT e.id, o.id FROM events AS e LEFT JOIN others AS o
    ON e.k = o.k AND o.ts BETWEEN e.ts - INTERVAL '4' SECOND AND e.ts + INTERVAL '6' SECOND;
  INSERT INTO temporal_join SELECT e.id, c.rate FROM events AS e LEFT JOIN versions FOR SYSTEM_TIME AS OF e.ts AS c ON e.k = c.k;
  INSERT INTO lookup_again SELECT /*+ LOOKUP('table' = 'd', 'async' = 'true', 'output-mode' = 'allow_unordered', 'retry-predicate' = 'lookup_miss',
    'retry-strategy' = 'fixed_delay', 'fixed-delay' = '1 h', 'max-attempts' = '3') */ e.id, d.name
    FROM events AS e LEFT JOIN dimension FOR SYSTEM_TIME AS OF e.pt AS d ON e.k = d.k;
  INSERT INTO materialized_by_key SELECT o.id, u.k, u.v FROM others AS o LEFT JOIN upserts AS u ON o.v = u.id;
END;
