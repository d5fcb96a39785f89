//! The running program, from its command line to what it leaves: one binary, whose modules are the subjects.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod ab;
mod ab_workloads;
mod action;
mod audit;
mod bursts;
mod choose;
mod cli;
mod common;
mod conformance;
mod eprosima;
mod example;
mod explain;
mod exports;
mod fastdds;
mod faults;
mod handover;
mod hostile;
mod hosts;
mod lies;
mod live;
mod log;
mod many_runs;
mod metrics;
mod mqtt;
mod one_way;
mod proof;
mod publishers;
mod recording;
mod report;
mod ros2;
mod selftest;
mod strangers;
mod trouble;
mod verdicts;
mod web;
