//! The work of the fuzz targets.
//!
//! Streams and models stand in `tests/it`; here they are compiled with dice of which the input makes
//! each roll.

#![allow(dead_code, unused_imports, reason = "of the tests, only streams are used")]

pub mod certificates;
mod dice;
pub mod objects;
pub mod streams;

#[path = "../../tests/it/support"]
mod support {
    pub(crate) mod budget;
    pub(crate) use crate::dice;
}

#[path = "../../tests/it/everything/mod.rs"]
mod everything;

#[path = "../../tests/it/lifecycle"]
mod lifecycle {
    pub(crate) mod model;
    pub(crate) mod world;
}

#[path = "../../tests/it/marred/mod.rs"]
mod marred;

#[path = "../../tests/it/placement"]
mod placement {
    pub(crate) mod brute_force;
    pub(crate) mod equality;
    pub(crate) mod node_events;
    pub(crate) mod reach {
        pub(crate) mod classes;
        mod plugins;
        mod random;
    }
    pub(crate) mod search_reference;
}

#[path = "../../tests/it/preempt"]
mod preempt {
    pub(crate) mod brute;
    pub(crate) mod claims;
    pub(crate) mod moves {
        pub(crate) mod brute;
        mod case;
        mod simulate;
    }
    mod work;
    mod world;
}

#[path = "../../tests/it/reclaim"]
mod reclaim {
    pub(crate) mod brute;
}

#[path = "../../tests/it/tenants"]
mod tenants {
    pub(crate) mod random;
    pub(crate) mod stream;
}

#[path = "../../tests/it/watches"]
mod watches {
    pub(crate) mod lives;
    pub(crate) mod relist;
    pub(crate) mod truth;
}

#[path = "../../tests/it/claims"]
mod claims {
    mod brute;
    pub(crate) mod properties;
}
