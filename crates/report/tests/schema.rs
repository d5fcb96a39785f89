//! The committed schema of `manifest.json` is the one that the types make.

use std::path::Path;
use tripmeter_model::manifest::Manifest;

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/manifest.schema.json");
    let made = serde_json::to_value(schemars::schema_for!(Manifest)).unwrap();
    if std::env::var_os("TRIPMETER_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, serde_json::to_string_pretty(&made).unwrap() + "\n").unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let committed: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    assert!(
        committed == made,
        "schema/manifest.schema.json is not the schema of the types; renew it with \
         `TRIPMETER_BLESS=1 cargo test -p tripmeter-report --test schema` and commit it"
    );
}
