//! A scheduler as a child process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Lines of a program's log that a failed test shows.
const TAIL: usize = 40;

/// A running program. It is killed when dropped.
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts the scheduler of this package, or the program that `SCHEDULER_PROGRAM` names and that
    /// takes the same arguments. Its output is appended to a log.
    pub fn start(kubeconfig: &Path, arguments: &[&str], log: &Path) -> Self {
        let program = std::env::var_os("SCHEDULER_PROGRAM")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_kubernetes-scheduler").into());
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
        Self::spawn(command, log)
    }

    /// Starts any command. Its output is appended to a log.
    pub fn spawn(mut command: Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log);
        let file = file.expect("the log can be written");
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("the log can be written twice"))
            .stderr(file)
            .spawn()
            .expect("the program can be started");
        let log = log.to_owned();
        Self { child, log }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the program still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Output of the program so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// SIGKILL: the program has no say.
    pub fn kill(mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// SIGTERM, and the exit status of a program that ends in time.
    pub fn terminate(self, within: Duration) -> ExitStatus {
        self.end("-TERM", within)
    }

    /// SIGINT, as of a person at the keyboard, and the exit status.
    pub fn interrupt(self, within: Duration) -> ExitStatus {
        self.end("-INT", within)
    }

    fn end(mut self, signal: &str, within: Duration) -> ExitStatus {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("the program `kill` is there").success());
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(begin.elapsed() < within, "the program does not stop within {within:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail if the program has ended, and then nothing is left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let output = self.output();
            let lines: Vec<&str> = output.lines().collect();
            let tail = &lines[lines.len().saturating_sub(TAIL)..];
            eprintln!("the end of {}:\n{}", self.log.display(), tail.join("\n"));
        }
    }
}

/// Resources that a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU seconds, of user and system.
    pub cpu: f64,
    /// Resident memory in MiB, and its peak.
    pub resident_mib: u64,
    pub peak_mib: u64,
}

/// Clock ticks of the kernel in a second.
const TICKS: f64 = 100.0;

/// The fields of a process's or thread's `stat` after its name; Linux only.
fn stat(path: &str) -> Option<Vec<u64>> {
    let stat = fs::read_to_string(path).ok()?;
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    // One field is a letter, and some may be negative.
    Some(fields.map(|field| field.parse().unwrap_or(0)).collect())
}

/// CPU seconds of user and system, by those fields.
fn cpu(fields: &[u64]) -> f64 {
    (fields[11] + fields[12]) as f64 / TICKS
}

impl Usage {
    /// The use of a process that runs.
    pub fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let mib = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field))?;
            Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
        };
        Some(Self {
            cpu: cpu(&stat(&format!("/proc/{pid}/stat"))?),
            resident_mib: mib("VmRSS:")?,
            peak_mib: mib("VmHWM:")?,
        })
    }
}

/// CPU seconds of the threads of a process that have a name.
pub fn thread_cpu(pid: u32, name: &str) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_name = threads.filter_map(|thread| {
        let path = thread.path();
        let found = fs::read_to_string(path.join("comm")).ok()?;
        (found.trim() == name).then(|| stat(path.join("stat").to_str()?))?
    });
    of_name.map(|fields| cpu(&fields)).sum()
}

/// When a process that runs was started.
pub fn started(pid: u32) -> Option<Instant> {
    let ticks = stat(&format!("/proc/{pid}/stat"))?[19];
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let age = Duration::try_from_secs_f64(uptime - ticks as f64 / TICKS).unwrap_or_default();
    Instant::now().checked_sub(age)
}
