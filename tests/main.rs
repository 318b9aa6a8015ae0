//! Whole-surface tests in one binary: one link, one module per capability.

mod http;
