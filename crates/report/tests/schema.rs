//! The committed schemas of a results folder must match those generated from the types.

use schemars::{JsonSchema, schema_for};
use std::path::Path;
use tripmeter_model::explain::Explanation;
use tripmeter_model::fleet::{Fleet, HostsFile};
use tripmeter_model::folder::{Audits, TrialsLine};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::verdict::VerdictDocument;

#[track_caller]
#[allow(clippy::unwrap_used, reason = "a helper of tests")]
fn is_committed<T: JsonSchema>(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(name);
    let made = serde_json::to_value(schema_for!(T)).unwrap();
    if std::env::var_os("TRIPMETER_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, serde_json::to_string_pretty(&made).unwrap() + "\n").unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let committed: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    assert!(
        committed == made,
        "schema/{name} is not the schema of the types; renew it with \
         `TRIPMETER_BLESS=1 cargo test -p tripmeter-report --test schema` and commit it"
    );
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    is_committed::<Manifest>("manifest.schema.json");
    is_committed::<TrialsLine>("trials.schema.json");
    is_committed::<Audits>("audit.schema.json");
    is_committed::<VerdictDocument>("verdict.schema.json");
    is_committed::<Explanation>("explain.schema.json");
    is_committed::<Fleet>("fleet.schema.json");
    is_committed::<HostsFile>("hosts.schema.json");
}
