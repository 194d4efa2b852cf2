//! The house: the layers of the source, and the size of its files.

mod layers;
