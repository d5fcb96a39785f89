use super::machine::{Machine, UsableCpu};
use super::*;
use crate::lanes::AnySystem;
use std::path::Path;
use std::sync::Arc;
use tripmeter_abi::{
    Description, Error, Limits, Link, LinkOptions, Loan, Message, Names, Node, NodeOptions, Path as Way, Pattern,
    Result as AbiResult, Setting, Status, System, Variant, Wait,
};
use tripmeter_model::Touch;
use tripmeter_model::interference::Sched;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::recording::{RecordedTopic, Recording};
use tripmeter_model::sidecar::Sidecar;
use tripmeter_model::workload::Workload;

/// System that can be planned, but never opened.
#[derive(Clone)]
struct Planned {
    description: Description,
    limit: u64,
    refusal: Option<Status>,
}

enum Never {}

impl System for Planned {
    type Node = Never;

    fn description(&self) -> Description {
        self.description.clone()
    }

    fn probe(&self, options: &NodeOptions) -> AbiResult<Limits> {
        assert_eq!(options.settings.len(), self.description.settings.len(), "defaults are filled in");
        match self.refusal {
            Some(status) => Err(Error::new(status, "not today")),
            None => Ok(Limits { max_payload_bytes: self.limit, packet_bytes: 0, unauthorized_peers: 0 }),
        }
    }

    fn daemon_command(&self, _: &NodeOptions) -> AbiResult<Option<tripmeter_abi::DaemonCommand>> {
        Ok(Some(tripmeter_abi::DaemonCommand { program: "planned-daemon".to_owned(), arguments: Vec::new() }))
    }

    fn open(&self, _: &NodeOptions) -> AbiResult<Never> {
        Err(Error::failed("never"))
    }
}

impl Node for Never {
    type Link = Never;

    fn link(&mut self, _: &LinkOptions) -> AbiResult<Never> {
        match *self {}
    }
}

impl Link for Never {
    fn connect(&mut self, _: &[Vec<u8>], _: u64) -> AbiResult<()> {
        match *self {}
    }
    fn loan(&mut self, _: usize, _: Option<&Message>) -> AbiResult<Loan> {
        match *self {}
    }
    fn publish(&mut self, _: Loan, _: u64) -> AbiResult<bool> {
        match *self {}
    }
    fn discard(&mut self, _: Loan) {
        match *self {}
    }
    fn take(&mut self, _: u64) -> AbiResult<Option<Message>> {
        match *self {}
    }
    fn release(&mut self, _: Message) {
        match *self {}
    }
}

fn planned(system: &str, variants: &[&str]) -> Planned {
    let description = Description {
        system: system.to_owned(),
        summary: String::new(),
        version: "1".to_owned(),
        system_version: "1".to_owned(),
        variants: variants.iter().map(|name| Variant::new(name, "", Way::Other)).collect(),
        settings: vec![Setting::new("packet", "native", "bytes", "", Names::Nothing)],
        daemon: None,
    };
    Planned { description, limit: 1 << 30, refusal: None }
}

/// Systems `shm`, `uds` with two variants, and `inside`, which works within one process.
fn systems() -> Vec<Planned> {
    let mut inside = planned("inside", &["threads"]);
    inside.description.variants[0].same_process = true;
    let mut uds = planned("uds", &["datagram", "stream"]);
    uds.description.variants[1].waits = vec![Wait::Block];
    vec![planned("shm", &["ring"]), uds, inside]
}

fn registry_of(systems: Vec<Planned>) -> Registry {
    let sidecar = Sidecar::parse(
        "system = 'iox'\nsummary = ''\naliases = ['iox-cpp']\npackages = ['libiox']\nbuild = 'make iox'\nlanguage = 'c'\n",
    );
    let builtin = systems.into_iter().map(|system| Arc::new(system) as Arc<dyn AnySystem>).collect();
    Registry::new(vec![sidecar.unwrap()], builtin, &[], &[], Path::new("/nowhere")).unwrap()
}

fn machine() -> Machine {
    let cpus = [0, 1].map(|number| UsableCpu { number, core: vec![number] }).into();
    Machine { cpus, has_program: |program| program == "planned-daemon" }
}

fn plan_of(text: &str, systems: Vec<Planned>) -> Result<Plan, PlanError> {
    let experiment = Experiment::parse(text).unwrap();
    resolve_on(&machine(), &experiment, "test", &registry_of(systems))
}

fn plan(text: &str) -> Result<Plan, PlanError> {
    plan_of(text, systems())
}

fn toml_for(transports: &[&str]) -> String {
    transports.iter().map(|transport| format!("[[sub_experiment]]\ntransport = \"{transport}\"\n")).collect()
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.sub_experiments.iter().map(|sub_experiment| sub_experiment.name.as_str()).collect()
}

/// Asserts that planning fails with this exit code, in one line that contains all `parts`.
#[track_caller]
fn refuses(text: &str, code: u8, parts: &[&str]) {
    let error = plan(text).unwrap_err();
    let message = error.to_string();
    assert_eq!(error.exit_code(), code, "{message}");
    assert!(!message.contains('\n'), "{message}");
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

#[test]
fn what_is_left_open_has_its_default() {
    let plan = plan(&toml_for(&["uds"])).unwrap();
    assert_eq!(names(&plan), ["uds_datagram_poll", "floor_shm_ring_poll"]);
    let one = &plan.sub_experiments[0];
    assert_eq!((one.samples, one.warmup, one.touch, one.time_cap_ns), (10_000, 1000, Touch::None, None));
    assert_eq!((one.payloads.len(), one.payloads[0], one.payloads[12]), (13, 1024, 4 << 20));
    assert_eq!((one.title.as_str(), one.transport.settings["packet"].as_str()), ("UDS/DATAGRAM", "native"));
    assert!(one.transport.given.is_empty());
    assert_eq!((plan.rounds, plan.leader_cpu, plan.follower_cpu), (1, Some(0), Some(1)));
    assert_eq!((plan.loss_timeout_ns, plan.tables.as_slice()), (1_000_000_000, [TableKind::Screen].as_slice()));
}

#[test]
fn large_payloads_may_have_other_numbers_of_samples() {
    let ranges = "[{ payload = '4k', samples = 1 }, { payload = '1k', samples = 10 }]";
    let plan =
        plan(&format!("samples = 100\nsamples_above = {ranges}\nfloor = false\n{}", toml_for(&["uds"]))).unwrap();
    let one = &plan.sub_experiments[0];
    assert_eq!([1024, 1025, 4096, 4097].map(|payload| one.samples_of(payload)), [100, 10, 10, 1]);
    refuses(
        &format!("samples_above = [{{ payload = '1k', samples = 0 }}]\n{}", toml_for(&["uds"])),
        64,
        &["0 samples"],
    );
    refuses(&format!("one_way = true\nraw = ['none']\n{}", toml_for(&["uds"])), 64, &["one-way", "--raw none"]);
}

#[test]
fn one_way_is_for_every_pattern_with_a_follower() {
    let plan = |text: &str| {
        let mut systems = systems();
        for variant in systems.iter_mut().flat_map(|system| &mut system.description.variants) {
            variant.patterns = vec![Pattern::Ping, Pattern::Call, Pattern::Throughput];
        }
        plan_of(text, systems)
    };
    for (keys, raw) in [
        ("pattern = 'ping'", "samples"),
        ("pattern = 'ping'\nrate = '1000'", "none"),
        ("pattern = 'call'\nclients = '3'", "none"),
        ("pattern = 'call'\nmode = 'fixed-freq'", "samples"),
        ("pattern = 'throughput'", "none"),
    ] {
        let plan = plan(&format!("one_way = true\nraw = ['{raw}']\n{keys}\n{}", toml_for(&["uds"]))).unwrap();
        // The floor is measured in the same way.
        assert!(plan.sub_experiments.len() == 2 && plan.sub_experiments.iter().all(|one| one.one_way), "{keys}");
    }
    refuses(
        &format!("one_way = true\npattern = 'publish'\n{}", toml_for(&["uds"])),
        64,
        &["always measures one-way latency"],
    );
    let samples_above = "pattern = 'throughput'\nsamples_above = [{ payload = '1k', samples = 10 }]";
    refuses(&format!("{samples_above}\n{}", toml_for(&["uds"])), 64, &["'throughput'", "'samples_above'"]);
}

#[test]
fn names_say_settings_and_touch() {
    let text = format!("touch = 'full'\nfloor = false\n{}", toml_for(&["uds/stream?packet=4/k"]));
    assert_eq!(names(&plan(&text).unwrap()), ["uds_stream_packet-4-k_block_full"]);
    let text = toml_for(&["uds?packet=native"]);
    assert!(plan(&text).unwrap().sub_experiments[0].transport.given.is_empty());
}

#[test]
fn a_star_stands_for_what_crosses_processes_and_can_run() {
    let plan = plan(&toml_for(&["*"])).unwrap();
    assert_eq!(names(&plan), ["shm_ring_poll", "uds_datagram_poll"]);
    assert_eq!((plan.left_out.len(), &plan.not_installed[..]), (0, &["iox".to_owned()][..]));
    assert!(plan.not_installed().unwrap().contains("not installed: iox; install them with `tripmeter install --all`"));
    assert!(plan.missing.is_empty());
}

#[test]
fn a_star_leaves_out_what_cannot_wait_so() {
    let plan = plan(&format!("wait = 'poll'\nfloor = false\n{}", toml_for(&["uds/*"]))).unwrap();
    assert_eq!(names(&plan), ["uds_datagram_poll"]);
    assert!(plan.left_out[0].contains("'uds/stream': it cannot wait by 'poll', only by block"), "{:?}", plan.left_out);
}

#[test]
fn a_star_gives_way_to_a_name() {
    for transports in [["*", "uds"], ["uds", "*"]] {
        let plan = plan(&format!("floor = false\n{}", toml_for(&transports))).unwrap();
        assert_eq!(plan.sub_experiments.len(), 2);
    }
}

#[test]
fn one_of_a_star_that_refuses_is_left_out() {
    let mut systems = systems();
    systems[1].refusal = Some(Status::Limit);
    let plan = plan_of(&toml_for(&["*"]), systems).unwrap();
    assert!(plan.left_out.iter().any(|line| line == "transport 'uds/datagram': not today"), "{:?}", plan.left_out);
}

#[test]
fn unknown_words_are_refused_with_a_guess() {
    refuses(&toml_for(&["usd"]), 64, &["unknown transport 'usd' (did you mean 'uds'?)", "tripmeter list"]);
    refuses(&toml_for(&["iox-cp"]), 64, &["did you mean 'iox-cpp'?"]);
    refuses(&toml_for(&["uds/strem"]), 64, &["no variant 'strem' (did you mean 'stream'?)", "datagram, stream"]);
    refuses(&toml_for(&["uds?paket=1"]), 64, &["no setting 'paket' (did you mean 'packet'?)", "settings are packet"]);
    refuses(&toml_for(&["uds?"]), 64, &["write system/variant?key=value"]);
}

#[test]
fn payloads_out_of_bounds_are_refused() {
    for (payload, part) in [("0", "smaller than the header of 16 bytes"), ("15", "16 or more"), ("x", "not a size")] {
        refuses(&format!("payloads = '{payload}'\n{}", toml_for(&["uds"])), 64, &[part]);
    }
    let own = format!("{}payloads = '3'\n", toml_for(&["uds"]));
    refuses(&own, 64, &["transport 'uds': payload of 3 bytes"]);
    let mut systems = systems();
    systems[1].limit = 4096;
    let error = plan_of(&toml_for(&["uds"]), systems).unwrap_err();
    let message = error.to_string();
    assert_eq!(error.exit_code(), 64);
    assert!(message.contains("payload of 4194304 bytes (4M) exceeds the limit of 4096 bytes"), "{message}");
}

#[test]
fn counts_and_times_out_of_bounds_are_refused() {
    for (line, part) in [
        ("samples = 0", "0 samples"),
        ("samples = 100000001", "--raw none"),
        ("raw = ['none']\nsamples = 1000000000001", "the limit of 1000000000000"),
        ("rounds = 0", "1 to 10080"),
        ("rounds = 10081", "10081 rounds"),
        ("rounds = 10080", "results hold at most 100000"),
        ("for_s = 0", "above 0"),
        ("for_s = nan", "above 0"),
        ("for_s = 60\nrounds = 2", "exclude each other"),
        ("rounds = 2\nkeep_samples = 0", "keep 1 or more"),
        ("keep_samples = 1", "there is one round"),
        ("rounds = 2\nkeep_samples = 1\nraw = [\"none\"]", "writes none"),
        ("time_cap_s = 0.0", "time cap of 0 s"),
        ("time_cap_s = -1.0", "time cap of -1 s"),
        ("time_cap_s = nan", "time cap of NaN s"),
        ("seed = 9007199254740993", "exceeds 9007199254740992"),
        ("loss_timeout_s = 0.0001", "0.001 to 600 s"),
        ("loss_timeout_s = 601.0", "601 s"),
        ("leader_cpu = 2", "CPU 2 for the leader"),
        ("follower_cpu = 9", "choose one of 0, 1"),
    ] {
        refuses(&format!("{line}\n{}", toml_for(&["uds"])), 64, &[part]);
    }
    assert!(plan(&format!("raw = ['none']\nsamples = 100000001\n{}", toml_for(&["uds"]))).is_ok());
}

#[test]
fn what_a_variant_cannot_do_is_refused_with_what_it_can() {
    refuses(
        &format!("wait = 'callback'\n{}", toml_for(&["uds"])),
        64,
        &["cannot wait by 'callback', only by poll, block"],
    );
    let mut systems = systems();
    systems[1].description.variants[0].patterns = vec![Pattern::Log];
    let error = plan_of(&toml_for(&["uds"]), systems).unwrap_err().to_string();
    assert!(error.contains("cannot carry pattern 'ping', only log"), "{error}");
}

#[test]
fn loggers_are_planned_as_such_and_all_of_them_only_where_they_are_meant() {
    let loggers = || {
        let mut logger = planned("logger", &["file", "pipe"]);
        for (variant, path) in logger.description.variants.iter_mut().zip([Way::File, Way::Pipe]) {
            (variant.patterns, variant.waits, variant.path) = (vec![Pattern::Log], vec![Wait::Block], path);
        }
        [systems(), vec![logger]].concat()
    };
    let planned = |text: &str| plan_of(text, loggers()).unwrap();
    let carrying = planned(&toml_for(&["*"]));
    assert!(names(&carrying).contains(&"uds_datagram_poll"), "{:?}", names(&carrying));
    assert!(carrying.left_out.iter().all(|line| !line.contains("logger")), "{:?}", carrying.left_out);
    let logging = planned(&format!("pattern = 'log'\n{}", toml_for(&["*", "logger/pipe"])));
    assert_eq!(names(&logging), ["logger_file_block_log", "logger_pipe_block_log"]);
    let sub_experiment = &logging.sub_experiments[0];
    assert_eq!((sub_experiment.samples, sub_experiment.warmup, sub_experiment.payloads.len()), (100_000, 1000, 9));
    assert_eq!((sub_experiment.payloads[0], sub_experiment.payloads[8]), (32, 8192));
    let mut pathless = loggers();
    pathless[3].description.variants[0].path = Way::Other;
    let error = plan_of(&format!("pattern = 'log'\n{}", toml_for(&["logger"])), pathless).unwrap_err();
    assert!(error.to_string().contains("its path is 'other'"), "{error}");
    refuses(&format!("pattern = 'log'\n{}", toml_for(&["uds"])), 64, &["cannot carry pattern 'log', only ping"]);
}

#[test]
fn names_are_plain_and_unique() {
    let named = |name: &str| format!("{}name = \"{name}\"\n", toml_for(&["uds"]));
    refuses(&named("a b"), 64, &["name 'a b'"]);
    refuses(&named("../x"), 64, &["name '../x'"]);
    refuses(&named(""), 64, &["name ''"]);
    refuses(&format!("{}{}touch = 'full'\n", named("x"), named("x")), 64, &["'x' is taken by 'uds/datagram'"]);
    refuses(&format!("{}name = 'x'\n", toml_for(&["uds/*"])), 64, &["matches 2 transports"]);
    let twice = format!("{}samples = 5\n", toml_for(&["uds", "uds"]));
    refuses(&twice, 64, &["'uds_datagram_poll' is taken"]);
    refuses(&toml_for(&["uds", "uds/datagram"]), 64, &["same as number 1"]);
    refuses("samples = 1\n", 64, &["has nothing to measure"]);
}

#[test]
fn a_transport_missed_by_name_is_left_out_and_refused_alone() {
    refuses(&toml_for(&["iox"]), 69, &["'iox' is not available: not built", "libiox", "`tripmeter install iox`"]);
    let plan = plan_of(&toml_for(&["uds", "iox-cpp"]), systems()).unwrap();
    assert_eq!((&plan.missing, plan.missing.len()), (&plan.left_out, 1));
    // If several transports fail, the exit code is the one they have in common.
    let mut small = systems();
    (small[0].limit, small[1].limit) = (64, 4096);
    let shares = |transports: &[&str]| {
        let error = plan_of(&toml_for(transports), small.clone()).unwrap_err();
        (error.exit_code(), error.to_string())
    };
    let (code, text) = shares(&["uds", "shm"]);
    assert!(code == 64 && text.contains("none of the requested transports can run here: transport 'uds'"), "{text}");
    assert_eq!(shares(&["uds", "iox"]).0, 69);
    let (code, text) = shares(&["uds"]);
    assert!(code == 64 && text.starts_with("transport 'uds': a payload of"), "{text}");
    // The other transport allows the payload.
    small[0].limit = 1 << 30;
    let plan = plan_of(&toml_for(&["shm", "uds"]), small).unwrap();
    assert_eq!((plan.missing.len(), names(&plan)), (1, vec!["shm_ring_poll"]));
}

#[test]
fn a_seed_from_the_clock_is_exact_in_every_reader() {
    assert!(plan(&toml_for(&["uds"])).unwrap().seed <= 1 << 53);
    assert_eq!(plan(&format!("seed = 9007199254740992\n{}", toml_for(&["uds"]))).unwrap().seed, 1 << 53);
}

#[test]
fn a_setting_that_is_wrong_anywhere_is_refused_beside_others() {
    let mut systems = systems();
    systems[1].refusal = Some(Status::Invalid);
    assert_eq!(plan_of(&toml_for(&["shm", "uds"]), systems).unwrap_err().exit_code(), 64);
}

#[test]
fn a_mistake_is_refused_even_where_missing_ones_are_left_out() {
    for text in [
        toml_for(&["usd"]),
        format!("samples = 0\n{}", toml_for(&["uds"])),
        format!("wait = 'callback'\n{}", toml_for(&["uds"])),
    ] {
        assert_eq!(plan_of(&text, systems()).unwrap_err().exit_code(), 64, "{text}");
    }
}

/// The settings of a system are unknown if it is not installed.
#[test]
fn a_setting_of_a_missing_system_is_no_mistake() {
    let asked = |transports: &[&str]| plan(&format!("settings = {{ profile = 'x' }}\n{}", toml_for(transports)));
    let beside = asked(&["uds", "iox"]).unwrap();
    assert!(beside.missing.len() == 1 && beside.missing[0].contains("tripmeter install iox"), "{:?}", beside.missing);
    let alone = asked(&["iox"]).unwrap_err();
    assert!(alone.exit_code() == 69 && alone.to_string().contains("tripmeter install iox"), "{alone}");
    let unused = asked(&["uds"]).unwrap_err();
    assert!(unused.exit_code() == 64 && unused.to_string().contains("'profile'"), "{unused}");
}

/// If a flag is not supported by one transport of a list, the others are still measured.
#[test]
fn what_a_transport_cannot_do_leaves_it_out_beside_others() {
    let mut systems = systems();
    systems[0].description.variants[0].waits.push(Wait::Callback);
    systems[0].description.variants[0].patterns.push(Pattern::Publish);
    for text in ["wait = 'callback'\n", "pattern = 'publish'\n"] {
        let asked =
            |transports: &[&str]| plan_of(&format!("floor = false\n{text}{}", toml_for(transports)), systems.clone());
        let plan = asked(&["uds", "shm"]).unwrap();
        assert_eq!((plan.sub_experiments.len(), plan.missing.len()), (1, 1), "{text}");
        assert!(plan.missing[0].starts_with("transport 'uds'"), "{:?}", plan.missing);
        assert_eq!(asked(&["uds"]).unwrap_err().exit_code(), 64, "{text}");
    }
}

#[test]
fn a_daemon_that_is_not_running_may_be_started_unless_required() {
    let mut systems = systems();
    systems[1].refusal = Some(Status::NoDaemon);
    systems[1].description.daemon = Some("planned-daemon".to_owned());
    assert!(plan_of(&toml_for(&["uds"]), systems.clone()).is_ok());
    let text = format!("daemons = 'require'\n{}", toml_for(&["uds"]));
    let error = plan_of(&text, systems.clone()).unwrap_err();
    assert_eq!(error.exit_code(), 69);
    assert!(error.to_string().contains("daemon 'planned-daemon' is not running; start it"), "{error}");
    let bare = Machine { has_program: |_| false, ..machine() };
    let experiment = Experiment::parse(&toml_for(&["uds"])).unwrap();
    let error = resolve_on(&bare, &experiment, "test", &registry_of(systems)).unwrap_err();
    assert!(
        error.exit_code() == 69 && error.to_string().contains("'planned-daemon', which would start it, is not in PATH"),
        "{error}"
    );
}

#[test]
fn the_floor_covers_every_payload_wait_and_touch_once() {
    let text = "[[sub_experiment]]\ntransport = 'uds'\npayloads = '1k,2k'\n\
                [[sub_experiment]]\ntransport = 'uds?packet=64'\npayloads = '2k,4k'\n\
                [[sub_experiment]]\ntransport = 'uds/stream'\npayloads = '1k'\nsamples = 5\n\
                [[sub_experiment]]\ntransport = 'shm'\npayloads = '1k'\n";
    let plan = plan(text).unwrap();
    let floors: Vec<_> = plan.sub_experiments.iter().filter(|sub_experiment| sub_experiment.added_as_floor).collect();
    assert_eq!(floors.len(), 2);
    assert_eq!((floors[0].wait, floors[0].payloads.as_slice()), (Wait::Poll, [2048, 4096].as_slice()));
    assert_eq!((floors[1].wait, floors[1].payloads.as_slice(), floors[1].samples), (Wait::Block, [1024].as_slice(), 5));
    assert_eq!((floors[0].name.as_str(), floors[1].name.as_str()), ("floor_shm_ring_poll", "floor_shm_ring_block"));
}

#[test]
fn floors_of_the_same_way_have_names_of_their_own() {
    let text = "[[sub_experiment]]\ntransport = 'uds'\npayloads = '1k'\n\
                [[sub_experiment]]\ntransport = 'uds?packet=64'\npayloads = '2k'\nsamples = 5\n";
    assert_eq!(names(&plan(text).unwrap())[2..], ["floor_shm_ring_poll", "floor_2_shm_ring_poll"]);
}

#[test]
fn there_is_no_floor_for_what_the_floor_cannot_do() {
    let mut systems = systems();
    systems[1].description.variants[0].waits = vec![Wait::Callback];
    let plan = plan_of(&toml_for(&["uds"]), systems).unwrap();
    assert_eq!(names(&plan), ["uds_datagram_callback"]);
}

/// `systems` with a `shm` that can reach several followers.
fn reaching() -> Vec<Planned> {
    let mut systems = systems();
    systems[0].description.variants[0].fan_out = true;
    systems
}

#[test]
fn loops_that_poll_in_real_time_have_a_cpu_each() {
    let given = |wait: &str, leader: u8| {
        plan(&format!(
            "sched = 'fifo:1'\nwait = '{wait}'\nleader_cpu = {leader}\nfollower_cpu = 0\n{}",
            toml_for(&["uds"])
        ))
    };
    if os::may_schedule(Sched::Fifo(1)).is_err() {
        assert!(given("poll", 0).unwrap_err().to_string().contains("cannot be scheduled"));
        return;
    }
    assert!(given("poll", 0).unwrap_err().to_string().contains("need a CPU each"));
    assert!(given("block", 0).is_ok());
    assert!(os::allowed_cpus().len() < 2 || given("poll", 1).is_ok());
    // Processes with several loops, and loops without a CPU of their own.
    let refused = |more: &str| {
        let mut systems = systems();
        systems[1].description.variants[0].patterns.extend([Pattern::Publish, Pattern::Call]);
        let text = format!("sched = 'fifo:1'\nwait = 'block'\nrate = '100'\n{more}\n{}", toml_for(&["uds"]));
        let mut plan = plan_of(&text, systems).unwrap();
        plan.sub_experiments[0].wait = Wait::Poll;
        real_time::takes_turns(&plan, &plan.sub_experiments[0]).err().map(|problem| problem.to_string())
    };
    assert!(
        refused("pattern = 'publish'\ncpus = '0'")
            .unwrap()
            .contains("2 polling loops under 'fifo:1' need a CPU each, but there are 1")
    );
    assert!(refused("pattern = 'call'\nleader_cpu = 1\nclients = '2'").unwrap().contains("several share CPU 1"));
    for apart in
        ["pattern = 'publish'\ncpus = '0,1'", "pattern = 'publish'\ntopics = 2", "pattern = 'call'\nclients = '1'"]
    {
        assert_eq!(refused(apart), None, "{apart}");
    }
}

#[test]
fn several_followers_are_planned_where_the_transport_reaches_them() {
    let several = |rest: &str| {
        let text = format!("followers = 3\n{rest}{}", toml_for(&["shm"]));
        plan_of(&text, reaching())
    };
    let plan = several("").unwrap();
    assert_eq!(names(&plan), ["shm_ring_block_followers-3"], "who shares a CPU does not poll by itself");
    let one = &plan.sub_experiments[0];
    assert_eq!((one.workload.followers(), one.follower_cpus.as_slice(), one.one_way), (3, [1, 1, 1].as_slice(), true));
    assert!(plan.shared_cpus(one).unwrap().contains("3 followers share CPU 1, which"));
    let polling = several("wait = 'poll'\nfollower_cpu = 0\nleader_cpu = 0\n").unwrap();
    let one = &polling.sub_experiments[0];
    assert_eq!((one.wait, one.follower_cpus.as_slice()), (Wait::Poll, [0, 0, 0].as_slice()));
    assert!(polling.shared_cpus(one).unwrap().contains("3 followers share CPU 0 with the leader and poll"));
    let text = serde_json::to_string(&plan_of(&toml_for(&["shm"]), reaching()).unwrap()).unwrap();
    assert!(!text.contains("\"followers\"") && !text.contains("follower_cpus"), "{text}");
}

/// On the only CPU, a polling loop would block the threads that deliver messages from other hosts. Names of
/// sub-experiments between hosts do not mention a loopback.
#[test]
fn between_hosts_nobody_polls_on_the_only_cpu() {
    for (cpus, wait) in [(&[3][..], Wait::Block), (&[3, 4], Wait::Poll)] {
        let mut far = planned("far", &["loopback"]);
        far.description.variants[0].remote = true;
        let cpus = cpus.iter().map(|&number| UsableCpu { number, core: vec![number] }).collect();
        let text = format!("to = ['u@h']\ninterface = '127.0.0.1'\nfloor = false\n{}", toml_for(&["far"]));
        let (experiment, registry) = (Experiment::parse(&text).unwrap(), registry_of(vec![far]));
        let machine = Machine { cpus, ..machine() };
        let plan = resolve_on(&machine, &experiment, "test", &registry).unwrap();
        let sub = &plan.sub_experiments[0];
        assert_eq!((sub.wait, sub.name.as_str()), (wait, format!("far_{wait}").as_str()));
    }
}

/// Both ways in which the two sides share a CPU.
#[test]
fn sides_that_share_a_cpu_do_not_poll_unless_asked_to() {
    let on = |cpus: &[usize], text: &str| {
        let cpus = cpus.iter().map(|&number| UsableCpu { number, core: vec![number] }).collect();
        let experiment = Experiment::parse(&format!("{text}{}", toml_for(&["uds"]))).unwrap();
        let machine = Machine { cpus, ..machine() };
        resolve_on(&machine, &experiment, "test", &registry_of(systems())).unwrap()
    };
    let apart = on(&[0, 1], "");
    assert!(apart.sub_experiments.iter().all(|sub| sub.wait == Wait::Poll && !apart.polls_on_shared_cpu(sub)));
    for (cpus, more) in [(&[3][..], ""), (&[0, 1], "leader_cpu = 1\nfollower_cpu = 1\n")] {
        let plan = on(cpus, more);
        for sub in &plan.sub_experiments {
            assert_eq!((sub.wait, plan.shared_cpus(sub)), (Wait::Block, None), "{more}");
        }
        let asked = on(cpus, &format!("{more}wait = 'poll'\n"));
        for sub in &asked.sub_experiments {
            let said = asked.shared_cpus(sub).unwrap();
            assert!(asked.polls_on_shared_cpu(sub) && said.contains("leader and follower share CPU"), "{said}");
            assert!(said.contains("scheduler time slices") && said.contains("--wait"), "{said}");
        }
    }
    // No loop is bound to a CPU, so polling loops are counted.
    let free = Plan { leader_cpu: None, follower_cpu: None, ..apart.clone() };
    let mut sub = free.sub_experiments[0].clone();
    let said = |plan: &Plan, sub: &SubExperiment| (plan.polls_on_shared_cpu(sub), plan.shared_cpus(sub));
    assert_eq!(said(&free, &sub), (false, None));
    sub.workload.topology.followers = 3;
    let (shares, why) = said(&free, &sub);
    assert!(shares && why.as_ref().unwrap().starts_with("4 loops that poll share 2 CPUs"), "{why:?}");
    let listed = Plan { cpus: vec![0, 1], ..free.clone() };
    assert_eq!(said(&listed, &sub), (true, why));
    sub.workload = Workload::publications(Vec::new(), 3, 1);
    assert_eq!(said(&free, &sub), (false, None), "publishers sleep, and a follower takes from all topics in turns");
    sub.workload = Workload::closed_calls(2, 7);
    let (shares, why) = said(&apart, &sub);
    assert!(shares && why.as_ref().unwrap().starts_with("2 loops that poll share one CPU"), "{why:?}");
    let confined = Plan { leader_cpu: None, follower_cpu: None, cpus: vec![1], ..apart };
    let said = confined.shared_cpus(&confined.sub_experiments[0]).unwrap();
    assert!(said.starts_with("leader and follower share CPU 1 and poll"), "{said}");
}

#[test]
fn too_many_followers_or_those_that_cannot_be_reached_are_refused() {
    let several = |count: u32, rest: &str| format!("followers = {count}\n{rest}{}", toml_for(&["uds"]));
    refuses(
        &several(3, ""),
        64,
        &["'uds'", "it delivers each message to one follower only", "3 were requested", "fan-out", "--followers"],
    );
    refuses(&several(0, ""), 64, &["0 followers", "1 to 64", "--followers"]);
    refuses(&several(65, ""), 64, &["65 followers", "1 to 64", "--followers"]);
    refuses(&several(2, "pattern = 'call'\n"), 64, &["'call' has one follower", "2 were requested"]);
    refuses(&several(65, "pattern = 'throughput'\n"), 64, &["65 followers", "1 to 64", "--followers"]);
    refuses(&several(513, "pattern = 'publish'\n"), 64, &["513 followers", "1 to 512", "--followers"]);
    let both = "pattern = 'publish'\npublishers = 2\n";
    refuses(&several(2, both), 64, &["2 followers and 2 publishers", "--followers or --publishers"]);
    refuses(&several(2, "raw = ['none']\n"), 64, &["2 followers", "--raw none"]);
    refuses(&several(2, "samples = 60_000_000\n"), 64, &["60000000 samples", "50000000"]);
    assert!(plan(&several(1, "")).is_ok());
    let by_star = plan_of(&format!("followers = 2\n{}", toml_for(&["*"])), reaching()).unwrap();
    assert_eq!(names(&by_star), ["shm_ring_block_followers-2"]);
    assert!(by_star.left_out.iter().any(|line| line.contains("uds/datagram")
        && line.contains(
            "it delivers each message to one follower only"
        )));
}

fn recording() -> Recording {
    let topic = |name: &str, messages, bytes| RecordedTopic {
        name: name.to_owned(),
        messages,
        bytes: messages * bytes,
        largest_bytes: bytes,
        last_ns: 4_000_000,
        ..Default::default()
    };
    Recording {
        file: "drive.mcap".to_owned(),
        speed: 2.0,
        duration_ns: 4_000_000,
        messages: 3,
        topics: vec![topic("/a", 2, 100), topic("/b", 1, 300)],
        ..Recording::default()
    }
}

#[test]
fn a_recording_is_published_by_topics_or_called_by_clients() {
    for (pattern, name) in
        [("publish", "uds_datagram_block_publish_recording"), ("call", "uds_datagram_block_call_recording")]
    {
        let text = format!("pattern = '{pattern}'\nfloor = false\n{}", toml_for(&["uds"]));
        let mut experiment = Experiment::parse(&text).unwrap();
        experiment.recording = Some(recording());
        let mut systems = systems();
        systems.iter_mut().flat_map(|system| &mut system.description.variants).for_each(|variant| {
            variant.patterns = vec![Pattern::Ping, Pattern::Publish, Pattern::Call];
        });
        let plan = resolve_on(&machine(), &experiment, "flags", &registry_of(systems)).unwrap();
        let [planned] = &plan.sub_experiments[..] else { panic!("one was asked for") };
        assert_eq!(
            (planned.name.as_str(), planned.workload.links(), planned.payloads.as_slice()),
            (name, 2, &[300][..])
        );
        let workload = &planned.workload;
        let kinds = (workload.is_publication(), workload.is_call());
        assert_eq!(kinds, (pattern == "publish", pattern == "call"));
        assert_eq!(workload.loads, [OfferedLoad::Recorded], "{pattern}");
        assert_eq!(workload.recorded.map(|all| (all.messages, all.duration_ns)), Some((3, 2_000_000)), "{pattern}");
        assert_eq!((planned.samples, planned.warmup), (3, 3));
    }
}

#[test]
fn bursts_and_rates_are_trials_of_one_plan() {
    let mut systems = systems();
    systems[1].description.variants[0].patterns = vec![Pattern::Ping, Pattern::Publish];
    let text = |pattern: &str| format!("pattern = '{pattern}'\nrate = '10'\ndemand = '4'\nrecovery_ms = '2.5'\n");
    for pattern in ["ping", "publish"] {
        let text = format!("{}floor = false\n{}", text(pattern), toml_for(&["uds"]));
        let plan = plan_of(&text, systems.clone()).unwrap();
        let loads: Vec<String> = plan.sub_experiments[0].workload.loads.iter().map(|load| load.to_string()).collect();
        assert_eq!(loads, ["10hz", "burst:4/2500000ns"], "{pattern}");
        assert!(plan.sub_experiments[0].name.ends_with("_bursts"), "{}", plan.sub_experiments[0].name);
    }
}

#[test]
fn each_load_is_a_sub_experiment_of_its_own_with_a_floor_of_its_own() {
    let resolved = |text: &str| {
        let experiment = Experiment::parse(text).unwrap();
        resolve_on(&machine(), &experiment, "test", &registry_of(systems())).unwrap()
    };
    let text = "background = ['none', 'cpu:2,memory']\n[[sub_experiment]]\ntransport = 'uds'\n";
    let (plan, one, floor) = (resolved(text), "uds_datagram_poll", "floor_shm_ring_poll");
    let loaded = |name: &str| format!("{name}_background-cpu-2-memory");
    assert_eq!(names(&plan), [one, &loaded(one), floor, &loaded(floor)]);
    let loads: Vec<String> = plan.sub_experiments.iter().map(|sub| sub.background.to_string()).collect();
    assert_eq!(loads, ["none", "cpu:2,memory", "none", "cpu:2,memory"]);
    let named = resolved(&format!("floor = false\n{text}name = 'mine'\n"));
    assert_eq!(names(&named), ["mine", &loaded("mine")]);
}

#[test]
fn each_number_of_clients_is_a_sub_experiment_of_its_own_with_a_floor_of_its_own() {
    let calling = |text: &str| {
        let mut systems = systems();
        for variant in systems.iter_mut().flat_map(|system| &mut system.description.variants) {
            (variant.patterns, variant.waits) = (vec![Pattern::Ping, Pattern::Call], Wait::ALL.to_vec());
        }
        plan_of(&format!("pattern = 'call'\n{text}"), systems)
    };
    let plan = calling(&format!("clients = '1,4'\nmode = 'fixed-freq'\nrate = '10'\n{}", toml_for(&["uds"]))).unwrap();
    let one = "uds_datagram_block_call_fixed-freq";
    let floor = "floor_shm_ring_block_call_fixed-freq";
    assert_eq!(names(&plan), [one, &format!("{one}_clients-4"), floor, &format!("{floor}_clients-4")]);
    let links: Vec<u32> = plan.sub_experiments.iter().map(|planned| planned.workload.links()).collect();
    assert_eq!(links, [1, 4, 1, 4]);
    let timeouts = |plan: &Plan| -> Vec<u64> {
        plan.sub_experiments.iter().map(|sub_experiment| plan.loss_timeout_ns_of(sub_experiment)).collect()
    };
    assert_eq!(timeouts(&plan), [3_000_000_000; 4]);
    let trips = |text: &str| {
        let planned = self::plan(&format!("floor = false\n{text}{}", toml_for(&["uds/stream"]))).unwrap();
        names(&planned).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(trips(""), ["uds_stream_block"]);
    let each = ["uds_stream_block_clients-1", "uds_stream_block_clients-2"];
    assert_eq!(trips("clients = '1,2'\n"), each, "other loops than that of round trips without a number of clients");
    let named = calling(&format!("floor = false\n{}name = 'calls'\nclients = '2,8'\n", toml_for(&["uds"]))).unwrap();
    assert_eq!(names(&named), ["calls_clients-2", "calls_clients-8"]);
    let plan = calling(&format!("loss_timeout_s = 0.5\nfloor = false\ncpus = '1'\n{}", toml_for(&["uds"]))).unwrap();
    assert_eq!((timeouts(&plan), &plan.cpus, plan.leader_cpu), (vec![500_000_000], &vec![1], None));
    let both = calling(&format!("cpus = '0-1'\nleader_cpu = 0\n{}", toml_for(&["uds"]))).unwrap_err().to_string();
    assert!(both.contains("--cpus") && both.contains("--leader-cpu"), "{both}");
}
