"""Memory of each stateful operator: how much more a job holds for two million keys than for one million.

The keys are a sequence, so every row has a key of its own; rows have a BIGINT key, a BIGINT value and a text of 20
characters. The difference of the peak resident sizes is what a million keys (rows of a join's side) weigh, with all that the
allocator keeps beside.

    python benches/state_memory.py --volley target/release/volley
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

TABLES = """
SET 'parallelism.default' = '1';
CREATE TABLE rows_in (
  k BIGINT, v BIGINT, text STRING, at AS TO_TIMESTAMP_LTZ(1700000000000 + k, 3), arrived AS PROCTIME(),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH (
  'connector' = 'datagen', 'rows-per-second' = '-1',
  'fields.k.kind' = 'sequence', 'fields.k.start' = '0', 'fields.k.end' = '{last}',
  'fields.v.min' = '0', 'fields.v.max' = '1000000', 'fields.text.length' = '20'
);
CREATE TABLE one_time (k BIGINT, at AS TO_TIMESTAMP_LTZ(1700000000000 + k, 3), WATERMARK FOR at AS at) WITH (
  'connector' = 'datagen', 'number-of-rows' = '1', 'fields.k.min' = '-2', 'fields.k.max' = '-1'
);
CREATE TABLE one_row (k BIGINT, v BIGINT, text STRING) WITH (
  'connector' = 'datagen', 'number-of-rows' = '1', 'fields.k.min' = '-2', 'fields.k.max' = '-1', 'fields.text.length' = '20'
);
"""

COUNT = "CREATE TABLE result (k BIGINT, n BIGINT) WITH ('connector' = 'blackhole');\n"
WHOLE = "CREATE TABLE result (k BIGINT, v BIGINT, text STRING) WITH ('connector' = 'blackhole');\n"

OPERATORS = {
    "GroupAggregate COUNT, SUM": "CREATE TABLE result (k BIGINT, n BIGINT, s BIGINT) WITH ('connector' = 'blackhole');\n"
    "INSERT INTO result SELECT k, COUNT(*), SUM(v) FROM rows_in GROUP BY k;",
    "GroupAggregate MIN, MAX": "CREATE TABLE result (k BIGINT, n BIGINT, s BIGINT) WITH ('connector' = 'blackhole');\n"
    "INSERT INTO result SELECT k, MIN(v), MAX(v) FROM rows_in GROUP BY k;",
    "GroupAggregate COUNT(DISTINCT)": COUNT + "INSERT INTO result SELECT k, COUNT(DISTINCT v) FROM rows_in GROUP BY k;",
    "GroupAggregate MAX over updates": COUNT
    + "INSERT INTO result SELECT k, MAX(n) FROM (SELECT k, COUNT(*) AS n FROM rows_in GROUP BY k) GROUP BY k;",
    "SELECT DISTINCT (3 columns)": WHOLE + "INSERT INTO result SELECT DISTINCT k, v, text FROM rows_in;",
    "Deduplicate first by arrival": WHOLE
    + "INSERT INTO result SELECT k, v, text FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY arrived) AS rn FROM rows_in) WHERE rn = 1;",
    "Deduplicate first by event time": WHOLE
    + "INSERT INTO result SELECT k, v, text FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at) AS rn FROM rows_in) WHERE rn = 1;",
    "Deduplicate last by event time": WHOLE
    + "INSERT INTO result SELECT k, v, text FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at DESC) AS rn FROM rows_in) WHERE rn = 1;",
    "Top-10, append-only": WHOLE
    + "INSERT INTO result SELECT k, v, text FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM rows_in) WHERE rn <= 10;",
    "Top-10 over updates": COUNT
    + "INSERT INTO result SELECT k, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY s DESC) AS rn FROM "
    "(SELECT k, MIN(v) AS s FROM rows_in GROUP BY k)) WHERE rn <= 10;",
    "Join, inner, one side": WHOLE + "INSERT INTO result SELECT r.k, r.v, r.text FROM rows_in AS r JOIN one_row AS o ON r.k = o.k;",
    "Join, left outer, left side": WHOLE + "INSERT INTO result SELECT r.k, r.v, o.text FROM rows_in AS r LEFT JOIN one_row AS o ON r.k = o.k;",
    "Interval join, one side": COUNT + "INSERT INTO result SELECT r.k, r.v FROM rows_in AS r JOIN one_time AS o ON r.k = o.k "
    "AND r.at BETWEEN o.at - INTERVAL '1' DAY AND o.at + INTERVAL '1' DAY;",
    "Temporal join, versions, with the Deduplicate below": COUNT + "CREATE VIEW versions AS SELECT k, v, at FROM "
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at DESC) AS rn FROM rows_in) WHERE rn = 1;\n"
    "INSERT INTO result SELECT o.k, r.v FROM one_time AS o JOIN versions FOR SYSTEM_TIME AS OF o.at AS r ON o.k = r.k;",
    "SinkUpsertMaterializer, with the GroupAggregate below": "CREATE TABLE result (v BIGINT, n BIGINT, PRIMARY KEY (v) NOT ENFORCED) "
    "WITH ('connector' = 'blackhole');\nINSERT INTO result SELECT MAX(v), COUNT(*) FROM rows_in GROUP BY k;",
    "MATCH_RECOGNIZE, open matches": COUNT + "INSERT INTO result SELECT k, b FROM rows_in MATCH_RECOGNIZE (PARTITION BY k ORDER BY at "
    "MEASURES B.v AS b PATTERN (A B) DEFINE B AS B.v > A.v);",
    "OVER, unbounded SUM": COUNT
    + "INSERT INTO result SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY at) FROM rows_in;",
    "TUMBLE of a day, COUNT": COUNT
    + "INSERT INTO result SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE rows_in, DESCRIPTOR(at), INTERVAL '1' DAY)) "
    "GROUP BY k, window_start, window_end;",
}


def peak(volley, directory, sql):
    """Runs a script; returns its peak resident bytes."""
    script = directory / "job.sql"
    script.write_text(sql)
    process = subprocess.Popen([volley, "run", str(script)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{script} failed:\n{sql}")
    return usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--volley", required=True)
    parser.add_argument("--operator", default="", help="only those with this in their name")
    options = parser.parse_args()
    print("| operator | MB per million keys |")
    print("|---|---|")
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for operator, sql in OPERATORS.items():
            if options.operator not in operator:
                continue
            peaks = [peak(options.volley, directory, TABLES.format(last=last) + sql) for last in (999_999, 1_999_999)]
            print(f"| {operator} | {(peaks[1] - peaks[0]) / 1e6:.0f} |", flush=True)


main()
