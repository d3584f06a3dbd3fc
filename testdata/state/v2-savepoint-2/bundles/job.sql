-- Bundles, two phases, split distinct values; written by RocksDB.
SET 'parallelism.default' = '2';
SET 'pipeline.name' = 'bundles';
SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '7';
SET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE';
SET 'table.optimizer.distinct-agg.split.enabled' = 'true';
SET 'state.backend.type' = 'rocksdb';

CREATE TABLE events (id BIGINT, k STRING, g INT, v INT, amount DECIMAL(10, 2), ts TIMESTAMP(3), pt AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = 'input/events.csv', 'format' = 'csv', 'csv.null-literal' = '-');
CREATE TABLE changes (id INT, k STRING, v INT)
WITH ('connector' = 'changelog-files', 'path' = 'input/changes.csv', 'changelog' = 'retract');
CREATE TABLE upserts (id INT, k STRING, v INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'changelog-files', 'path' = 'input/upserts.csv', 'changelog' = 'upsert');

CREATE TABLE totals (k STRING, n BIGINT, s INT, hi INT) WITH ('connector' = 'changelog-files', 'path' = 'output/totals');
CREATE TABLE distincts (g INT, vs BIGINT, n BIGINT) WITH ('connector' = 'changelog-files', 'path' = 'output/distincts');
CREATE TABLE joined (id BIGINT, v INT) WITH ('connector' = 'changelog-files', 'path' = 'output/joined');
CREATE TABLE counted (k STRING, n BIGINT) WITH ('connector' = 'changelog-files', 'path' = 'output/counted');

EXECUTE STATEMENT SET BEGIN
  INSERT INTO totals SELECT k, COUNT(*), SUM(v), MAX(v) FROM events GROUP BY k;
  INSERT INTO distincts SELECT g, COUNT(DISTINCT v), COUNT(*) FROM events GROUP BY g;
  INSERT INTO joined SELECT e.id, c.v FROM events AS e LEFT JOIN changes AS c ON e.g = c.id AND e.v > c.v + 20;
  INSERT INTO counted SELECT k, COUNT(*) FROM upserts GROUP BY k;
END;
