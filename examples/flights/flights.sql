-- A week of US flights as a stream: how late is each airport, hour by hour?
--
-- A report of a flight comes when its delay is known, so the file is out of order by real delays: a flight scheduled at
-- 08:00 that comes in four hours late is reported behind flights of noon. Event time is the scheduled departure.
CREATE TABLE flights (
  `date`      TIMESTAMP(3),  -- scheduled departure, local time
  delay       BIGINT,        -- of the arrival, minutes; negative is early
  origin      STRING,
  -- "I have seen all flights up to two hours before the latest departure." Whoever is later is late.
  WATERMARK FOR `date` AS `date` - INTERVAL '2' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'testdata/flights/2001-01-01_07.jsonl', 'format' = 'json');

-- Departures of each airport and hour, emitted once, when the watermark passes the end of the hour.
CREATE VIEW airport_hours AS
SELECT window_start, window_end, origin,
       COUNT(*)                                                              AS departures,
       AVG(CAST(delay AS DOUBLE))                                            AS mean_delay,
       CAST(COUNT(*) FILTER (WHERE delay > 15) AS DOUBLE) / COUNT(*)         AS late_share
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(`date`), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, origin;

-- The three worst airports of each hour: a window Top-N, emitted with the hour, never corrected.
CREATE VIEW worst_airports AS
SELECT window_start, place, origin, departures, mean_delay, late_share
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end
                                   ORDER BY mean_delay DESC, origin) AS place
      FROM airport_hours WHERE departures >= 10)
WHERE place <= 3;

-- To the terminal: the worst airports of every hour, and the hours of more than 60 departures.
CREATE TABLE print_worst (`hour` TIMESTAMP(3), place BIGINT, airport STRING, departures BIGINT, mean_delay DOUBLE, late_share DOUBLE)
WITH ('connector' = 'print', 'print-identifier' = 'worst');
CREATE TABLE print_busy (`hour` TIMESTAMP(3), airport STRING, departures BIGINT, mean_delay DOUBLE, late_share DOUBLE)
WITH ('connector' = 'print', 'print-identifier' = 'busy');

-- To Parquet: everything.
CREATE TABLE worst (`hour` TIMESTAMP(3), place BIGINT, airport STRING, departures BIGINT, mean_delay DOUBLE, late_share DOUBLE)
WITH ('connector' = 'filesystem', 'path' = 'out/flights/worst', 'format' = 'parquet');
CREATE TABLE hourly (`hour` TIMESTAMP(3), airport STRING, departures BIGINT, mean_delay DOUBLE, late_share DOUBLE)
WITH ('connector' = 'filesystem', 'path' = 'out/flights/hourly', 'format' = 'parquet');

-- Late rows are not lost: about one report in a hundred came after its hour was closed.
CREATE TABLE late_flights (operator STRING, window_end TIMESTAMP(3), watermark TIMESTAMP(3), `row` STRING)
WITH ('connector' = 'filesystem', 'path' = 'out/flights/late', 'format' = 'json');
SET 'volley.late-rows.sink' = 'late_flights';

-- One job: the file is read once and the hours are computed once for all four.
EXECUTE STATEMENT SET
BEGIN
  INSERT INTO print_worst SELECT window_start, place, origin, departures, ROUND(mean_delay, 1), ROUND(late_share, 2) FROM worst_airports;
  INSERT INTO print_busy  SELECT window_start, origin, departures, ROUND(mean_delay, 1), ROUND(late_share, 2) FROM airport_hours WHERE departures > 60;
  INSERT INTO worst       SELECT window_start, place, origin, departures, mean_delay, late_share FROM worst_airports;
  INSERT INTO hourly      SELECT window_start, origin, departures, mean_delay, late_share FROM airport_hours;
END;
