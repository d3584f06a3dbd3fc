"""Runs a script in Volley and in Apache Flink, and says what it cost. Linux only.

Volley is a process a job. Flink is a standalone cluster on the loopback interface: one JobManager, one TaskManager, to which a
small client (`FlinkJob.java`) sends jobs. What counts for Flink is its TaskManager alone; its JobManager and its client, which
plans the query, are left out. Volley's figure is the whole process with all that.
"""

import dataclasses
import json
import math
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

FLINK_VERSION = "2.2.1"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Cost:
    """What a job cost."""

    cpu: float
    """Seconds, user and system, all threads."""
    wall: float
    """Seconds."""
    peak: int
    """The most resident bytes."""
    errors: str = ""
    """What it wrote to standard error."""


# --- Volley ---------------------------------------------------------------------------------------------------------------


def volley(binary, script, options=(), arguments=(), may_fail=False):
    """Runs a script to its end; gives its Cost, or `None` where it failed and may."""
    command = [str(binary), "run", *arguments]
    for option in options:
        command += ["-D", option]
    start = time.monotonic()
    process = subprocess.Popen(command + [str(script)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    # Read beside: a full pipe would stop the job.
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr))
    reader.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    reader.join()
    errors = b"".join(lines).decode(errors="replace")
    if process.returncode != 0:
        if may_fail:
            return None
        sys.exit(f"{' '.join(command)} {script} failed:\n{errors}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024, errors)


# --- Flink ----------------------------------------------------------------------------------------------------------------


def flink_home(given):
    """The directory of Flink's distribution: the given one, or that of the Python packages, installed on first use (320 MB)."""
    if given:
        return pathlib.Path(given).expanduser().resolve()
    venv = pathlib.Path.home() / ".cache/volley/flink-venv"
    found = list(venv.glob("lib/python3*/site-packages/pyflink"))
    if not found:
        print(f"installing Flink {FLINK_VERSION} into {venv} with pip", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        packages = [f"apache-flink-libraries=={FLINK_VERSION}", f"apache-flink=={FLINK_VERSION}"]
        subprocess.run([venv / "bin/pip", "install", "--quiet", "--no-deps", *packages], check=True)
        found = list(venv.glob("lib/python3*/site-packages/pyflink"))
    return found[0]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Flink:
    """A cluster. `close` ends its processes."""

    def __init__(self, home, directory, managed, heap, slots):
        """`managed` and `heap` are bytes: what RocksDB gets, and what the JVM gets for tasks."""
        self.home = home
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.port = free_port()
        self.processes = []
        self.task_manager = None
        self._configure(managed, heap, slots)
        self._compile()
        try:
            self._start("jobmanager.sh")
            self.task_manager = self._start("taskmanager.sh")
            self._await_slots(slots)
        except BaseException:
            self.close()
            raise

    def _configure(self, managed, heap, slots):
        conf = self.directory / "conf"
        shutil.copytree(self.home / "conf", conf)
        # The options of the JVM that the distribution's own file has, and beside them only these.
        java = next(line.split(":", 1)[1].strip() for line in (conf / "config.yaml").read_text().splitlines() if line.strip().startswith("all:"))
        options = {
            "env.java.opts.all": java,
            "env.java.opts.taskmanager": "-XX:+UseG1GC",
            "jobmanager.rpc.address": "localhost",
            "jobmanager.rpc.port": free_port(),
            "jobmanager.bind-host": "localhost",
            "jobmanager.memory.process.size": "1200m",
            "taskmanager.host": "localhost",
            "taskmanager.bind-host": "localhost",
            "taskmanager.memory.managed.size": f"{managed}b",
            "taskmanager.memory.task.heap.size": f"{heap}b",
            "taskmanager.memory.framework.heap.size": "128m",
            "taskmanager.memory.network.min": "64m",
            "taskmanager.memory.network.max": "64m",
            "taskmanager.numberOfTaskSlots": slots,
            "rest.address": "localhost",
            "rest.bind-address": "localhost",
            "rest.port": self.port,
            "rest.bind-port": self.port,
            "io.tmp.dirs": self.directory / "tmp",
        }
        (self.directory / "tmp").mkdir()
        (conf / "config.yaml").write_text("".join(f'{key}: "{value}"\n' for key, value in options.items()))

    def _compile(self):
        """The client, once a cluster."""
        source = pathlib.Path(__file__).with_name("FlinkJob.java")
        subprocess.run(["javac", "-nowarn", "-proc:none", "-cp", self._jars(), "-d", self.directory / "classes", source], check=True)

    def _jars(self):
        return ":".join(str(jar) for jar in sorted((self.home / "lib").glob("*.jar")))

    def _environment(self):
        return {
            **os.environ,
            "FLINK_HOME": str(self.home),
            "FLINK_CONF_DIR": str(self.directory / "conf"),
            "FLINK_LOG_DIR": str(self.directory / "log"),
            "TZ": "UTC",
        }

    def _start(self, script):
        (self.directory / "log").mkdir(exist_ok=True)
        log = open(self.directory / "log" / f"{script}.out", "wb")
        command = ["bash", self.home / "bin" / script, "start-foreground"]
        process = subprocess.Popen(command, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.processes.append(process)
        return process

    def _await_slots(self, slots):
        url = f"http://localhost:{self.port}/overview"
        for _ in range(600):
            if any(process.poll() is not None for process in self.processes):
                break
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    if f'"slots-available":{slots}' in answer.read().decode().replace(" ", ""):
                        return
            except OSError:
                pass
            time.sleep(0.2)
        sys.exit(f"Flink does not start:\n{self.log()[-4000:]}")

    def log(self):
        """All that its processes wrote."""
        return "".join(path.read_text(errors="replace") for path in sorted((self.directory / "log").glob("*")))

    def run(self, script):
        """Runs a script to its end; gives the Cost of the TaskManager."""
        pid = self.task_manager.pid
        forget_peak(pid)
        before, start = cpu_seconds(pid), time.monotonic()
        classes = f"{self.directory / 'classes'}:{self._jars()}"
        opens = next(line for line in (self.directory / "conf/config.yaml").read_text().splitlines() if line.startswith("env.java.opts.all"))
        client = subprocess.run(
            ["java", *opens.split('"')[1].split(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-cp", classes, "FlinkJob", str(self.port), str(script)],
            stdin=subprocess.DEVNULL, capture_output=True,
        )
        if client.returncode != 0:
            sys.exit(f"Flink failed at {script}:\n{client.stderr.decode(errors='replace')[-4000:]}\n{self.log()[-4000:]}")
        return Cost(cpu_seconds(pid) - before, self._last_duration() or time.monotonic() - start, peak_bytes(pid))

    def _last_duration(self):
        """Seconds from the start to the end of the newest job, without the client's planning."""
        with urllib.request.urlopen(f"http://localhost:{self.port}/jobs/overview", timeout=30) as answer:
            jobs = json.load(answer)["jobs"]
        return max(jobs, key=lambda job: job["start-time"])["duration"] / 1000 if jobs else None

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def cpu_seconds(pid):
    """User and system time of a running process, all threads."""
    # The command's name, in brackets, may hold spaces.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def forget_peak(pid):
    """The peak counts from now on, where the kernel lets us."""
    try:
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        pass


# --- figures --------------------------------------------------------------------------------------------------------------


def median(numbers):
    return statistics.median(numbers)


def interval(numbers):
    """Where the median of what such numbers are drawn from lies with at least 95 % (by the signs of the differences); None of fewer than six."""
    count = len(numbers)
    below = 0
    cut = -1
    # As many from each end as together happen in one case of twenty.
    while (below := below + math.comb(count, cut + 1)) / 2**count <= 0.025:
        cut += 1
    ordered = sorted(numbers)
    return (ordered[cut], ordered[count - 1 - cut]) if cut >= 0 else None


def ratio(numbers):
    """The median of ratios with their spread, for a cell of a table."""
    if len(numbers) == 1:
        return f"{numbers[0]:.1f} (one pair)"
    return f"{median(numbers):.1f} ({min(numbers):.1f} to {max(numbers):.1f}, {len(numbers)} pairs)"


def size(text):
    """`64mb` as bytes."""
    text = text.strip().lower().replace(" ", "").replace(",", "")
    for unit, factor in (("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1), ("", 1)):
        if unit == "" or text.endswith(unit):
            return int(float(text[: len(text) - len(unit)]) * factor)
    raise ValueError(text)


def megabytes(number):
    return f"{number / 1e6:,.0f}"


def machine():
    """A line that says where and when, for the head of a table."""
    load = os.getloadavg()
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown processor")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} cores of {model}, {memory:.0f} GiB; {time.strftime('%Y-%m-%d')}; load {load[0]:.1f} at the start"
