//! Regent governs cloud regions: every resource is a supervised actor.
//!
//! Read ARCHITECTURE.md first. Dependencies point downwards only:
//! `api → supervision → actors → {graph, providers, identity} → store → model`.

pub mod actors;
pub mod api;
pub mod bootstrap;
pub mod command_line;
pub mod commands;
pub mod config;
pub mod graph;
pub mod identity;
pub mod model;
pub mod providers;
pub mod sabotage;
pub mod serve;
pub mod store;
pub mod supervision;
