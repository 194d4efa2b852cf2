//! The house: the layers of the source, no circles of imports, and the size of its files.

mod circles;
mod layers;
mod place_order;
