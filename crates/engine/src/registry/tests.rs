use super::*;
use tripmeter_abi::LoadError;

const NO_PROBER: &str = "/bin/false";

fn sidecar(system: &str) -> Sidecar {
    Sidecar {
        aliases: vec![format!("{system}-alias")],
        packages: vec!["libthing".to_owned()],
        build: "make thing".to_owned(),
        ..made_up(system, "c")
    }
}

fn registry(search: &[PathBuf], plugins: &[PathBuf]) -> Result<Registry, RegistryError> {
    Registry::new(vec![sidecar("known"), sidecar("absent")], Vec::new(), search, plugins, Path::new(NO_PROBER))
}

#[test]
fn plugins_are_listed_by_their_file_names_and_the_first_folder_wins() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (folder, file) in [
        (&first, "tripmeter_known.so"),
        (&second, "tripmeter_known.so"),
        (&second, "tripmeter_other.so"),
        (&second, "x.so"),
    ] {
        std::fs::write(folder.path().join(file), "").unwrap();
    }
    let search = [first.path().to_path_buf(), PathBuf::from("/nowhere"), second.path().to_path_buf()];
    let registry = registry(&search, &[]).unwrap();
    let systems: Vec<&str> = registry.entries().iter().map(Entry::system).collect();
    assert_eq!(systems, ["absent", "known", "other"]);
    assert_eq!(registry.plugin_file("known-alias"), Some(first.path().join("tripmeter_known.so").as_path()));
    assert_eq!(registry.plugin_file("absent"), None);
}

#[test]
fn what_is_not_built_says_how_it_is() {
    let registry = registry(&[], &[]).unwrap();
    let error = registry.get("absent").unwrap().describe().unwrap_err();
    assert_eq!(error.exit_code(), 69);
    let text = "transport 'absent' is not available: not built; install it with `tripmeter install absent` (packages \
                needed: libthing)";
    assert_eq!(error.to_string(), text);
    assert_eq!(remedy(&made_up("/x/needs.so", "unknown")), "", "no command installs a file");
}

#[test]
fn variables_that_are_ignored_are_named_if_they_are_set() {
    let ignores_environment = ["THING_B", "PATH", "THING_C", "THING_A"].map(str::to_owned).into();
    let thing = Sidecar { ignores_environment, ..sidecar("thing") };
    let registry = Registry::new(vec![thing], Vec::new(), &[], &[], Path::new(NO_PROBER)).unwrap();
    let set = ["THING_A", "THING_B", "OTHER"].map(|name| (name.to_owned(), String::new())).into();
    let told = registry.get("thing").unwrap().ignores(&set).unwrap();
    assert!(told.contains("ignores THING_B, PATH, THING_A in"), "{told}");
}

#[test]
fn an_unknown_name_is_answered_with_a_guess() {
    let error = registry(&[], &[]).unwrap().get("knwon").err().unwrap();
    assert_eq!(error.exit_code(), 64);
    assert!(error.to_string().contains("did you mean 'known'?"), "{error}");
}

#[test]
fn a_plugin_that_is_not_there_is_no_input() {
    let error = registry(&[], &["/nowhere/tripmeter_x.so".into()]).err().unwrap();
    assert_eq!(error.exit_code(), 66);
    assert!(error.to_string().contains("/nowhere/tripmeter_x.so"), "{error}");
}

#[test]
fn a_plugin_whose_process_ends_without_an_answer_is_reported() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = registry(&[], &[file.path().to_path_buf()]).err().unwrap();
    assert_eq!(error.exit_code(), 69);
    assert!(
        error.to_string().contains("ended without an answer (exit status: 1) while it was asked to describe itself")
    );
}

#[test]
fn a_prober_that_cannot_be_started_is_our_fault() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tripmeter_x.so"), "").unwrap();
    let registry =
        Registry::new(Vec::new(), Vec::new(), &[folder.path().to_path_buf()], &[], Path::new("/nowhere/x")).unwrap();
    assert_eq!(registry.get("x").unwrap().describe().unwrap_err().exit_code(), 70);
}

#[test]
fn a_missing_library_is_distinguished_from_other_faults() {
    let open = |why: &str| LoadError::Open("/x/tripmeter_y.so".into(), why.to_owned());
    let why = "libiox.so.2: cannot open shared object file: No such file or directory";
    assert_eq!(child::library_missed_by(&open(why)).as_deref(), Some("libiox.so.2"));
    assert_eq!(child::library_missed_by(&open("/x/tripmeter_y.so: invalid ELF header")), None);
    let why = "/x/tripmeter_y.so: cannot open shared object file: Permission denied";
    assert_eq!(child::library_missed_by(&open(why)), None);
}
