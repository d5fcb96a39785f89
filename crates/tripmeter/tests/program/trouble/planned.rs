//! `tripmeter run --resume` with an impossible plan, which is refused before anything is allocated.

use crate::common::{Tripmeter, folder};
use serde_json::{Value, json};
use std::fs;
use tripmeter_model::exit;

#[test]
fn a_field_of_a_resumed_plan_out_of_its_bounds_is_refused_with_its_value() {
    let place = folder();
    let words = "ping uds/stream -q --wait block -n 20 --payloads 16,32 --no-floor -o results";
    Tripmeter::new(words.split(' ')).at(place.path()).run().with(exit::GOOD);
    let file = place.path().join("results/manifest.json");
    let right: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let attempt = |change: &dyn Fn(&mut Value)| {
        let mut wrong = right.clone();
        (wrong["status"], wrong["ended"]) = (json!("running"), json!(null));
        change(&mut wrong["plan"]);
        fs::write(&file, wrong.to_string()).unwrap();
        let words = ["run", "-q", "--resume", "results"];
        Tripmeter::under(&["prlimit", "--as=4000000000"], words).at(place.path()).run()
    };
    let stream = json!({ "loads": [{ "kind": "max" }], "reply": "nothing", "duration_ns": 1 });
    for (field, value, limit) in [
        ("workload.followers", json!(1_000_000_000), "1 to 64"),
        ("workload.topics", json!(1_000_000_000), "1 to 4096"),
        ("workload.publishers", json!(1_000_000_000), "1 to 4096"),
        ("workload.clients", json!(1_000_000_000), "1 to 256"),
        ("workload.timeout_ns", json!(u64::MAX), "600 s"),
        ("workload.most_messages", json!(u64::MAX), "1000000000000"),
        ("workload.duration_ns", json!(1_u64 << 60), "86400 s"),
        ("workload.loads", json!([{ "kind": "rate", "rate_hz": 1e300 }]), "--rate"),
        ("workload", json!({ "reply": "lines" }), "'ping'"),
        ("workload", stream, "'ping'"),
        ("payloads", json!([0, 1]), "16 bytes"),
        ("payloads", json!([1_u64 << 50]), "1073741824 bytes"),
        ("payloads", json!([16, 16]), "twice"),
        ("payloads", json!([]), ""),
        ("samples", json!(0), "1 or more"),
        ("samples", json!(1_u64 << 60), "1000000000000"),
        ("samples", json!(1_000_000_000), "100000000"),
        ("samples_above", json!([{ "payload_bytes": 16, "samples": 0 }]), "1 or more"),
        ("warmup", json!(u64::MAX), "1000000000000"),
        ("time_cap_ns", json!(0), "1000000 s"),
        ("time_cap_ns", json!(u64::MAX), "1000000 s"),
        ("follower_cpus", json!([0, 0]), "1 followers"),
        ("follower_cpus", json!([1_000_000]), "choose from"),
        ("environment", json!({ "LD_PRELOAD": "/nowhere.so" }), ""),
        ("answer_delay_ns", json!(u64::MAX), ""),
    ] {
        let refused = attempt(&|plan| {
            let mut at = &mut plan["sub_experiments"][0];
            for part in field.split('.') {
                at = &mut at[part];
            }
            *at = value.clone();
        });
        let field = format!("'plan.sub_experiments[0].{field}");
        refused.with(exit::DATA).one_line(&["'results'", "manifest.json", &field, limit]);
    }
    for (field, value, limit) in [
        ("leader_cpu", json!(1_000_000), "choose one of"),
        ("follower_cpu", json!(1_000_000), "choose one of"),
        ("cpus", json!([0, 1_000_000]), "choose from"),
        ("keep_samples", json!(0), "keep 1 or more"),
        ("keep_samples", json!(1), "there is one round"),
        ("attempts", json!(1_000_000), "1 to 3"),
        ("attempts", json!(0), "1 to 3"),
        ("rounds", json!(0), "1 to 10080"),
        ("for_ns", json!(u64::MAX), "10000000 s"),
        ("loss_timeout_ns", json!(u64::MAX), "600 s"),
        ("max_clock_error_ns", json!(1), "--to"),
        ("hosts", json!([{ "to": "-oProxyCommand=false" }]), "not a host"),
        ("sub_experiments", json!([]), ""),
    ] {
        let refused = attempt(&|plan| plan[field] = value.clone());
        refused.with(exit::DATA).one_line(&["'results'", "manifest.json", &format!("'plan.{field}"), limit]);
    }
    attempt(&|_| {}).with(exit::GOOD);
    fs::remove_file(&file).unwrap();
    let none = Tripmeter::new(["run", "--resume", "results"]).at(place.path()).run();
    none.with(exit::NO_INPUT).one_line(&["'results'", "nothing was measured yet; repeat the original command"]);
}
