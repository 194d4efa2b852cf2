//! The public interface: objects, numbers and text, odd input of every kind.

mod amounts;
mod events;
mod foreign;
mod group_names;
mod groups;
mod hands;
mod long_names;
mod names;
mod objects;
pub(crate) mod odd;
mod properties;
mod quantity;
mod serialisation;
mod soundness;
