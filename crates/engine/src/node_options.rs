//! Options of a transport's node, from the plan of a sub-experiment.

use tripmeter_abi::{NodeOptions, Role};
use tripmeter_model::plan::SubExperiment;

/// Options of the leader's node or the first follower's, on one host, without names or a scratch folder.
pub(crate) fn node_options(plan: &SubExperiment, role: Role) -> NodeOptions {
    let workload = &plan.workload;
    NodeOptions {
        role,
        pattern: plan.pattern,
        wait: plan.wait,
        variant: plan.transport.variant.clone(),
        settings: plan.transport.settings.clone(),
        run_id: String::new(),
        scratch_dir: Default::default(),
        max_payload_bytes: plan.payloads.iter().copied().max().unwrap_or(0),
        link_count: if role == Role::Leader { workload.links() } else { workload.follower_links() },
        publisher_count: workload.publishers(),
        follower_count: workload.followers(),
        follower_index: 0,
        unauthorized_peer: None,
        local_address: None,
    }
}
