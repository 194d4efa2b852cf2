//! Random bytes as manifests, in both modes: an error or a state that holds, never a panic.
//!
//! `cargo +nightly fuzz run manifests`, best with the files of `examples/manifests` turned to JSON
//! as a corpus.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx::kubernetes::{Mode, Reader};
use phalanx::{Cluster, Framework, Outcome, Planner};

fuzz_target!(|bytes: &[u8]| {
    for mode in [Mode::AsWritten, Mode::AsStored] {
        let mut reader = Reader::new(mode);
        let read = reader.read("input", &mut serde_json::Deserializer::from_slice(bytes));
        let finished = reader.finish();
        if read.is_err() {
            assert!(finished.is_err(), "an error is not forgotten");
            continue;
        }
        let Ok(manifests) = finished else { continue };
        let mut cluster = Cluster::new();
        for node in manifests.nodes {
            node.check().expect("what is read is sound");
            let _ = cluster.add_node(node);
        }
        for pod in manifests.bound {
            pod.check().expect("what is read is sound");
            let _ = cluster.add_pod(pod);
        }
        let framework = Framework::kubernetes();
        for group in manifests.groups {
            let outcome = Planner::new().place(&cluster, &framework, &group);
            if let Ok(Outcome::Placed(plan)) = outcome {
                cluster.commit(&framework, &plan).expect("nothing has moved");
            }
        }
    }
});
