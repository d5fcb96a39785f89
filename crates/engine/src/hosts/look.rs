//! Examination of another host without measuring: its machine, what disturbs measurements there, and its clock offset.

use super::meet::{HostError, HostProblem, ends, prepared};
use super::network::network_of;
use super::serve::systems;
use super::ssh::Ssh;
use super::words::{FromHost, Hello, HostFindings, ToHost};
use crate::clock::{Calibration, TimeOfDay};
use crate::environment::environment;
use crate::registry::Registry;
use crate::two_clocks::ClockReading;
use std::net::IpAddr;
use std::time::Duration;
use tripmeter_model::audit::Audit;
use tripmeter_model::host::{ClockOffset, HostLook, MachineLook};

const LISTING_TIME: Duration = Duration::from_secs(120);
const CLOCK_TIME: Duration = Duration::from_secs(10);
/// Name instead of a folder, for a host without pushed files.
pub const NOT_PUSHED: &str = "none";

pub fn own_look(registry: &Registry, audit: Audit) -> MachineLook {
    let environment = environment(&Calibration::new());
    MachineLook { name: Hello::own().name, environment, audit, systems: systems(registry) }
}

/// Examines a host. `here` and `there` are addresses or names of interfaces; by default, those of the ssh connection.
pub fn look_at(to: &str, here: Option<&str>, there: Option<&str>) -> Result<HostLook, HostError> {
    look(to, here, there).map_err(|problem| HostError { to: to.to_owned(), problem })
}

fn look(to: &str, here: Option<&str>, there: Option<&str>) -> Result<HostLook, HostProblem> {
    let (mut ssh, hello) = Ssh::open(to, NOT_PUSHED).map_err(HostProblem::Unreached)?;
    let ends = ends(here, there, &hello)?;
    let found = prepared(&mut ssh, Vec::new(), ends.follower).map_err(HostProblem::Unreached)?;
    let HostFindings { environment, audit, network, .. } = found;
    let listed = ask(&mut ssh, &ToHost::List, LISTING_TIME).map_err(HostProblem::Unreached)?;
    let FromHost::Systems(systems) = listed else {
        return Err(HostProblem::Unreached("its messages are out of order".to_owned()));
    };
    let (clock, clock_problem) = match clock(&mut ssh, ends.leader, ends.follower) {
        Ok(clock) => (Some(clock), None),
        Err(why) => (None, Some(why)),
    };
    let machine = MachineLook { name: hello.name, environment, audit, systems };
    let here = network_of(ends.leader);
    Ok(HostLook { to: to.to_owned(), machine, here, there: network, clock, clock_problem })
}

fn ask(ssh: &mut Ssh, question: &ToHost, time: Duration) -> Result<FromHost, String> {
    ssh.send(question).map_err(|error| error.to_string())?;
    match ssh.wait(time)? {
        FromHost::Failed(why) => Err(why),
        answer => Ok(answer),
    }
}

/// Offset of the other host's time of day, read by UDP between these addresses.
fn clock(ssh: &mut Ssh, here: IpAddr, there: IpAddr) -> Result<ClockOffset, String> {
    let own = TimeOfDay::recent();
    let question = ToHost::Clock { address: there, epoch_ns: own.epoch_ns };
    let FromHost::Clock(at) = ask(ssh, &question, CLOCK_TIME)? else {
        return Err("its messages are out of order".to_owned());
    };
    at.check(there)?;
    let reading = ClockReading::take_by(here, &at, &own, 1.0).map_err(|error| error.to_string())?;
    let offset_ns = reading.there as i64 - reading.here as i64;
    Ok(ClockOffset { offset_ns, error_ns: reading.bound.ceil() as u64 })
}
