//! The configuration while the program runs: read anew on SIGHUP or when the file changes. A wrong one is
//! refused, and the old one stays.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Duration;

use phalanx_kubernetes_client::log;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{File, Settings};
use crate::decide::Input;
use crate::profile::{self, Parts};

/// The time between two looks at the file. A mounted ConfigMap changes by a link, of which no watch of
/// one file would tell.
const LOOK: Duration = Duration::from_secs(5);

/// Follows the file for ever.
pub async fn run(path: PathBuf, file: File, salt: u64, inputs: Sender<Input>) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
    let mut known = texts(&path, &file);
    let profiles = Parts::new(&file, salt).map(|parts| parts.profiles).unwrap_or_default();
    let mut current = file;
    loop {
        let asked = tokio::select! {
            _ = hangup.recv() => true,
            () = tokio::time::sleep(LOOK) => false,
        };
        let now = texts(&path, &current);
        if now == known && !asked {
            continue;
        }
        match read(&path, (&current, &profiles), salt) {
            Ok((file, parts)) => {
                known = texts(&path, &file);
                current = file.clone();
                if inputs.send(Input::Reload(Box::new((file, parts)))).is_err() {
                    return;
                }
            }
            Err(reason) => {
                known = now;
                log!(error, "the configuration is refused; the old one stays", reason = reason);
                if inputs.send(Input::Refused).is_err() {
                    return;
                }
            }
        }
    }
}

/// The texts of the file and of those that it names.
fn texts(path: &Path, file: &File) -> [Option<Vec<u8>>; 3] {
    let text = |path: Option<&PathBuf>| path.and_then(|path| std::fs::read(path).ok());
    let kube = text(file.kube_scheduler_configuration.as_ref());
    [std::fs::read(path).ok(), text(file.queues.file.as_ref()), kube]
}

/// Reads the file, and all that it names.
fn read(
    path: &Path,
    (current, profiles): (&File, &[String]),
    salt: u64,
) -> Result<(File, Parts), String> {
    let file = Settings::file(path)?;
    let fixed = restarts(current, &file);
    if !fixed.is_empty() {
        return Err(format!("{}: changes of {} need a restart", path.display(), fixed.join(", ")));
    }
    profile::check(&file)?;
    let parts = Parts::new(&file, salt)?;
    if parts.profiles != profiles {
        let reason = "changes of schedulerName in profiles need a restart";
        return Err(format!("{}: {reason}", path.display()));
    }
    Ok((file, parts))
}

/// Fields that differ, and that are read once.
fn restarts(old: &File, new: &File) -> Vec<&'static str> {
    fn differ(one: &dyn std::fmt::Debug, other: &dyn std::fmt::Debug) -> bool {
        format!("{one:?}") != format!("{other:?}")
    }
    let (before, after) = (&old.queues, &new.queues);
    let has_queues = |file: &File| file.queues.file.is_some() || !file.queues.objects.is_empty();
    let fields = [
        ("schedulerName", differ(&old.scheduler_name, &new.scheduler_name)),
        ("levels", differ(&old.levels, &new.levels)),
        ("bindings", differ(&old.bindings, &new.bindings)),
        ("leaderElection", differ(&old.leader_election, &new.leader_election)),
        ("serving", differ(&old.serving, &new.serving)),
        ("autoscaling", differ(&old.autoscaling, &new.autoscaling)),
        ("workloads", differ(&old.workloads, &new.workloads)),
        ("queues.dialect", before.dialect != after.dialect),
        ("queues.fairSharing", before.fair_sharing != after.fair_sharing),
        ("queues.watch", before.watch != after.watch),
        ("queues.backfill", before.backfill.is_some() != after.backfill.is_some()),
        ("queues.objects or queues.file", has_queues(old) != has_queues(new)),
    ];
    fields.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("reload-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let path = folder.join("config.yaml");
        let write = |text: &str| std::fs::write(&path, text).expect("a file can be written");
        write("profile: spread\n");
        let (file, parts) = read(&path, (&File::default(), &[]), 3).expect("it is sound");
        assert_eq!(parts.settings.salt, 3);
        assert!(!texts(&path, &file)[0].as_ref().expect("it is there").is_empty());
        for (text, reason) in [
            ("profile: wide\n", "line 1"),
            ("levels: [rack]\n", "levels need a restart"),
            ("queues: {dialect: kai}\n", "queues.dialect need a restart"),
            ("plugins: {disabled: [Nothing]}\n", "Nothing"),
            ("queues: {file: nothing.yaml}\n", "need a restart"),
            ("serving: {key: a}\n", "go together"),
        ] {
            write(text);
            let error = read(&path, (&File::default(), &[]), 3).err();
            let error = error.unwrap_or_else(|| panic!("{text} was taken"));
            assert!(error.contains(reason), "{text}: {error}");
        }
        std::fs::remove_dir_all(&folder).expect("it was made");
        assert!(read(&path, (&File::default(), &[]), 3).is_err());
    }
}
