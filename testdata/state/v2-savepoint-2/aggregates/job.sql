-- Groups: sums, extremes, distinct values and lists, over rows that only come and over rows that are taken back.
SET 'parallelism.default' = '2';
SET 'pipeline.name' = 'aggregates';

CREATE TABLE events (id BIGINT, k STRING, g INT, v INT, amount DECIMAL(10, 2), ts TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = 'input/events.csv', 'format' = 'csv', 'csv.null-literal' = '-');
CREATE TABLE changes (id INT, k STRING, v INT)
WITH ('connector' = 'changelog-files', 'path' = 'input/changes.csv', 'changelog' = 'retract');

CREATE TABLE totals (k STRING, n BIGINT, s INT, lo INT, hi INT, a INT, amount DECIMAL(38, 2), few BIGINT, first_id BIGINT, last_id BIGINT, names STRING, spread INT)
WITH ('connector' = 'changelog-files', 'path' = 'output/totals');
CREATE TABLE distincts (g INT, ks BIGINT, vs BIGINT, s INT, high BIGINT)
WITH ('connector' = 'changelog-files', 'path' = 'output/distincts');
CREATE TABLE changing (k STRING, n BIGINT, s INT, lo INT, hi INT, d BIGINT, last_v INT)
WITH ('connector' = 'changelog-files', 'path' = 'output/changing');
CREATE TABLE everything (n BIGINT, s INT, hi INT)
WITH ('connector' = 'changelog-files', 'path' = 'output/everything');
CREATE TABLE pairs (k STRING, g INT)
WITH ('connector' = 'changelog-files', 'path' = 'output/pairs');

EXECUTE STATEMENT SET BEGIN
  INSERT INTO totals SELECT k, COUNT(*), SUM(v), MIN(v), MAX(v), AVG(v), SUM(amount), COUNT(*) FILTER (WHERE v < 10), FIRST_VALUE(id), LAST_VALUE(id),
    LISTAGG(CAST(id AS STRING)), CAST(STDDEV_POP(v) * 10 AS INT) FROM events GROUP BY k;
  INSERT INTO distincts SELECT g, COUNT(DISTINCT k), COUNT(DISTINCT v), SUM(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE v > 25) FROM events GROUP BY g;
  INSERT INTO changing SELECT k, COUNT(*), SUM(v), MIN(v), MAX(v), COUNT(DISTINCT v), LAST_VALUE(v) FROM changes GROUP BY k;
  INSERT INTO everything SELECT COUNT(*), SUM(v), MAX(v) FROM changes;
  INSERT INTO pairs SELECT DISTINCT k, g FROM events;
END;
