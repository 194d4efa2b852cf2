#[path = "it/support/budget.rs"]
mod budget;
#[path = "it/support/dice.rs"]
mod dice;
mod support {
    pub(crate) use super::{budget, dice};
}
#[path = "it/tenants/dialect.rs"]
mod dialect;
#[path = "it/tenants/scheduler.rs"]
mod scheduler;
