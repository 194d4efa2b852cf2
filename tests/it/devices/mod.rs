//! Devices: which of them a pod gets, by brute force and case by case.

mod cases;
mod islands;
mod partitions;
mod prices;
mod properties;
mod tight;
mod world;
mod zones;
