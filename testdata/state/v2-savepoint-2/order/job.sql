-- Rows in an order: Top-N, deduplication, OVER, sorting, patterns; and what keeps the last row of a key.
SET 'pipeline.name' = 'order';

CREATE TABLE events (id BIGINT, k STRING, g INT, v INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input/events.json', 'format' = 'json');
CREATE TABLE changes (id INT, k STRING, v INT)
WITH ('connector' = 'changelog-files', 'path' = 'input/changes.csv', 'changelog' = 'retract');
CREATE TABLE upserts (id INT, k STRING, v INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'changelog-files', 'path' = 'input/upserts.csv', 'changelog' = 'upsert');

CREATE TABLE best (k STRING, id BIGINT, v INT, rn BIGINT) WITH ('connector' = 'changelog-files', 'path' = 'output/best');
CREATE TABLE best_of_changes (k STRING, id INT, v INT) WITH ('connector' = 'changelog-files', 'path' = 'output/best_of_changes');
CREATE TABLE first_arrived (id BIGINT, k STRING) WITH ('connector' = 'changelog-files', 'path' = 'output/first_arrived');
CREATE TABLE last_arrived (id BIGINT, k STRING) WITH ('connector' = 'changelog-files', 'path' = 'output/last_arrived');
CREATE TABLE first_by_time (id BIGINT, k STRING) WITH ('connector' = 'changelog-files', 'path' = 'output/first_by_time');
CREATE TABLE last_by_time (id BIGINT, k STRING) WITH ('connector' = 'changelog-files', 'path' = 'output/last_by_time');
CREATE TABLE over_rows (id BIGINT, s INT, n BIGINT, hi INT) WITH ('connector' = 'filesystem', 'path' = 'output/over_rows', 'format' = 'csv');
CREATE TABLE over_range (id BIGINT, s INT, lo INT, d BIGINT) WITH ('connector' = 'filesystem', 'path' = 'output/over_range', 'format' = 'csv');
CREATE TABLE over_all (id BIGINT, s INT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'output/over_all', 'format' = 'csv');
CREATE TABLE sorted (id BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'output/sorted', 'format' = 'csv');
CREATE TABLE matched (k STRING, f BIGINT, l BIGINT, b BIGINT) WITH ('connector' = 'filesystem', 'path' = 'output/matched', 'format' = 'json');
CREATE TABLE counted (k STRING, n BIGINT) WITH ('connector' = 'changelog-files', 'path' = 'output/counted');

EXECUTE STATEMENT SET BEGIN
  INSERT INTO best SELECT k, id, v, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS rn FROM events) WHERE rn <= 3;
  INSERT INTO best_of_changes SELECT k, id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS rn FROM changes) WHERE rn <= 2;
  INSERT INTO first_arrived SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt ASC) AS rn FROM events) WHERE rn = 1;
  INSERT INTO last_arrived SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt DESC) AS rn FROM events) WHERE rn = 1;
  INSERT INTO first_by_time SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, g ORDER BY ts ASC) AS rn FROM events) WHERE rn = 1;
  INSERT INTO last_by_time SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, g ORDER BY ts DESC) AS rn FROM events) WHERE rn = 1;
  INSERT INTO over_rows SELECT id, SUM(v) OVER w, COUNT(*) OVER w, MAX(v) OVER w FROM events WINDOW w AS (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW);
  INSERT INTO over_range SELECT id, SUM(v) OVER w, MIN(v) OVER w, COUNT(DISTINCT g) OVER w
    FROM events WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '15' SECOND PRECEDING AND CURRENT ROW);
  INSERT INTO over_all SELECT id, SUM(v) OVER w, COUNT(*) OVER w FROM events WINDOW w AS (PARTITION BY g ORDER BY ts RANGE UNBOUNDED PRECEDING);
  INSERT INTO sorted SELECT id, ts FROM events ORDER BY ts;
  INSERT INTO matched SELECT k, f, l, b FROM events MATCH_RECOGNIZE (
    PARTITION BY k ORDER BY ts MEASURES FIRST(A.id) AS f, LAST(A.id) AS l, B.id AS b
    AFTER MATCH SKIP PAST LAST ROW PATTERN (A B* C) DEFINE A AS A.v > 20, B AS B.v < 40, C AS C.v > 25);
  INSERT INTO counted SELECT k, COUNT(*) FROM upserts GROUP BY k;
END;
