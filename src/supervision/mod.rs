//! Who watches whom.

pub mod inspection;
