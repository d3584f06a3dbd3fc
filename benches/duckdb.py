"""Volley beside DuckDB's batch run: a 10-second TUMBLE count and sum by auction over the same file, in one run.

The files are made by Volley itself (nexmark -> filesystem): 50 million bids as Parquet, 5 million as JSON lines with four
fields. A and B take turns; the median of the ratios of pairs counts. The unit is CPU seconds (user and system) of the
whole process, less those of a process that starts and does nothing.

    python benches/duckdb.py --volley target/release/volley [--pairs 7] [--parquet-bids N] [--json-bids N]
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3)"

MAKE = """
CREATE TABLE bid ({columns}) WITH ('connector' = 'nexmark', 'table' = 'bid', 'events.num' = '{events}');
CREATE TABLE file ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}');
INSERT INTO file SELECT * FROM bid;
"""

VOLLEY = """
CREATE TABLE bid ({columns}, WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}');
CREATE TABLE result (auction BIGINT, window_start TIMESTAMP(3), bids BIGINT, total BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO result
SELECT auction, window_start, COUNT(*), SUM(price)
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;
"""

# The rows are counted, not shown, as Volley's go to blackhole.
DUCKDB = """
import duckdb, sys
duckdb.execute("SET threads = 1")
source = {source!r}
if source:
    print(duckdb.execute(f'''
        SELECT count(*), sum(bids), sum(total) FROM (
            SELECT auction, time_bucket(INTERVAL 10 SECOND, "dateTime") AS window_start, count(*) AS bids, sum(price) AS total
            FROM {{source}} GROUP BY ALL)
    ''').fetchone(), file=sys.stderr)
"""


def cpu_seconds(command, **options):
    """Runs a command and returns its user and system time; it must succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{command} failed:\n{message}")
    return usage.ru_utime + usage.ru_stime, message.strip()


class Comparison:
    def __init__(self, volley, directory):
        self.volley = volley
        self.directory = directory

    def script(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".sql", delete=False)
        file.write(text)
        file.close()
        return file.name

    def run_volley(self, text):
        script = self.script(text)
        try:
            return cpu_seconds([self.volley, "run", script])
        finally:
            os.unlink(script)

    def run_duckdb(self, source):
        return cpu_seconds([sys.executable, "-c", DUCKDB.format(source=source)])

    def make(self, format, bids):
        """The directory of the file with so many bids; kept for the next time."""
        path = self.directory / f"bids-{bids}-{format}"
        if not path.exists():
            print(f"making {bids:,} bids as {format}", file=sys.stderr)
            unfinished = path.with_suffix(".unfinished")
            subprocess.run(["rm", "-rf", str(unfinished)], check=True)
            # 46 of 50 events are bids; the first 4 of each 50 are not.
            epochs, rest = divmod(bids, 46)
            events = epochs * 50 + (4 + rest if rest else 0)
            self.run_volley(MAKE.format(columns=COLUMNS, events=events, path=unfinished, format=format))
            unfinished.rename(path)
        return path

    def compare(self, format, bids, pairs, limit):
        path = self.make(format, bids)
        query = VOLLEY.format(columns=COLUMNS, path=path, format=format)
        nothing = self.make("json", 1)
        volley_start = min(self.run_volley(VOLLEY.format(columns=COLUMNS, path=nothing, format="json"))[0] for _ in range(3))
        duckdb_start = min(self.run_duckdb("")[0] for _ in range(3))
        source = {
            "parquet": f"read_parquet('{path}/*')",
            "json": f"read_json('{path}/*', format = 'newline_delimited', columns = "
            "{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', dateTime: 'TIMESTAMP'})",
        }[format]
        ratios, ours, theirs = [], [], []
        for _ in range(pairs):
            ours.append(self.run_volley(query)[0] - volley_start)
            cost, answer = self.run_duckdb(source)
            theirs.append(cost - duckdb_start)
            ratios.append(ours[-1] / theirs[-1])
        ratio = statistics.median(ratios)
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        print(
            f"| {format} | {bids:,} | {size / 1e6:,.0f} | {statistics.median(ours):.2f} | {statistics.median(theirs):.2f} "
            f"| {ratio:.2f} | {min(ratios):.2f} to {max(ratios):.2f} | {limit} |"
        )
        print(f"{format}: DuckDB counted (groups, bids, sum) {answer}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--volley", required=True)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--parquet-bids", type=int, default=50_000_000)
    parser.add_argument("--json-bids", type=int, default=5_000_000)
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path.home() / ".cache/volley/bench")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    comparison = Comparison(os.path.abspath(options.volley), options.directory)
    print("| file | bids | MB | Volley CPU s | DuckDB CPU s | median ratio | spread | at most |")
    print("|---|---|---|---|---|---|---|---|")
    comparison.compare("parquet", options.parquet_bids, options.pairs, 1.4)
    comparison.compare("json", options.json_bids, options.pairs, 0.6)


if __name__ == "__main__":
    main()
