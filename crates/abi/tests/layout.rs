//! The C header and its Rust mirror agree in every struct, field and constant.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path as FilePath;
use std::process::Command;
use tripmeter_abi::raw::*;
use tripmeter_abi::{AGREED_FOLDER, Names, Path, Pattern, UnauthorizedPeer, Wait};

const HEADER: &str = include_str!("../include/tripmeter_transport.h");
const MIRROR: &str = include_str!("../src/raw.rs");
const INCLUDE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// Compared facts: `size align` of a struct, `offset size` of a field, the value of a constant.
type Facts = BTreeMap<String, String>;

fn size_of_field<S, F>(_: impl Fn(&S) -> &F) -> usize {
    size_of::<F>()
}

/// Records a struct with all its fields; an omitted field does not compile.
macro_rules! structs {
    ($facts:ident; $($name:ident { $($field:ident),+ $(,)? })+) => {$(
        let _all_fields = |value: &$name| { let $name { $($field: _),+ } = value; };
        $facts.insert(stringify!($name).to_owned(), format!("{} {}", size_of::<$name>(), align_of::<$name>()));
        $($facts.insert(
            concat!(stringify!($name), ".", stringify!($field)).to_owned(),
            format!("{} {}", std::mem::offset_of!($name, $field), size_of_field(|value: &$name| &value.$field)),
        );)+
    )+};
}

fn rust_structs() -> Facts {
    let mut facts = Facts::new();
    structs! { facts;
        tm_str { data, length }
        tm_bytes { data, length }
        tm_error { text }
        tm_variant { name, summary, path, patterns, waits, flags, reserved }
        tm_setting { name, default_value, values, summary, names, reserved }
        tm_description {
            struct_size, reserved, system, summary, version, system_version, variants, variant_count, settings,
            setting_count, daemon,
        }
        tm_key_value { key, value }
        tm_node_options {
            struct_size, role, pattern, wait, variant, settings, setting_count, run_id, scratch_dir, max_payload_bytes,
            link_count, follower_count, follower_index, unauthorized_peer, publisher_count, reserved,
            local_address,
        }
        tm_limits { struct_size, unauthorized_peers, max_payload_bytes, packet_bytes }
        tm_loan { data, length, token }
        tm_message { data, length, token }
        tm_link_options { struct_size, index, on_message, context }
        tm_daemon_command { struct_size, reserved, program, arguments }
        tm_transport {
            abi_version, struct_size, description, probe, daemon_command, node_open, node_close, link_open, link_address,
            link_connect, link_close, loan, publish, discard, take, release,
        }
    }
    facts
}

fn rust_constants() -> Facts {
    let mut facts = Facts::new();
    macro_rules! constants {
        ($($name:ident)+) => { $(facts.insert(stringify!($name).to_owned(), $name.to_string());)+ };
    }
    constants! {
        TM_ABI_VERSION
        TM_OK TM_AGAIN TM_CLOSED TM_UNAVAILABLE TM_NO_DAEMON TM_LIMIT TM_INVALID TM_FAILED
        TM_LEADER TM_FOLLOWER
        TM_ZERO_COPY TM_LOSSY TM_REMOTE TM_SECURE TM_SAME_PROCESS TM_OWN_THREADS TM_FAN_OUT TM_INTERRUPT
        TM_PUBLISHERS TM_BROKER
        TM_UNAUTHORIZED_LEADS
    }
    for line in MIRROR.lines().filter_map(|line| line.strip_prefix("pub const ")) {
        let name = line.split(':').next().unwrap();
        assert!(facts.contains_key(name), "{name} of raw.rs is not compared; name it in this test");
    }
    let mut words = |prefix: &str, word: &str, code: u32| {
        facts.insert(format!("{prefix}{}", word.to_uppercase().replace('-', "_")), code.to_string())
    };
    Pattern::ALL.iter().for_each(|pattern| drop(words("TM_", pattern.as_str(), pattern.code())));
    Wait::ALL.iter().for_each(|wait| drop(words("TM_", wait.as_str(), wait.code())));
    Path::ALL.iter().for_each(|path| drop(words("TM_PATH_", path.as_str(), path.code())));
    Names::ALL.iter().for_each(|names| drop(words("TM_NAMES_", names.as_str(), names.code())));
    UnauthorizedPeer::ALL.iter().for_each(|kind| drop(words("TM_UNAUTHORIZED_", kind.as_str(), kind.code())));
    facts
}

fn without_comments(text: &str) -> String {
    let mut pieces = text.split("/*");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |all, piece| all + piece.split_once("*/").expect("an open comment").1)
}

/// Name that a C declaration declares: `int32_t (*probe)(…)`, `char text[512]`, `const tm_str *name`.
fn declared_name(declaration: &str) -> &str {
    let declarator = match declaration.split_once("(*") {
        Some((_, function)) => function.split(')').next().unwrap(),
        None => declaration.split('[').next().unwrap(),
    };
    declarator.trim().rsplit([' ', '*']).next().unwrap()
}

fn c_structs(header: &str) -> Vec<(String, Vec<String>)> {
    let bodies = header.split("typedef struct ").skip(1);
    let defined = bodies.filter_map(|text| {
        let (name, rest) = text.split_once('{').filter(|(name, _)| !name.contains(';'))?;
        let body = rest.split('}').next().unwrap();
        let fields = body.split(';').map(str::trim).filter(|declaration| !declaration.is_empty());
        Some((name.trim().to_owned(), fields.map(|field| declared_name(field).to_owned()).collect()))
    });
    defined.collect()
}

fn c_constants(header: &str) -> Vec<String> {
    let definitions = header.lines().filter_map(|line| line.strip_prefix("#define TM_"));
    // Texts are compared separately.
    let numbers = definitions.filter_map(|line| line.split_once(' ')).filter(|(_, value)| !value.starts_with('"'));
    let names = numbers.map(|(name, _)| name);
    names.filter(|name| !name.contains('(')).map(|name| format!("TM_{name}")).collect()
}

fn program() -> String {
    let header = without_comments(HEADER);
    let mut lines = String::new();
    for (name, fields) in c_structs(&header) {
        lines += &format!("    printf(\"{name} %zu %zu\\n\", sizeof({name}), _Alignof({name}));\n");
        for field in fields {
            let place = format!("offsetof({name}, {field}), sizeof((({name} *)0)->{field})");
            lines += &format!("    printf(\"{name}.{field} %zu %zu\\n\", {place});\n");
        }
    }
    for name in c_constants(&header) {
        lines += &format!("    printf(\"{name} %lld\\n\", (long long)({name}));\n");
    }
    format!("#include \"tripmeter_transport.h\"\n#include <stdio.h>\nint main(void) {{\n{lines}    return 0;\n}}\n")
}

fn compile(compiler: &str, standard: &str, source: &FilePath, arguments: &[&str]) {
    let mut command = Command::new(compiler);
    command.arg(format!("-std={standard}")).args(STRICT).args(["-I", INCLUDE_DIR]).arg(source).args(arguments);
    let output = command.output().unwrap_or_else(|error| panic!("'{compiler}' does not run: {error}"));
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn header_and_mirror_agree() {
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    fs::write(&source, program()).unwrap();
    compile("cc", "c11", &source, &["-o", binary.to_str().unwrap()]);
    let output = Command::new(&binary).output().unwrap();
    assert!(output.status.success(), "the layout program failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let pair = |line: &str| line.split_once(' ').map(|(name, fact)| (name.to_owned(), fact.to_owned()));
    let c: Facts = text.lines().filter_map(pair).collect();

    let mut rust = rust_structs();
    rust.append(&mut rust_constants());
    assert!(c.len() > 100, "the header was read in part only: {} facts", c.len());
    assert!(
        HEADER.contains(&format!("#define TM_AGREED \"{AGREED_FOLDER}\"\n")),
        "TM_AGREED is {AGREED_FOLDER} in Rust"
    );
    for name in c.keys().chain(rust.keys()) {
        assert_eq!(c.get(name), rust.get(name), "{name}: C on the left, Rust on the right");
    }
}

#[test]
fn headers_are_clean_c_and_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let entry = "const tm_transport *table(void);\nconst tm_transport *table(void) { return tripmeter_transport(); }\n";
    for (compiler, standard, file, header) in [
        ("cc", "c11", "header.c", "tripmeter_transport.h"),
        ("cc", "c11", "header.c", "tripmeter_plugin.h"),
        ("c++", "c++11", "header.cpp", "tripmeter_transport.h"),
        ("c++", "c++17", "header.cpp", "tripmeter_transport.h"),
        ("c++", "c++17", "header.cpp", "tripmeter_plugin.hpp"),
    ] {
        if compiler == "c++" && Command::new(compiler).arg("--version").output().is_err() {
            // The test harness hides printed output.
            let line = format!("SKIPPED: headers_are_clean_c_and_cpp for {standard}: there is no 'c++' here\n");
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
            continue;
        }
        let source = folder.path().join(file);
        // Uses the macros that make tables.
        let list = match header {
            "tripmeter_transport.h" => "",
            _ => {
                "extern const tm_variant list[1];\n\
                 const tm_variant list[1] = {TM_VARIANT(\"a\", \"b\", TM_PATH_TCP, TM_CALL, TM_POLL, 0)};\n\
                 extern const tm_setting settings[1];\n\
                 const tm_setting settings[1] = {TM_SETTING(\"a\", \"b\", \"c\", \"d\", TM_NAMES_FILE)};\n"
            }
        };
        fs::write(&source, format!("#include \"{header}\"\n{entry}{list}")).unwrap();
        compile(compiler, standard, &source, &["-fsyntax-only"]);
    }
}

#[test]
fn declarations_are_read() {
    let header = without_comments(
        "#define TM_ONE 1u /* one */\n#define TM_CALL(x) x\ntypedef struct a a;\ntypedef struct b {\n\
         const a *const first; /* ; */\nchar second[4];\nint32_t (*third)(int x, char *y);\n} b;\n",
    );
    let fields = ["first", "second", "third"].map(str::to_owned).to_vec();
    assert_eq!(c_structs(&header), [("b".to_owned(), fields)]);
    assert_eq!(c_constants(&header), ["TM_ONE"]);
}
