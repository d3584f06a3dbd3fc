//! Runs a command and says what it cost: CPU seconds, wall seconds, peak memory.
//!
//! Linux only: the kernel adds the CPU time of a finished child to its parent's `/proc/self/stat`, and keeps the peak of a
//! running one in `/proc/PID/status`.

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a command cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// User and system time, all threads.
    pub cpu_seconds: f64,
    /// From start to end.
    pub wall_seconds: f64,
    /// The most resident memory, in bytes.
    pub peak_bytes: u64,
}

/// Clock ticks of a second in `/proc`; Linux has 100 on every machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// Runs a command to its end, its output thrown away. An error holds what it wrote to standard error.
pub fn run(command: &mut Command) -> io::Result<Cost> {
    let before = children_cpu_seconds()?;
    let started = Instant::now();
    let errors = tempfile();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&errors)?)
        .spawn()?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_bytes = 0;
    let status = loop {
        peak_bytes = peak_bytes.max(peak_of(&status_file));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let wall_seconds = started.elapsed().as_secs_f64();
    let message = fs::read_to_string(&errors).unwrap_or_default();
    fs::remove_file(&errors)?;
    if !status.success() {
        return Err(io::Error::other(format!("{status}\n{message}")));
    }
    Ok(Cost {
        cpu_seconds: children_cpu_seconds()? - before,
        wall_seconds,
        peak_bytes,
    })
}

fn tempfile() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("volley-bench-{}.err", std::process::id()))
}

fn children_cpu_seconds() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The command's name, in brackets, may hold spaces; user and system time of children are the 14th and 15th behind it.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let ticks: Option<f64> = [13, 14]
        .into_iter()
        .map(|index| fields.get(index)?.parse::<f64>().ok())
        .sum();
    ticks
        .map(|ticks| ticks / TICKS_PER_SECOND)
        .ok_or_else(|| io::Error::other("/proc/self/stat is not as expected"))
}

fn peak_of(status_file: &str) -> u64 {
    let status = fs::read_to_string(status_file).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_command_costs_and_a_failing_one_says_why() {
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let cost = run(Command::new("sh").args(["-c", busy])).unwrap();
        assert!(cost.cpu_seconds > 0.0 && cost.wall_seconds > 0.0 && cost.peak_bytes > 0);
        let error = run(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("no"), "{error}");
    }
}
