//! Files that the examples write and read, where that goes wrong.

use std::fs;

use crate::common::files;

fn path(name: &str) -> String {
    format!("{}/bad-input-{name}", env!("CARGO_TARGET_TMPDIR"))
}

/// The names of a folder that begin like a file's.
fn beside(path: &str) -> usize {
    let entries = fs::read_dir(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path().display().to_string());
    paths.filter(|own| own.starts_with(path)).count()
}

#[test]
fn files_are_written_whole_and_nothing_stays_beside_them() {
    let path = path("whole.svg");
    for text in ["first", "second, longer", ""] {
        files::write(&path, text).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(beside(&path), 1);
    }
}

#[test]
fn what_cannot_be_written_is_named_and_leaves_nothing_behind() {
    let file = path("parent");
    fs::write(&file, "a file").unwrap();
    let below = format!("{file}/picture.svg");
    let nowhere = path("no-folder/picture.svg");
    for path in [below, nowhere, env!("CARGO_TARGET_TMPDIR").to_string()] {
        let error = files::write(&path, "text").unwrap_err();
        assert!(error.starts_with(&format!("{path}: ")) && !error.contains('\n'), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "a file");
    assert_eq!((beside(&file), beside(&path("no-folder"))), (1, 0));
}

#[test]
fn a_file_that_is_read_only_stays_as_it_is() {
    let path = path("kept.svg");
    fs::write(&path, "old").unwrap();
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions.clone()).unwrap();
    let error = files::write(&path, "new").unwrap_err();
    assert!(error.contains("permission"), "{error}");
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), beside(&path)), ("old", 1));
    fs::remove_file(&path).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn devices_take_their_bytes_as_they_come() {
    let full = files::write("/dev/full", "text").unwrap_err();
    assert!(full.starts_with("/dev/full: ") && full.contains("space"), "{full}");
    files::write("/dev/null", "text").unwrap();
}

/// Behind a link is the file that is meant: the link stays.
#[cfg(unix)]
#[test]
fn a_link_stays_a_link() {
    let (target, link) = (path("target.svg"), path("link.svg"));
    fs::write(&target, "old").unwrap();
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&target, &link).unwrap();
    files::write(&link, "new").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    fs::remove_file(&link).unwrap();
}
