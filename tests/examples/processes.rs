//! Every example as a process: wrong arguments, files that are not there, a full disk, a reader that
//! goes away, an interrupt.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The names of all examples: files, and folders with a program.
fn names() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let entries = fs::read_dir(folder).expect("the examples are there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let programs = paths.filter(|path| {
        // A package of its own has tests of its own.
        let is_package = path.join("Cargo.toml").exists();
        path.extension().is_some_and(|end| end == "rs")
            || !is_package && path.join("main.rs").exists()
    });
    let name = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut names: Vec<String> = programs.map(name).collect();
    names.sort();
    assert!(names.len() > 14, "{names:?}");
    names
}

/// A program beside this one, in a folder of its own, which is empty.
fn program(name: &str, scene: &str) -> (Command, PathBuf) {
    let tests = std::env::current_exe().expect("this program has a path");
    let folder = tests.ancestors().nth(2).expect("it is in `deps`").join("examples");
    let path = folder.join(name);
    assert!(path.exists(), "{} is built by `cargo test --features full`", path.display());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("process-{scene}-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder can be made");
    let mut command = Command::new(path);
    command.current_dir(&folder).stdin(Stdio::null());
    (command, folder)
}

fn run(name: &str, arguments: &[&str]) -> Output {
    program(name, "run").0.args(arguments).output().expect("it starts")
}

/// Exit code 2, one sentence on standard error that has a part, and nothing on standard output.
#[track_caller]
fn is_fault(name: &str, output: &Output, part: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{name}: {error}");
    let first = error.lines().next().expect("a line");
    assert!(first.starts_with("error: ") && first.contains(part), "{name}: {error}");
}

fn help(name: &str) -> String {
    let output = run(name, &["--help"]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{name}");
    String::from_utf8(output.stdout).expect("text")
}

/// Options that take one of some words, by a usage text: `--name WORD`.
fn options(usage: &str, word: &str) -> Vec<String> {
    let words: Vec<&str> =
        usage.split(|c: char| c.is_whitespace() || "[]|,`".contains(c)).collect();
    let pairs = words.windows(2).filter(|pair| pair[0].starts_with("--") && pair[1] == word);
    let mut options: Vec<String> = pairs.map(|pair| pair[0].to_owned()).collect();
    options.sort();
    options.dedup();
    options
}

#[test]
fn wrong_arguments_are_misuse() {
    for name in names() {
        is_fault(&name, &run(&name, &["--nothing"]), "--nothing");
        is_fault(&name, &run(&name, &["nothing"]), "nothing");
        assert!(help(&name).contains("Usage: "), "{name}");
    }
}

#[test]
fn a_complaint_does_not_repeat_all_of_a_long_input() {
    let long = "x".repeat(100_000);
    for name in names() {
        let output = run(&name, &[&long]);
        is_fault(&name, &output, "xxx");
        assert!(output.stderr.len() < 20_000, "{name}: {}", output.stderr.len());
    }
}

#[cfg(unix)]
#[test]
fn arguments_that_are_no_text_are_misuse() {
    use std::os::unix::ffi::OsStrExt;
    for name in names() {
        let odd = std::ffi::OsStr::from_bytes(b"--\xff");
        let output = program(&name, "text").0.arg(odd).output().expect("it starts");
        is_fault(&name, &output, "is not UTF-8");
    }
}

/// Each option that takes a file, with no file, a folder, a file that may not be read, and broken gzip.
#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let file = |name: &str, bytes: &[u8]| {
        let path = format!("{folder}/process-{name}");
        fs::write(&path, bytes).expect("the folder of tests can be written");
        path
    };
    let gzip = file("gzip", &[0x1f, 0x8b, 8, 0, 0, 1]);
    let closed = file("closed", b"");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("it is ours");
    }
    let mut tried = 0;
    for name in names() {
        for option in options(&help(&name), "FILE") {
            // Pictures are written at the end: `bad_input` has that.
            if option == "--svg" {
                continue;
            }
            tried += 1;
            for path in ["no/such/file", folder, &gzip, &closed] {
                // A user who may read everything reads it.
                if path == closed && File::open(&closed).is_ok() {
                    continue;
                }
                let output = run(&name, &[&option, path]);
                let error = String::from_utf8_lossy(&output.stderr);
                let code = (output.status.code(), output.stdout.len());
                assert_eq!(code, (Some(2), 0), "{name} {option} {path}: {error}");
                assert!(error.starts_with("error: "), "{name} {option} {path}: {error}");
                // Options that go together are missed before a file is opened.
                let is_alone = !error.contains(path);
                assert!(!is_alone || error.contains("--"), "{name} {option} {path}: {error}");
            }
        }
    }
    assert!(tried > 5, "{tried} options take a file");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_fault_and_a_closed_pipe_is_none() {
    for name in names() {
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = program(&name, "full").0.arg("--help").stdout(full).output();
        is_fault(&name, &output.expect("it starts"), "standard output: ");
        let (mut command, _) = program(&name, "pipe");
        let mut child = piped(command.arg("--help"));
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*error), (Some(0), ""), "{name}");
    }
}

fn piped(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// An interrupt ends a program at once: by the signal, unless it had ended. No line is in part, and
/// nothing lies in its folder but a picture that is whole.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_leaves_nothing_in_part() {
    use std::os::unix::process::ExitStatusExt;
    const INTERRUPT: i32 = 2;
    let mut interrupted = 0;
    for name in names() {
        let (command, folder) = program(&name, "interrupt");
        // A shell has what it runs in the background ignore interrupts, and that is passed on.
        let mut heeding = Command::new("env");
        heeding.arg("--default-signal=INT").arg(command.get_program());
        let mut command = heeding;
        command.current_dir(&folder).stdin(Stdio::null());
        if options(&help(&name), "FILE").iter().any(|option| option == "--svg") {
            command.args(["--svg", "picture.svg"]);
        }
        match &*name {
            "simulate" => {
                let jobs = "/examples/conformance/data/backfill-streams.jsonl.gz";
                command.args(["--jobs", &format!("{}{jobs}", env!("CARGO_MANIFEST_DIR"))]);
                command.args(["--format", "stream", "--policy", "fcfs,easy,conservative"]);
            }
            "throughput" => drop(command.args(["--nodes", "2000", "--pods", "20000"])),
            _ => {}
        }
        let child = piped(&mut command);
        std::thread::sleep(Duration::from_millis(150));
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).output();
        sent.expect("the program `kill` is there");
        let output = child.wait_with_output().expect("it ends");
        let error = String::from_utf8_lossy(&output.stderr);
        let is_interrupted = output.status.signal() == Some(INTERRUPT);
        assert!(is_interrupted || output.status.success(), "{name}: {:?} {error}", output.status);
        interrupted += usize::from(is_interrupted);
        assert!(output.stdout.last().is_none_or(|last| *last == b'\n'), "{name} in part");
        assert!(!error.contains("panicked"), "{name}: {error}");
        for entry in fs::read_dir(&folder).expect("it is there") {
            let path = entry.expect("it can be read").path();
            let text = fs::read_to_string(&path).expect("text");
            let is_whole = path.ends_with("picture.svg") && text.trim_end().ends_with("</svg>");
            assert!(is_whole, "{name} leaves {}", path.display());
        }
    }
    assert!(interrupted > 2, "{interrupted} programs ran so long");
}
