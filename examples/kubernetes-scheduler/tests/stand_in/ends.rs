//! How the programs end: an interrupt, a full disk, a reader that goes away, files that stay as they are.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::operator::port;
use crate::server::RELEASE_1_37;
use crate::world::{SOON, World, group, node, pod};

const PROGRAMS: [&str; 2] =
    [env!("CARGO_BIN_EXE_kubernetes-scheduler"), env!("CARGO_BIN_EXE_phalanx")];

/// One sentence on standard error that has a part, nothing on standard output, and this exit code.
#[track_caller]
fn is_fault(output: &Output, code: i32, part: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{error}");
    assert!(error.contains(part) && !error.contains("panicked"), "{error}");
}

fn full() -> File {
    File::options().write(true).open("/dev/full").expect("Linux has it")
}

#[test]
fn arguments_that_are_no_text_are_misuse() {
    let odd = std::ffi::OsStr::from_bytes(b"--\xff");
    for program in PROGRAMS {
        let output = Command::new(program).arg(odd).output().expect("it starts");
        is_fault(&output, 2, "is not UTF-8");
    }
}

/// `--dry-run=false` must not be read as `--dry-run`.
#[test]
fn flags_take_no_value() {
    let [scheduler, questions] = PROGRAMS;
    for (program, flag) in
        [(scheduler, "--dry-run=false"), (scheduler, "--check=no"), (questions, "--help=why")]
    {
        let output = Command::new(program).arg(flag).output().expect("it starts");
        is_fault(&output, 2, "it takes no value");
    }
}

#[test]
fn a_scheduler_has_a_name() {
    let file = std::env::temp_dir().join(format!("phalanx-nameless-{}.yaml", std::process::id()));
    std::fs::write(&file, "schedulerName: ''\n").expect("a file");
    let run = |arguments: &[&std::ffi::OsStr]| {
        Command::new(PROGRAMS[0]).arg("--check").args(arguments).output().expect("it starts")
    };
    is_fault(&run(&["--scheduler-name".as_ref(), "".as_ref()]), 2, "--scheduler-name: ");
    is_fault(&run(&["--config".as_ref(), file.as_ref()]), 2, "schedulerName: ");
    std::fs::remove_file(file).expect("it was written");
}

#[test]
fn an_answer_that_nobody_can_have_is_named() {
    for program in PROGRAMS {
        let output = Command::new(program).arg("--help").stdout(full()).output();
        is_fault(&output.expect("it starts"), 1, "standard output: ");
        // The pipe is closed before the program can have written.
        let (reader, writer) = std::io::pipe().expect("there are pipes");
        drop(reader);
        let output = Command::new(program).arg("--help").stdout(writer).output();
        is_fault(&output.expect("it starts"), 1, "standard output: ");
    }
}

#[test]
fn an_interrupt_ends_the_scheduler_in_order() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    let scheduler = world.scheduler("");
    world.server.create("podgroups", group("one", 1));
    world.server.create("pods", pod("one-0", "one"));
    world.until_bound(1);
    let status = scheduler.interrupt(SOON);
    assert!(status.success(), "{status}");
    let log = fs::read_to_string(world.folder().join("log")).expect("it has a log");
    assert!(log.contains("stopping"), "{log}");
}

/// Snapshots of a scheduler that runs, into what is there already.
#[test]
fn a_snapshot_is_written_whole_where_it_was_meant() {
    let world = World::new(RELEASE_1_37);
    let port = port();
    let listen = format!("127.0.0.1:{port}");
    let _scheduler = world.scheduler_with("", &["--listen", &listen]);
    let address = format!("http://{listen}");
    let snapshot = |path: &Path| {
        Command::new(PROGRAMS[1])
            .args(["snapshot", &path.to_string_lossy(), "--address", &address])
            .output()
            .expect("it starts")
    };
    let at = |name: &str| world.folder().join(name);
    let begin = Instant::now();
    while !snapshot(&at("first")).status.success() {
        assert!(begin.elapsed() < SOON, "nobody answers");
        std::thread::sleep(Duration::from_millis(100));
    }
    // A device stays a device.
    is_fault(&snapshot(Path::new("/dev/full")), 1, "/dev/full: ");
    assert!(!fs::metadata("/dev/full").expect("it is there").is_file());
    assert!(snapshot(Path::new("/dev/null")).status.success());
    // A file that is read-only stays as it was, for all users.
    fs::write(at("kept"), "old").expect("it can be written");
    let mut permissions = fs::metadata(at("kept")).expect("it is there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(at("kept"), permissions).expect("it is ours");
    is_fault(&snapshot(&at("kept")), 1, "permission");
    assert_eq!(fs::read_to_string(at("kept")).expect("text"), "old");
    // Behind a link is the file that is meant.
    fs::write(at("target"), "old").expect("it can be written");
    std::os::unix::fs::symlink(at("target"), at("link")).expect("it can be made");
    assert!(snapshot(&at("link")).status.success());
    assert!(fs::symlink_metadata(at("link")).expect("it is there").is_symlink());
    assert!(fs::read_to_string(at("target")).expect("text").contains("\"cluster\""));
    // A disk that is full takes no answer.
    let output =
        Command::new(PROGRAMS[1]).args(["snapshot", "--address", &address]).stdout(full()).output();
    is_fault(&output.expect("it starts"), 1, "standard output: ");
    let names = fs::read_dir(world.folder()).expect("it is there");
    let mut names = names.map(|entry| entry.expect("it can be read").file_name());
    assert!(names.all(|name| !name.to_string_lossy().ends_with(".part")), "nothing in part");
}
