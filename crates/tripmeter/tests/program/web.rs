//! HTTP and gRPC: peers refused by TLS, effects of settings, and large messages. Skipped with a message if a plugin is
//! missing.

use crate::common::{Tripmeter, alone, built, folder, is_nightly, manifest};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;
use tripmeter_abi::{Error, Wait};
use tripmeter_abi::{
    Link, LinkOptions, Node, NodeOptions, Pattern, Plugin, PluginLink, Role, Status, System, UnauthorizedPeer,
};
use tripmeter_model::exit;
use tripmeter_model::manifest::Verdict;

/// Time limit for anything expected, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// Receives of 50 ms each in [`LONG`].
const TAKES: u64 = 1200;

const SYSTEMS: [(&str, [&str; 2]); 2] = [("http", ["http1", "http2"]), ("grpc", ["unary", "stream"])];

/// Available systems, with their plugins and variants.
fn here() -> Vec<(Plugin, &'static str, &'static str)> {
    let found = SYSTEMS.into_iter().filter_map(|(system, variants)| Some((system, variants, built(system)?)));
    found
        .flat_map(|(system, variants, file)| variants.map(|variant| (Plugin::load(&file).unwrap(), system, variant)))
        .collect()
}

fn options(plugin: &Plugin, scratch: &Path, role: Role, variant: &str, settings: &[(&str, &str)]) -> NodeOptions {
    let defaults = plugin.description().settings.into_iter();
    let mut all: BTreeMap<String, String> = defaults.map(|setting| (setting.name, setting.default)).collect();
    all.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    NodeOptions {
        role,
        pattern: Pattern::Ping,
        wait: Wait::Block,
        variant: variant.to_owned(),
        settings: all,
        run_id: format!("tripmeter-test-{}", std::process::id()),
        scratch_dir: scratch.to_path_buf(),
        max_payload_bytes: 1024,
        link_count: 1,
        follower_count: 1,
        follower_index: 0,
        unauthorized_peer: None,
        publisher_count: 1,
        local_address: None,
    }
}

/// Connects a link to `peer`, and returns the result of `work`.
fn connected<T>(
    plugin: &Plugin,
    options: &NodeOptions,
    peer: &[u8],
    work: impl FnOnce(&mut PluginLink) -> T,
) -> Result<T, Error> {
    let mut node = plugin.open(options)?;
    let mut link = node.link(&LinkOptions { index: 0, callback: None })?;
    link.connect(&[peer.to_vec()], LONG.as_nanos() as u64)?;
    Ok(work(&mut link))
}

/// Connects a pair, and runs the work of each end; returns the errors of leader and follower.
fn pair(
    plugin: &Plugin,
    [leader, follower]: [&NodeOptions; 2],
    lead: impl FnOnce(&mut PluginLink, &[u8]) + Send,
    follow: impl FnOnce(&mut PluginLink) + Send,
) -> [Option<Error>; 2] {
    let addressed = Barrier::new(2);
    let addresses = std::sync::Mutex::new(BTreeMap::new());
    let join = |options: &NodeOptions, work: &mut dyn FnMut(&mut PluginLink, &[u8])| -> Result<(), Error> {
        let mut node = plugin.open(options)?;
        let mut link = node.link(&LinkOptions { index: 0, callback: None })?;
        addresses.lock().unwrap().insert(options.role == Role::Leader, link.address()?);
        addressed.wait();
        let peer = addresses.lock().unwrap()[&(options.role != Role::Leader)].clone();
        link.connect(std::slice::from_ref(&peer), LONG.as_nanos() as u64)?;
        work(&mut link, &peer);
        Ok(())
    };
    let (mut lead, mut follow) = (Some(lead), Some(follow));
    std::thread::scope(|scope| {
        let join = &join;
        let leads = scope.spawn(move || join(leader, &mut |link, peer| lead.take().unwrap()(link, peer)));
        let follows = scope.spawn(move || join(follower, &mut |link, _| follow.take().unwrap()(link)));
        [leads, follows].map(|end| end.join().unwrap().err())
    })
}

#[test]
fn an_unauthorized_peer_is_refused_because_of_tls_and_the_true_pair_goes_on() {
    for (plugin, system, variant) in here() {
        let scratch = folder();
        let of = |role| options(&plugin, scratch.path(), role, variant, &[("tls", "on")]);
        let (leader, follower) = (of(Role::Leader), of(Role::Follower));
        let attempt_access = |kind, peer: &[u8]| {
            let unauthorized_peer = NodeOptions { unauthorized_peer: Some(kind), ..of(Role::Leader) };
            let error = connected(&plugin, &unauthorized_peer, peer, |_| ()).expect_err("it is refused");
            assert_eq!(error.status, Status::Failed, "{system}/{variant}, {kind:?}: {error}");
            error.message.clone()
        };
        let lead = |link: &mut PluginLink, peer: &[u8]| {
            attempt_access(UnauthorizedPeer::Plain, peer);
            let why = attempt_access(UnauthorizedPeer::Foreign, peer);
            assert!(why.contains("refused the leader's certificate") && why.contains("fatal alert"), "{why}");
            let loan = link.loan(100, None).unwrap();
            assert!(link.publish(loan, LONG.as_nanos() as u64).unwrap());
            let answer = (0..TAKES).find_map(|_| link.take(50_000_000).unwrap()).expect("an answer");
            assert_eq!(answer.length, 50);
            link.release(answer);
        };
        let follow = |link: &mut PluginLink| {
            let request = (0..TAKES).find_map(|_| link.take(50_000_000).unwrap()).expect("a request");
            assert_eq!(request.length, 100);
            let loan = link.loan(50, Some(&request)).unwrap();
            assert!(link.publish(loan, LONG.as_nanos() as u64).unwrap());
            link.release(request);
            // Until the leader is gone.
            assert!((0..TAKES).any(|_| link.take(50_000_000).is_err()));
        };
        let errors = pair(&plugin, [&leader, &follower], lead, follow);
        assert!(errors.iter().all(Option::is_none), "{system}/{variant}: {errors:?}");
    }
}

#[test]
fn a_follower_with_a_certificate_of_another_authority_is_refused_and_said_why() {
    for (plugin, _, variant) in here() {
        // Two runs have different authorities.
        let (one, other) = (folder(), folder());
        let leader = options(&plugin, one.path(), Role::Leader, variant, &[("tls", "on")]);
        let follower = options(&plugin, other.path(), Role::Follower, variant, &[("tls", "on")]);
        let [leader, follower] = pair(&plugin, [&leader, &follower], |_, _| (), |_| ()).map(Option::unwrap);
        assert!(leader.message.contains("invalid peer certificate"), "{leader}");
        assert!(follower.message.contains("TLS with the leader failed"), "{follower}");
    }
}

#[test]
fn a_port_where_nobody_listens_is_named() {
    for (plugin, _, variant) in here() {
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let scratch = folder();
        let leader = options(&plugin, scratch.path(), Role::Leader, variant, &[]);
        let error = connected(&plugin, &leader, gone.as_bytes(), |_| ()).unwrap_err();
        assert!(error.status == Status::Closed && error.message.contains(&gone), "{error}");
    }
}

#[test]
fn a_run_over_tls_proves_that_unauthorized_peers_are_refused() {
    let _alone = alone();
    let transports: Vec<_> = here().iter().map(|(_, system, variant)| format!("{system}/{variant}?tls=on")).collect();
    if transports.is_empty() {
        return;
    }
    for wait in ["block", "callback"] {
        let folder = folder();
        let output = folder.path().display().to_string();
        let words = ["ping", "-q", "--wide", "--no-floor", &transports.join(","), "--wait", wait];
        let rest = ["-n", "20", "--payloads", "16,64k,1M", "--touch", "full", "--loss-timeout", "15", "-o", &output];
        let finished = Tripmeter::new(words.iter().chain(&rest)).run().with(exit::GOOD).clean();
        assert!(finished.unwrapped().contains("ok, secured"), "{}", finished.stdout);
        for result in &manifest(folder.path()).sub_experiments {
            let proof = result.path_proof.clone().unwrap();
            assert_eq!(proof.verdict, Verdict::Proven, "{proof:?}");
            let refused: Vec<_> = proof.unauthorized_peers.iter().map(|trial| trial.refused).collect();
            assert_eq!(refused, [Some(true); 2], "{proof:?}");
        }
    }
}

#[test]
fn messages_of_64_mb_go_whole_and_one_way_too() {
    let _alone = alone();
    // Both variants of each system, both patterns and two waits.
    let some = [
        ("http", "http/http1?tls=on,http/http2", "ping", "callback"),
        ("http", "http/http1,http/http2?in_flight=3&nodelay=off", "throughput", "block"),
        ("grpc", "grpc/unary,grpc/stream?tls=on&connection_window=8388608", "ping", "block"),
        ("grpc", "grpc/unary?in_flight=3,grpc/stream", "throughput", "callback"),
    ];
    let others = [
        ("http", "http/http1,http/http2,http/http2?stream_window=8388608,http/http1?tls=on", "ping", "block"),
        ("http", "http/http1,http/http2?in_flight=3", "throughput", "callback"),
        ("grpc", "grpc/unary?tls=on,grpc/stream", "ping", "callback"),
        ("grpc", "grpc/unary?in_flight=3,grpc/stream", "throughput", "block"),
    ];
    for (system, transports, pattern, wait) in some.into_iter().chain(others.into_iter().filter(|_| is_nightly())) {
        if built(system).is_none() {
            continue;
        }
        let folder = folder();
        let output = folder.path().display().to_string();
        let words = ["ping", "-q", "--wide", "--no-floor", transports, "--pattern", pattern, "--wait", wait];
        let rest = [
            "-n",
            "3",
            "--payloads",
            "64M",
            "--touch",
            "header",
            "--loss-timeout",
            "60",
            "--attempts",
            "1",
            "-o",
            &output,
        ];
        Tripmeter::new(words.iter().chain(&rest)).run().with(exit::GOOD).clean();
        let manifest = manifest(folder.path());
        assert_eq!(manifest.sub_experiments.len(), transports.split(',').count());
        let settings: Vec<_> = manifest.plan.sub_experiments.iter().map(|plan| &plan.transport.settings).collect();
        assert!(settings.iter().all(|settings| settings.contains_key("nodelay")), "{settings:?}");
    }
}

#[test]
fn settings_that_cannot_be_or_would_do_nothing_are_refused_by_the_plan() {
    let folder = folder();
    let output = folder.path().join("results").display().to_string();
    for (transport, part) in [
        ("http/http1?stream_window=65536", "'stream_window' does nothing over http1"),
        ("http/http1?in_flight=2", "'in_flight' does nothing over http1"),
        ("http/http2?in_flight=0", "'in_flight=0' is outside 1 to 100"),
        ("http/http2?stream_window=65534", "'stream_window=65534' is outside 65535 to 2147483647"),
        ("http/http2?tls=perhaps", "'tls=perhaps' is neither on nor off"),
        ("grpc/stream?in_flight=101", "'in_flight=101' is outside 1 to 100"),
        ("grpc/unary?nodelay=1", "'nodelay=1' is neither on nor off"),
    ] {
        if built(&transport[..4]).is_none() {
            continue;
        }
        let words = ["ping", transport, "-n", "10", "-o", &output];
        Tripmeter::new(words).run().with(exit::USAGE).one_line(&[part]).clean();
    }
}
