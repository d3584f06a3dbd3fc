#!/usr/bin/env python3
"""The running total of many keys beside Apache Flink: in memory, in RocksDB where all fits, and in RocksDB with a tenth.

    python3 benches/state/running_total.py --volley target/release/volley [--pairs 7] [--rows 30000000] [--settings memory,fits,tenth]
    python3 benches/state/running_total.py --volley target/release/volley --resident

Both engines run the same statements in turns (A B A B …) and get the same rows, the same parallelism, mini-batch (2 s, 50,000 rows)
and, with RocksDB, the same memory: `state.backend.memory` for Volley, managed memory for Flink. A ratio is Flink's CPU seconds over
Volley's, of a pair. Flink's cluster is started once a setting (`--fresh`: once a pair), and its first run, which warms the JVM, is
dropped. The rows that fill the state count on both sides.

Flink's least: below 28.8 MB of managed memory a slot its RocksDB writes out a memtable at every turn and stalls (a third of the memory,
less an eighth, must hold a block of 8 MB). Where a tenth of the state is less, both engines get 30 MB a slot; the table says what share
of the state that is. What Flink's log says about it is repeated below the table.

The setting `source` is the same without the aggregation: what generating and dropping the rows costs in each engine.

`--resident` looks at Volley alone: whether a job whose state is ten times its memory budget stays below 1.5 times the budget and what
the same job needs with a single key.
"""

import argparse
import pathlib
import signal
import sys
import tempfile

import engines
import totals

SETTINGS = {
    "memory": "in memory",
    "fits": "RocksDB, all fits",
    "tenth": "RocksDB, a tenth fits",
    "source": "source and sink alone",
}

# Of Flink's RocksDB, in bytes a slot; see the top.
LEAST_MEMORY = 30_000_000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--volley", required=True, help="the binary (release build)")
    parser.add_argument("--flink", help="directory of Flink's distribution; default: installed from PyPI into ~/.cache/volley")
    parser.add_argument("--no-flink", action="store_true", help="Volley alone")
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--flink-rows", type=int, help="fewer rows for Flink; CPU seconds per million rows are compared then")
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=5_000_000, help="rows of Flink's run that is dropped")
    parser.add_argument("--settings", default="memory,fits,tenth", help="of " + ", ".join(SETTINGS))
    parser.add_argument("--distributions", default="uniform,zipf")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--fits-memory", type=engines.size, default=engines.size("4gb"), help="memory of RocksDB where all fits; 4gb")
    parser.add_argument("--tenth-memory", type=engines.size, help="memory of RocksDB where a tenth fits; default: a tenth of the state at 60 bytes a key, at least 30 MB a slot")
    parser.add_argument("--heap", type=engines.size, default=engines.size("6gb"), help="the JVM's heap for tasks; 6gb")
    parser.add_argument("--fresh", action="store_true", help="a new cluster for every pair")
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="where RocksDB has its files, of both engines")
    parser.add_argument("--resident", action="store_true", help="peak resident size with state ten times the memory budget")
    parser.add_argument("--budget", type=engines.size, help="with --resident: the budget; default: a tenth of the state at 60 bytes a key")
    return parser.parse_args()


class Bench:
    def __init__(self, options, directory):
        self.options = options
        self.directory = directory
        self.clusters = 0

    def script(self, engine, rows, keys, distribution, setting, memory):
        """Writes the script of an engine; gives its path."""
        engine_options = {**totals.MINI_BATCH, "parallelism.default": self.options.parallelism}
        engine_options.update(volley_options(memory, self.directory) if engine == "volley" else flink_options(memory))
        statement = totals.SOURCE_ALONE if setting == "source" else totals.TOTAL
        path = self.directory / f"{engine}-{distribution}-{setting}-{rows}-{keys}.sql"
        path.write_text(totals.script(rows, keys, distribution, engine_options, statement))
        return path

    def cluster(self, memory):
        self.clusters += 1
        home = engines.flink_home(self.options.flink)
        # Without RocksDB nothing of Flink's uses managed memory.
        managed = memory or engines.size("16mb")
        return engines.Flink(home, self.directory / f"flink-{self.clusters}", managed, self.options.heap, self.options.parallelism)

    def memory(self, distribution, setting):
        """RocksDB's memory in bytes; `None` without RocksDB."""
        if setting == "fits":
            return self.options.fits_memory
        if setting == "tenth":
            tenth = totals.state_bytes(self.options.rows, self.options.keys, distribution) // 10
            return self.options.tenth_memory or max(tenth, LEAST_MEMORY * self.options.parallelism)
        return None

    def compare(self, distribution, setting):
        """Runs the pairs of a setting; prints their row."""
        options = self.options
        memory = self.memory(distribution, setting)
        flink_rows = options.flink_rows or options.rows
        mine = self.script("volley", options.rows, options.keys, distribution, setting, memory)
        theirs = self.script("flink", flink_rows, options.keys, distribution, setting, memory)
        warm_up = self.script("flink", min(options.warm_up, flink_rows), options.keys, distribution, setting, memory)
        volley, flink, notes, cluster = [], [], set(), None
        try:
            for _ in range(options.pairs):
                volley.append(engines.volley(options.volley, mine))
                if options.no_flink:
                    continue
                if cluster is None:
                    cluster = self.cluster(memory)
                    cluster.run(warm_up)
                flink.append(cluster.run(theirs))
                notes |= warnings(cluster)
                if options.fresh:
                    cluster.close()
                    cluster = None
        finally:
            if cluster is not None:
                cluster.close()
        print(line(options, distribution, setting, memory, volley, flink), flush=True)
        return notes


def volley_options(memory, directory):
    if memory is None:
        return {"state.backend.type": "hashmap"}
    return {"state.backend.type": "rocksdb", "state.backend.memory": f"{memory} b", "state.backend.rocksdb.localdir": directory / "rocksdb"}


def flink_options(memory):
    backend = "hashmap" if memory is None else "rocksdb"
    return {"state.backend.type": backend, "pipeline.object-reuse": "true"}


def warnings(cluster):
    """What Flink's log says about its memory."""
    marker = "RocksDBStateBackend performance will be poor"
    return {marker + " " + text.partition(marker)[2].strip() for text in cluster.log().splitlines() if marker in text}


def per_million(costs, rows):
    return [cost.cpu / rows * 1e6 for cost in costs]


def line(options, distribution, setting, memory, volley, flink):
    mine = per_million(volley, options.rows)
    state = totals.state_bytes(options.rows, options.keys, distribution)
    cells = [
        distribution,
        SETTINGS[setting],
        "–" if memory is None else f"{engines.megabytes(memory)} ({memory / state * 100:.0f} %)",
        f"{engines.median(mine):.3f}",
        f"{engines.median([cost.wall for cost in volley]):.1f}",
        engines.megabytes(max(cost.peak for cost in volley)),
    ]
    if flink:
        theirs = per_million(flink, options.flink_rows or options.rows)
        cells += [
            f"{engines.median(theirs):.3f}",
            f"{engines.median([cost.wall for cost in flink]):.1f}",
            engines.megabytes(max(cost.peak for cost in flink)),
            engines.ratio([b / a for a, b in zip(mine, theirs)]),
        ]
    else:
        cells += ["–"] * 4
    return "| " + " | ".join(cells) + " |"


def compare_all(bench):
    options = bench.options
    flink_rows = options.flink_rows or options.rows
    print(f"Machine: {engines.machine()}. {options.rows:,} rows ({flink_rows:,} for Flink), keys of {options.keys:,}, parallelism {options.parallelism}.")
    for distribution in options.distributions.split(","):
        keys = totals.expected_keys(options.rows, options.keys, distribution)
        print(f"{distribution}: about {keys:,.0f} keys come, {engines.megabytes(totals.state_bytes(options.rows, options.keys, distribution))} MB of state at {totals.STATE_BYTES_OF_KEY} bytes a key.")
    print()
    print("| keys | state | memory of RocksDB, MB (of the state) | Volley CPU s / million | wall s | peak MB | Flink CPU s / million | wall s | peak MB | times fewer CPU seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    notes = set()
    for distribution in options.distributions.split(","):
        for setting in options.settings.split(","):
            notes |= bench.compare(distribution, setting)
    for note in sorted(notes):
        print(f"Flink's log: {note}")


def resident(bench):
    """State ten times the budget: does the peak stay below 1.5 times the budget and what the job needs with a single key?"""
    options = bench.options
    print(f"Machine: {engines.machine()}. {options.rows:,} rows, parallelism {options.parallelism}.\n")
    print("| keys | state, MB | budget, MB | peak with one key, MB | peak, MB | limit, MB | below it | CPU s / million |")
    print("|---|---|---|---|---|---|---|---|")
    for distribution in options.distributions.split(","):
        state = totals.state_bytes(options.rows, options.keys, distribution)
        budget = options.budget or state // 10
        # One key: the same rows, and the same work but for the state. The bound 1 of a key makes all keys 0 or 1.
        run = lambda keys: engines.volley(options.volley, bench.script("volley", options.rows, keys, distribution, "resident", budget))
        empty, full = run(1), run(options.keys)
        limit = empty.peak + 1.5 * budget
        verdict = "yes" if full.peak < limit else "no"
        figures = [engines.megabytes(number) for number in (state, budget, empty.peak, full.peak, limit)]
        print("| " + " | ".join([distribution, *figures, verdict, f"{full.cpu / options.rows * 1e6:.3f}"]) + " |", flush=True)


def main():
    # Ends the cluster, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="volley-totals-", dir=options.directory) as name:
        bench = Bench(options, pathlib.Path(name))
        (resident if options.resident else compare_all)(bench)


if __name__ == "__main__":
    main()
