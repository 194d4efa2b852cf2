//! The public interface: odd input, objects, text, numbers.

mod adversarial;
mod properties;
mod quantity;
mod serialisation;
