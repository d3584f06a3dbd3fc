-- State with a time to live, longer than anybody will keep these files.
SET 'pipeline.name' = 'time_to_live';
SET 'table.exec.state.ttl' = '36500 d';

CREATE TABLE events (id BIGINT, k STRING, g INT, v INT, amount DECIMAL(10, 2), ts TIMESTAMP(3), pt AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = 'input/events.csv', 'format' = 'csv', 'csv.null-literal' = '-');
CREATE TABLE changes (id INT, k STRING, v INT)
WITH ('connector' = 'changelog-files', 'path' = 'input/changes.csv', 'changelog' = 'retract');
CREATE TABLE upserts (id INT, k STRING, v INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'changelog-files', 'path' = 'input/upserts.csv', 'changelog' = 'upsert');

CREATE TABLE totals (k STRING, n BIGINT, s INT, hi INT, d BIGINT) WITH ('connector' = 'changelog-files', 'path' = 'output/totals');
CREATE TABLE joined (id BIGINT, v INT) WITH ('connector' = 'changelog-files', 'path' = 'output/joined');
CREATE TABLE best_of_changes (k STRING, id INT, v INT) WITH ('connector' = 'changelog-files', 'path' = 'output/best_of_changes');
CREATE TABLE first_arrived (id BIGINT, k STRING) WITH ('connector' = 'changelog-files', 'path' = 'output/first_arrived');
CREATE TABLE over_arrivals (id BIGINT, s INT) WITH ('connector' = 'filesystem', 'path' = 'output/over_arrivals', 'format' = 'csv');
CREATE TABLE counted (k STRING, n BIGINT) WITH ('connector' = 'changelog-files', 'path' = 'output/counted');
CREATE TABLE materialized_by_key (id BIGINT, k STRING, v INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'changelog-files', 'path' = 'output/materialized_by_key', 'changelog' = 'upsert');

EXECUTE STATEMENT SET BEGIN
  INSERT INTO totals SELECT k, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT g) FROM events GROUP BY k;
  INSERT INTO joined SELECT /*+ STATE_TTL('e' = '30000 d') */ e.id, c.v FROM events AS e LEFT JOIN changes AS c ON e.g = c.id AND e.v > c.v + 20;
  INSERT INTO best_of_changes SELECT k, id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS rn FROM changes) WHERE rn <= 2;
  INSERT INTO first_arrived SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt ASC) AS rn FROM events) WHERE rn = 1;
  INSERT INTO over_arrivals SELECT id, SUM(v) OVER (PARTITION BY g ORDER BY pt ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) FROM events;
  INSERT INTO counted SELECT k, COUNT(*) FROM upserts GROUP BY k;
  INSERT INTO materialized_by_key SELECT e.id, u.k, u.v FROM events AS e LEFT JOIN upserts AS u ON e.v = u.id;
END;
