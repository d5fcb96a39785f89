//! Checks before a measurement: every host can be reached, has the same tripmeter and plugins, and can run its part.

use super::network::network_of;
use super::ssh::Ssh;
use super::words::{Connection, FromHost, Hello, HostFindings, ToHost};
use crate::os::interfaces;
use crate::proof::is_connected;
use crate::wire::Relay;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;
use tripmeter_model::exit;
use tripmeter_model::manifest::{Environment, HostEnvironment};
use tripmeter_model::plan::{Host, Plan, SubExperiment};

const PREPARING_TIME: Duration = Duration::from_secs(120);
const MOST_LISTED: usize = 16;

#[derive(Debug, Error)]
#[error("host '{to}': {problem}")]
pub struct HostError {
    /// Host, as given to ssh.
    pub to: String,
    pub problem: HostProblem,
}

#[derive(Debug, Error)]
pub enum HostProblem {
    /// The host cannot be reached, or tripmeter there is missing or of another version.
    #[error("{0}")]
    Unreached(String),
    #[error("{0}")]
    Address(String),
    #[error("transport '{transport}' cannot be measured there: {why}")]
    Transport {
        transport: String,
        /// Reason, as shown in the message.
        why: String,
    },
}

impl HostError {
    pub(crate) fn not_pushed(to: &str, why: String) -> Self {
        Self { to: to.to_owned(), problem: HostProblem::Unreached(why) }
    }

    pub fn exit_code(&self) -> u8 {
        match self.problem {
            HostProblem::Address(_) => exit::USAGE,
            HostProblem::Unreached(_) | HostProblem::Transport { .. } => exit::UNAVAILABLE,
        }
    }
}

/// Host that was reached, and the addresses that messages use.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    pub to: String,
    pub connection: DataAddresses,
    /// CPU of its follower, if the plan names none.
    pub cpu: Option<usize>,
    /// Folder on the host that tripmeter was copied to; [`NOT_PUSHED`](super::NOT_PUSHED) if none.
    pub pushed: String,
    pub environment: HostEnvironment,
}

impl Met {
    pub(crate) fn relay(&self, control: PathBuf) -> Relay {
        let Self { to, pushed, connection, cpu, .. } = self;
        Relay { control, to: to.clone(), pushed: pushed.clone(), address: connection.follower, cpu: *cpu }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DataAddresses {
    pub leader: IpAddr,
    pub follower: IpAddr,
}

/// Connects to every host of a plan. `versions` returns the versions of a system on this host.
pub(crate) fn meet(
    plan: &Plan,
    pushed: &str,
    versions: &dyn Fn(&str) -> Option<(String, String)>,
    watch: &mut dyn FnMut(String),
) -> Result<Vec<Met>, HostError> {
    let mut met: Vec<Met> = Vec::new();
    for host in &plan.hosts {
        let at = |problem| HostError { to: host.to.clone(), problem };
        let one = meet_one(plan, host, pushed, versions, watch).map_err(at)?;
        let leader = one.connection.leader;
        if let Some(other) = met.iter().find(|other| other.connection.leader != leader) {
            let text = format!(
                "it reaches us at {leader}, but host '{}' at {}; name one of our addresses by --interface",
                other.to, other.connection.leader
            );
            return Err(at(HostProblem::Address(text)));
        }
        met.push(one);
    }
    Ok(met)
}

fn meet_one(
    plan: &Plan,
    host: &Host,
    pushed: &str,
    versions: &dyn Fn(&str) -> Option<(String, String)>,
    watch: &mut dyn FnMut(String),
) -> Result<Met, HostProblem> {
    let (mut ssh, hello) = Ssh::open(&host.to, pushed).map_err(HostProblem::Unreached)?;
    let connection = ends(plan.interface.as_deref(), host.interface.as_deref(), &hello)?;
    if let Some(name) = host.interface.as_deref().filter(|asked| asked.parse::<IpAddr>().is_err()) {
        watch(format!(
            "'{}' reports the address {1} for its '{name}': messages go there",
            host.to, connection.follower
        ));
    }
    let prepared = prepared(&mut ssh, plan.sub_experiments.clone(), connection.follower);
    let prepared = prepared.map_err(HostProblem::Unreached)?;
    compare(plan, &prepared, versions, watch)?;
    let HostFindings { environment, audit, network, cpu, .. } = prepared;
    let environment = HostEnvironment {
        to: host.to.clone(),
        name: hello.name,
        environment: Box::new(Environment { audit_before: Some(audit), ..environment }),
        here: network_of(connection.leader),
        there: network,
    };
    Ok(Met { to: host.to.clone(), connection, cpu, pushed: pushed.to_owned(), environment })
}

pub(super) fn prepared(ssh: &mut Ssh, plans: Vec<SubExperiment>, address: IpAddr) -> Result<HostFindings, String> {
    ssh.send(&ToHost::Prepare { plans, address }).map_err(|error| error.to_string())?;
    match ssh.wait(PREPARING_TIME)? {
        FromHost::Prepared(prepared) => Ok(*prepared),
        FromHost::Failed(why) => Err(why),
        _ => Err("its messages are out of order".to_owned()),
    }
}

/// Audits every host again after the measurement, and reads the counters of both interfaces. Returns a note for each
/// host that could not be reached.
pub(crate) fn look_again(met: &[Met], hosts: &mut [HostEnvironment]) -> Vec<String> {
    let mut unreached = Vec::new();
    for (met, host) in met.iter().zip(hosts) {
        host.here.after = network_of(met.connection.leader).before;
        let found = Ssh::open(&met.to, &met.pushed)
            .and_then(|(mut ssh, _)| prepared(&mut ssh, Vec::new(), met.connection.follower));
        match found {
            Ok(found) => {
                host.there.after = found.network.before;
                host.environment.audit_after = Some(found.audit);
                host.environment.after = Some(found.environment.before);
            }
            Err(why) => unreached.push(format!("host '{}' was not audited afterwards: {why}", met.to)),
        }
    }
    unreached
}

/// Checks that both sides have the same transports, and that the host can run its part.
fn compare(
    plan: &Plan,
    prepared: &HostFindings,
    versions: &dyn Fn(&str) -> Option<(String, String)>,
    watch: &mut dyn FnMut(String),
) -> Result<(), HostProblem> {
    for one in &plan.sub_experiments {
        let (system, transport) = (&one.transport.system, one.transport.to_string());
        let refused = |why: String| HostProblem::Transport { transport: transport.clone(), why };
        let Some(theirs) = prepared.systems.get(system) else {
            return Err(refused("the host did not report it".to_owned()));
        };
        let missing = |why: &String| refused(format!("{why}; install it there, or copy its plugin with --push"));
        let (there, driven_there) = theirs.as_ref().map_err(missing)?;
        let Some((here, driven_here)) = versions(system) else { continue };
        if *there != here {
            return Err(refused(format!(
                "it has version {there} there, but {here} here; install the same there, or copy ours with --push"
            )));
        }
        if *driven_there != driven_here {
            watch(format!("{transport}: {driven_there} there, {driven_here} here"));
        }
        if let Some(why) = prepared.problems.get(&one.name) {
            return Err(refused(why.clone()));
        }
    }
    Ok(())
}

/// Addresses of both ends of the messages: those asked for, or else those of the ssh connection. A host could report a
/// false end, so the ssh connection must also exist here.
pub(super) fn ends(here: Option<&str>, there: Option<&str>, hello: &Hello) -> Result<DataAddresses, HostProblem> {
    let own = interfaces();
    let ssh = hello.connection;
    let advised = |why| HostProblem::Address(format!("{why}; name its address or interface by --to-interface"));
    let follower = address(there, &hello.interfaces, ssh.map(|ends| ends.to.ip()), None).map_err(advised)?;
    let leader = address(here, &own, ssh.map(|ends| ends.from.ip()), Some(follower))
        .map_err(|why| HostProblem::Address(format!("here, {why}; name our address or interface by --interface")))?;
    if let (None, Some(Connection { from, to })) = (there, ssh)
        && !is_connected(from, to)
    {
        let text = format!("it reports that ssh reaches it at {to} from {from}, but there is no such connection here");
        return Err(advised(text));
    }
    if leader.is_ipv4() != follower.is_ipv4() {
        let text = format!(
            "{leader} here and {follower} there mix IPv4 and IPv6; choose others by --interface and --to-interface"
        );
        return Err(HostProblem::Address(text));
    }
    Ok(DataAddresses { leader, follower })
}

/// Address of one end: `asked`, or else the one that ssh uses. If an interface has several addresses, the first in the
/// family of `other` is preferred.
fn address(
    asked: Option<&str>,
    interfaces: &[(String, IpAddr)],
    usual: Option<IpAddr>,
    other: Option<IpAddr>,
) -> Result<IpAddr, String> {
    let listed = || {
        let some = interfaces.iter().take(MOST_LISTED);
        let all: Vec<String> = some.map(|(name, address)| format!("{name} {address}")).collect();
        if all.is_empty() { "it has only the loopback".to_owned() } else { format!("it has {}", all.join(", ")) }
    };
    let is_there = |address: &IpAddr| interfaces.iter().any(|(_, one)| one == address) || address.is_loopback();
    let Some(asked) = asked else {
        let usual = usual.ok_or_else(|| format!("ssh does not report its addresses; {}", listed()))?;
        return if is_there(&usual) {
            Ok(usual)
        } else {
            Err(format!("{usual}, which ssh uses, is not one of its addresses; {}", listed()))
        };
    };
    if let Ok(address) = asked.parse::<IpAddr>() {
        return if is_there(&address) {
            Ok(address)
        } else {
            Err(format!("{address} is not one of its addresses; {}", listed()))
        };
    }
    let of_it: Vec<IpAddr> = interfaces.iter().filter(|(name, _)| name == asked).map(|(_, address)| *address).collect();
    let alike = |address: &&IpAddr| other.is_none_or(|other| other.is_ipv4() == address.is_ipv4());
    let found = of_it.iter().find(alike).or(of_it.first());
    found.copied().ok_or_else(|| format!("it has no interface '{asked}'; {}", listed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Versions;
    use crate::wire::ClockAddress;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    fn hello(from: SocketAddr, to: SocketAddr) -> Hello {
        let interfaces = vec![("eth0".to_owned(), to.ip()), ("eth1".to_owned(), [192, 0, 2, 7].into())];
        Hello { versions: Versions::own(), name: "h".to_owned(), connection: Some(Connection { from, to }), interfaces }
    }

    #[test]
    fn an_address_of_another_host_must_be_the_end_of_a_connection_or_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let [from, to] = [own.local_addr().unwrap(), own.peer_addr().unwrap()];
        let found = ends(None, None, &hello(from, to)).unwrap();
        assert_eq!((found.leader, found.follower), (from.ip(), to.ip()));
        // Another host, and another port of the real one.
        for false_end in [SocketAddr::new([192, 0, 2, 7].into(), to.port()), SocketAddr::new(to.ip(), to.port() ^ 1)] {
            let error = ends(None, None, &hello(from, false_end)).unwrap_err().to_string();
            assert!(error.contains("there is no such connection here; name its address"), "{error}");
        }
        for asked in ["192.0.2.7", "eth1"] {
            let found = ends(Some("127.0.0.1"), Some(asked), &hello(from, from)).unwrap();
            assert_eq!(found.follower.to_string(), "192.0.2.7");
        }
        let ends = Connection::parse("10.0.0.1 50000 fd00::1 22").unwrap();
        assert_eq!((ends.from.to_string(), ends.to.to_string()), ("10.0.0.1:50000".into(), "[fd00::1]:22".into()));
        assert!(Connection::parse("fe80::1%eth0 50000 fe80::2 22").is_none() && Connection::parse("").is_none());
    }

    #[test]
    fn the_clock_of_a_follower_is_at_the_address_that_messages_go_to() {
        let clock = ClockAddress { at: "10.0.0.2:5000".parse().unwrap(), token: [0; 16] };
        assert_eq!(clock.check([10, 0, 0, 2].into()), Ok(()));
        let why = clock.check([10, 0, 0, 3].into()).unwrap_err();
        assert_eq!(why, "its clock is at 10.0.0.2, but messages go to 10.0.0.3");
    }
}
