//! The program as a process: wrong arguments and files, a reader that goes away, a full disk, an interrupt.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Output, Stdio};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_conformance"))
}

fn file(name: &str, bytes: &[u8]) -> String {
    let path = format!("{}/process-{name}", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, bytes).expect("the folder of tests can be written");
    path
}

/// A file of one case that fails by name.
fn one(name: &str) -> String {
    file(name, b"{\"name\": \"odd\"}\n")
}

/// Exit code 2, one line on standard error that has a part, and nothing on standard output.
#[track_caller]
fn is_fault(output: &Output, part: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{error}");
    let first = error.lines().next().expect("a line");
    assert!(first.starts_with("error: ") && first.contains(part), "{error}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let good = one("good.jsonl");
    for (path, part) in [
        ("no/such/file".to_string(), "no/such/file: "),
        (env!("CARGO_TARGET_TMPDIR").to_string(), env!("CARGO_TARGET_TMPDIR")),
        (file("latin", b"{\"name\": \"\xf6\"}\n"), "not UTF-8 at byte 10"),
        (file("gzip", &[0x1f, 0x8b, 8, 0, 0, 1]), "broken gzip data"),
    ] {
        let output = program().args([&good, &path]).output().expect("it starts");
        is_fault(&output, part);
        let lines = output.stderr.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, 1, "one clear sentence");
    }
    is_fault(&program().output().expect("it starts"), "no file is named");
}

#[cfg(unix)]
#[test]
fn arguments_that_are_no_text_are_misuse() {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"\xff.jsonl");
    is_fault(&program().arg(name).output().expect("it starts"), "is not UTF-8");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_fault_and_a_closed_pipe_is_none() {
    let path = one("full.jsonl");
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = program().arg(&path).stdout(full).output().expect("it starts");
    is_fault(&output, "standard output: ");
    for arguments in [&["--help"][..], &[&path]] {
        let mut child =
            program().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.as_mut().expect("it starts");
        drop(child.stdout.take());
        let code = child.wait().expect("it ends").code();
        assert_eq!(code, Some(i32::from(arguments != ["--help"])));
        let mut error = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut error).expect("text");
        assert_eq!(error, "");
    }
}

/// The last line counts, the exit code says whether any failed.
#[test]
fn the_exit_code_and_the_last_line_agree() {
    let empty = file("empty.jsonl", b"\n");
    for (path, code, last) in [
        (one("one.jsonl"), 1, "0 passed, 1 failed, 0 skipped"),
        (empty, 1, "0 passed, 0 failed, 0 skipped"),
        (
            concat!(env!("CARGO_MANIFEST_DIR"), "/data/peers-more.jsonl.gz").to_string(),
            0,
            "25 passed, 0 failed, 2 skipped",
        ),
    ] {
        let output = program().arg(&path).output().expect("it starts");
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!((output.status.code(), text.lines().last()), (Some(code), Some(last)), "{text}");
        assert!(output.stderr.is_empty());
    }
}
