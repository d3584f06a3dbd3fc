-- Windows of every kind, over a Parquet file and a CSV file, into JSON and CSV files; late rows are kept.
SET 'pipeline.name' = 'windows';

CREATE TABLE events (id BIGINT, k STRING, g INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input/events.parquet', 'format' = 'parquet');
CREATE TABLE punctual (id BIGINT, k STRING, g INT, v INT, amount DECIMAL(10, 2), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input/events.csv', 'format' = 'csv', 'csv.null-literal' = '-');
CREATE TABLE others (id BIGINT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input/others.csv', 'format' = 'csv', 'csv.null-literal' = '-');

CREATE VIEW tumbled AS SELECT * FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND));
CREATE VIEW punctual_tumbled AS SELECT * FROM TABLE(TUMBLE(TABLE punctual, DESCRIPTOR(ts), INTERVAL '10' SECOND));
CREATE VIEW others_tumbled AS SELECT * FROM TABLE(TUMBLE(TABLE others, DESCRIPTOR(ts), INTERVAL '10' SECOND));

CREATE TABLE tumble (s TIMESTAMP(3), k STRING, n BIGINT, total INT, hi INT, d BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'output/tumble', 'format' = 'json');
CREATE TABLE hop (s TIMESTAMP(3), k STRING, n BIGINT, total INT)
WITH ('connector' = 'filesystem', 'path' = 'output/hop', 'format' = 'csv');
CREATE TABLE cumulate (s TIMESTAMP(3), e TIMESTAMP(3), g INT, n BIGINT, lo INT)
WITH ('connector' = 'filesystem', 'path' = 'output/cumulate', 'format' = 'csv');
CREATE TABLE sessions (s TIMESTAMP(3), e TIMESTAMP(3), k STRING, n BIGINT, total INT)
WITH ('connector' = 'filesystem', 'path' = 'output/sessions', 'format' = 'csv');
CREATE TABLE session_rows (s TIMESTAMP(3), id BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'output/session_rows', 'format' = 'csv');
CREATE TABLE joined (s TIMESTAMP(3), id BIGINT, other BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'output/joined', 'format' = 'csv');
CREATE TABLE ranked (s TIMESTAMP(3), id BIGINT, rn BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'output/ranked', 'format' = 'csv');
CREATE TABLE last_of_window (s TIMESTAMP(3), k STRING, id BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'output/last_of_window', 'format' = 'csv');

EXECUTE STATEMENT SET BEGIN
  INSERT INTO tumble SELECT window_start, k, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT g) FROM tumbled GROUP BY window_start, window_end, k;
  INSERT INTO hop SELECT window_start, k, COUNT(*), SUM(v)
    FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '30' SECOND)) GROUP BY window_start, window_end, k;
  INSERT INTO cumulate SELECT window_start, window_end, g, COUNT(*), MIN(v)
    FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '60' SECOND)) GROUP BY window_start, window_end, g;
  INSERT INTO sessions SELECT window_start, window_end, k, COUNT(*), SUM(v)
    FROM TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '8' SECOND)) GROUP BY window_start, window_end, k;
  INSERT INTO session_rows SELECT window_start, id FROM TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '7' SECOND));
  INSERT INTO joined SELECT l.window_start, l.id, r.id FROM punctual_tumbled AS l LEFT JOIN others_tumbled AS r
    ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end;
  INSERT INTO ranked SELECT window_start, id, rn FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v DESC, id) AS rn FROM tumbled) WHERE rn <= 2;
  INSERT INTO last_of_window SELECT window_start, k, id FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts DESC) AS rn FROM tumbled) WHERE rn = 1;
END;
