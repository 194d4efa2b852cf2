//! Moves: the fewest against brute force, the order of them step by step, and what is promised.

mod brute;
mod case;
mod nested;
mod planted;
mod rules;
mod simulate;
