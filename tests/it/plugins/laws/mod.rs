//! Every law catches a plugin that breaks it, and honest plugins pass.

mod answers;
mod classes;
mod filling;
mod honest;
mod prepared;
mod reach;
mod worlds;
