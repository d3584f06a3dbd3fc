#!/usr/bin/env python3
"""What checkpoints of a running total cost: throughput, bytes, pauses, and restoring.

    python3 benches/state/checkpoints.py --volley target/release/volley --costs target/release/checkpoint_costs

- Throughput: the job without and with incremental checkpoints at an interval (1 s), in turns (A B B A …); the ratio of a pair is time
  (or CPU seconds) with them over that without.
- Bytes: each checkpoint's own bytes beside the keys that changed since the one before, from its manifest. A checkpoint is read as soon as
  it is complete, for the job removes old ones: in a run of its own, for whoever looks takes time from the job.
- Pauses: how long an operator stood still to give its state (`checkpointSyncDurationMs` of `volley run --metrics`).
- Restoring: the last checkpoint of a job that has finished, by the same job, which then has nothing to do; less a start of the job on no
  rows. Then, in one process, beside reading and checksumming the same bytes, and what writing a change costs beside Arrow IPC
  (`checkpoint_costs`).
"""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

import engines
import totals


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--volley", required=True, help="the binary (release build)")
    parser.add_argument("--costs", help="the program checkpoint_costs; without it the last tables are left out")
    parser.add_argument("--rows", type=int, default=200_000_000)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--distributions", default="zipf,uniform")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--interval", default="1 s")
    parser.add_argument("--memory", help="state in RocksDB with so much memory, e.g. 1gb; default: state in memory")
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="where checkpoints and RocksDB's files lie")
    parser.add_argument("--each", action="store_true", help="a line for every checkpoint of the run that is watched")
    return parser.parse_args()


class Watcher(threading.Thread):
    """Reads the manifests of a directory of checkpoints as they appear."""

    def __init__(self, directory):
        super().__init__(daemon=True)
        self.directory = directory
        self.manifests = {}
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            self.look()
        self.look()

    def look(self):
        for path in self.directory.glob("chk-*/manifest.json"):
            number = int(path.parent.name[4:])
            if number in self.manifests:
                continue
            try:
                text = path.read_bytes()
                self.manifests[number] = (len(text), json.loads(text))
            except (OSError, ValueError):
                # Gone again, or a write that is still under way.
                pass

    def stop(self):
        self.over.set()
        self.join()
        return self.manifests


class Delta:
    """What one checkpoint added."""

    def __init__(self, number, manifest_bytes, manifest):
        self.number = number
        self.manifest_bytes = manifest_bytes
        own = f"chk-{number}/"
        operators = manifest["operators"].values()
        self.segments = [segment for operator in operators for segment in operator["segments"] if segment["checkpoint"] == number]
        self.keys = sum(rows_of(segment) for segment in self.segments)
        self.is_whole = any(segment["whole"] for segment in self.segments)
        # Segments that were merged since have later files in the directories of older checkpoints.
        self.bytes = sum(length for file, length in manifest["files"].items() if file.startswith(own))
        pieces = [piece for operator in operators for segment in operator["segments"] for piece in pieces_of(segment)]
        self.full_bytes = sum(piece["bytes"] for piece in pieces)


def pieces_of(segment):
    for bucket in segment["buckets"]:
        if bucket.get("gone"):
            yield bucket["gone"]
        yield from bucket["tables"].values()


def rows_of(segment):
    """The keys that a segment speaks for: those it has rows of, one each, and those that are gone."""
    count = 0
    for bucket in segment["buckets"]:
        rows = [piece["rows"] for piece in bucket["tables"].values()]
        count += max(rows, default=0) + (bucket["gone"]["rows"] if bucket.get("gone") else 0)
    return count


class Run:
    """One run with checkpoints."""

    def __init__(self, cost, manifests):
        self.cost = cost
        self.deltas = [Delta(number, *manifests[number]) for number in sorted(manifests)]
        self.metrics = {}
        for text in cost.errors.splitlines():
            name, _, value = text.partition(" ")
            try:
                self.metrics[name] = float(value)
            except ValueError:
                pass


class Bench:
    def __init__(self, options, directory):
        self.options = options
        self.directory = directory
        self.runs = 0
        self.shows_metrics = "--metrics" in subprocess.run([options.volley, "run", "--help"], capture_output=True, text=True).stdout
        if not self.shows_metrics:
            print("This binary does not know 'run --metrics': pauses are left out.\n")

    def script(self, distribution, rows):
        options = {**totals.MINI_BATCH, "parallelism.default": self.options.parallelism, "pipeline.name": "running-total"}
        if self.options.memory:
            options["state.backend.type"] = "rocksdb"
            options["state.backend.memory"] = f"{engines.size(self.options.memory)} b"
            options["state.backend.rocksdb.localdir"] = self.directory / "rocksdb"
        path = self.directory / f"{distribution}-{rows}.sql"
        path.write_text(totals.script(rows, self.options.keys, distribution, options))
        return path

    def without(self, distribution):
        return engines.volley(self.options.volley, self.script(distribution, self.options.rows))

    def with_checkpoints(self, distribution, watched=False):
        """Gives the Run, with its checkpoints if they are watched, and the directory in which the last one stays."""
        self.runs += 1
        checkpoints = self.directory / f"checkpoints-{self.runs}"
        checkpoints.mkdir()
        options = [
            f"execution.checkpointing.interval={self.options.interval}",
            "execution.checkpointing.incremental=true",
            f"execution.checkpointing.dir={checkpoints}",
            "execution.checkpointing.num-retained=3",
        ]
        watcher = Watcher(checkpoints)
        if watched:
            watcher.start()
        try:
            more = ["--metrics"] if self.shows_metrics else []
            cost = engines.volley(self.options.volley, self.script(distribution, self.options.rows), options, more)
        finally:
            manifests = watcher.stop() if watched else {}
        return Run(cost, manifests), checkpoints

    def compare(self, distribution):
        """The pairs of a distribution, then a run whose checkpoints are watched; gives the runs and the directory of the last one."""
        plain, runs = [], []
        for pair in range(self.options.pairs):
            if pair % 2 == 0:
                plain.append(self.without(distribution))
            run, checkpoints = self.with_checkpoints(distribution)
            runs.append(run)
            subprocess.run(["rm", "-r", str(checkpoints)], check=True)
            if pair % 2 == 1:
                plain.append(self.without(distribution))
        watched, kept = self.with_checkpoints(distribution, watched=True)
        return plain, runs, watched, kept

    def restore(self, distribution, checkpoints):
        """Pairs of a start on nothing and a restore; gives the seconds, and the path of the checkpoint."""
        path = newest(checkpoints)
        empty = self.script(distribution, 0)
        full = self.script(distribution, self.options.rows)
        seconds = []
        for _ in range(self.options.pairs):
            nothing = engines.volley(self.options.volley, empty)
            restored = engines.volley(self.options.volley, full, [f"execution.state-recovery.path={path}"])
            seconds.append(restored.wall - nothing.wall)
        return seconds, path


def newest(checkpoints):
    numbers = [int(path.parent.name[4:]) for path in checkpoints.glob("chk-*/manifest.json")]
    return checkpoints / f"chk-{max(numbers)}"


def percent(numbers):
    show = lambda number: f"{(number - 1) * 100:+.1f} %"
    between = engines.interval(numbers)
    sure = f"95 % between {show(between[0])} and {show(between[1])}; " if between else ""
    return f"{show(engines.median(numbers))} ({sure}{show(min(numbers))} to {show(max(numbers))}, {len(numbers)} pairs)"


def throughput_row(options, distribution, plain, runs):
    rate = lambda costs: f"{options.rows / engines.median([cost.wall for cost in costs]) / 1e6:.2f}"
    costs = [run.cost for run in runs]
    checkpoints = engines.median([run.metrics.get("checkpointDurationMs.count", 0) for run in runs])
    return [
        distribution,
        f"{checkpoints:.0f}",
        rate(plain),
        rate(costs),
        percent([with_.wall / without.wall for without, with_ in zip(plain, costs)]),
        percent([with_.cpu / without.cpu for without, with_ in zip(plain, costs)]),
        f"{max(cost.peak for cost in costs) / 1e6:,.0f}",
    ]


def bytes_row(distribution, run):
    """Of all checkpoints that hold what changed alone; the first of a job and the last of a job that ended are not among them."""
    deltas = [delta for delta in run.deltas if not delta.is_whole and delta.keys > 0]
    if not deltas:
        return [distribution, "no checkpoint holds what changed alone: more rows, or a shorter interval"]
    keys = [delta.keys for delta in deltas]
    each = [delta.bytes / delta.keys for delta in deltas]
    share = [delta.bytes / delta.full_bytes for delta in deltas]
    return [
        distribution,
        str(len(deltas)),
        f"{engines.median(keys):,.0f}",
        f"{min(keys):,} to {max(keys):,}",
        engines.megabytes(engines.median([delta.bytes for delta in deltas])),
        f"{engines.median(each):.1f} ({min(each):.1f} to {max(each):.1f})",
        engines.megabytes(max(delta.full_bytes for delta in deltas)),
        f"{engines.median(share) * 100:.1f} %",
    ]


def pause_row(distribution, runs):
    cells = [distribution]
    for name in ("checkpointSyncDurationMs", "checkpointDurationMs"):
        for part, combine in (("count", sum), ("p50", engines.median), ("p99", max), ("max", max)):
            values = [run.metrics[f"{name}.{part}"] for run in runs if f"{name}.{part}" in run.metrics]
            if values:
                cells.append(f"{combine(values):,.0f}" if part == "count" else f"{combine(values):,.2f}")
            else:
                cells.append("–")
    return cells


def print_row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def print_head(title, cells):
    print(f"\n{title}\n")
    print_row(cells)
    print_row(["---"] * len(cells))


def print_each(distribution, run):
    print_head(f"Checkpoints of one run, {distribution} keys", ["checkpoint", "keys", "whole", "bytes", "bytes a key", "manifest", "bytes of all it consists of"])
    for delta in run.deltas:
        each = f"{delta.bytes / delta.keys:.1f}" if delta.keys else "–"
        print_row([str(delta.number), f"{delta.keys:,}", "yes" if delta.is_whole else "no", f"{delta.bytes:,}", each, f"{delta.manifest_bytes:,}", f"{delta.full_bytes:,}"])


def costs(program, *more):
    print(flush=True)
    subprocess.run([program, *map(str, more)], check=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="volley-checkpoints-", dir=options.directory) as name:
        bench = Bench(options, pathlib.Path(name))
        state = f"RocksDB with {options.memory}" if options.memory else "memory"
        print(f"Machine: {engines.machine()}. {options.rows:,} rows, keys of {options.keys:,}, parallelism {options.parallelism}, state in {state}, a checkpoint every {options.interval}.")
        results = {distribution: bench.compare(distribution) for distribution in options.distributions.split(",")}
        print_head(
            "Throughput",
            ["keys", "checkpoints a run", "without, million rows/s", "with", "time", "CPU seconds", "peak MB"],
        )
        for distribution, (plain, runs, _, _) in results.items():
            print_row(throughput_row(options, distribution, plain, runs))
        print_head(
            "Bytes of checkpoints",
            ["keys", "checkpoints", "keys changed, median", "least and most", "MB, median", "bytes a changed key", "MB of all a checkpoint consists of, most", "written of these"],
        )
        for distribution, (_, _, watched, _) in results.items():
            print_row(bytes_row(distribution, watched))
        print_head(
            "Pauses of one operator instance, and checkpoints from the trigger until they are durable, ms",
            ["keys", "pauses", "p50", "p99 (worst run)", "longest", "checkpoints", "p50", "p99 (worst run)", "longest"],
        )
        for distribution, (_, runs, _, _) in results.items():
            print_row(pause_row(distribution, runs))
        if options.each:
            for distribution, (_, _, watched, _) in results.items():
                print_each(distribution, watched)
        print_head("Restoring a finished job, less a start on nothing", ["keys", "seconds", "least and most"])
        paths = []
        for distribution, (_, _, _, kept) in results.items():
            seconds, path = bench.restore(distribution, kept)
            paths.append(path)
            print_row([distribution, f"{engines.median(seconds):.2f}", f"{min(seconds):.2f} to {max(seconds):.2f}"])
        if options.costs:
            print("\nRestoring beside reading the same bytes, in one process")
            for path in paths:
                costs(options.costs, "restore", path, "--pairs", options.pairs)
            print("\nWriting a change beside writing it as Arrow IPC")
            costs(options.costs, "changes", "--pairs", options.pairs, "--directory", options.directory)


if __name__ == "__main__":
    main()
