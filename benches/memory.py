"""Resident memory of a window job over a large input: hard links to one file of 5 million bids, 10 GB in all.

Every link is a file, and so a split, of its own; all cover the same time, so all are read side by side.

    python benches/memory.py --volley target/release/volley [--gigabytes 10] [--format json]
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3)"

MAKE = """
CREATE TABLE bid ({columns}) WITH ('connector' = 'nexmark', 'table' = 'bid', 'events.num' = '5434783');
CREATE TABLE file ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}');
INSERT INTO file SELECT * FROM bid;
"""

JOB = """
SET 'parallelism.default' = '{parallelism}';
CREATE TABLE bid ({columns}, WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}');
CREATE TABLE result (auction BIGINT, window_start TIMESTAMP(3), bids BIGINT, total BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO result
SELECT auction, window_start, COUNT(*), SUM(price)
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;
"""


def run(volley, directory, sql):
    """Runs a script; returns wall seconds, CPU seconds and peak resident bytes."""
    script = directory / "job.sql"
    script.write_text(sql)
    start = time.time()
    process = subprocess.Popen([volley, "run", str(script)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{script} failed")
    return time.time() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--volley", required=True)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--format", default="json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=pathlib.Path.home()) as name:
        directory = pathlib.Path(name)
        made, links = directory / "made", directory / "links"
        links.mkdir()
        run(options.volley, directory, MAKE.format(columns=COLUMNS, path=made, format=options.format))
        file = next(path for path in made.iterdir() if not path.name.startswith("."))
        count = max(1, round(options.gigabytes * 1e9 / file.stat().st_size))
        for number in range(count):
            os.link(file, links / f"part-{number:03}.{options.format}")
        total = count * file.stat().st_size
        print(f"{count} links, {total / 1e9:.1f} GB of {options.format}")
        for parallelism in (1, 2):
            sql = JOB.format(columns=COLUMNS, path=links, format=options.format, parallelism=parallelism)
            wall, cpu, peak = run(options.volley, directory, sql)
            print(f"parallelism {parallelism}: {wall:.1f} s, {cpu:.1f} CPU s, {total / 1e6 / wall:.0f} MB/s, peak {peak / 1e6:.0f} MB resident")


main()
