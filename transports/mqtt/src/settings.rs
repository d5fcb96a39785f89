use rumqttc::QoS;
use std::net::IpAddr;
use tripmeter_abi::{Error, Names, NodeOptions, Result, Role, Setting, Status, os};

/// Payload limit of an MQTT packet, less room for topic and header.
///
/// # Source
/// MQTT 3.1.1, 2.2.3: a remaining length of 268,435,455 bytes
const MOST_BYTES: u64 = (1 << 28) - 4096;
/// Divisor of the machine's memory for the largest message: clients and broker hold copies of it.
const MEMORY_PART: u64 = 32;
/// Most bytes of messages that a client keeps until acknowledged; at least one message.
const MOST_UNACKNOWLEDGED_BYTES: u64 = 64 << 20;
/// Most bytes of messages that a broker keeps for a slow subscriber.
const MOST_QUEUED_BYTES: u64 = 512 << 20;
/// Default number of messages that a broker keeps.
const QUEUE: &str = "1000";
/// Fewest messages that a broker keeps.
const LEAST_QUEUE: u64 = 4;

/// A broker that we can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// rumqttd, in the program beside the plugin.
    Embedded,
    /// Debian's package.
    Mosquitto,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Embedded => "rumqttd",
            Kind::Mosquitto => "mosquitto",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub kind: Kind,
    pub qos: QoS,
    pub is_secured: bool,
    pub is_undelayed: bool,
    /// End that starts the broker, or knows where it runs.
    pub holder: Role,
    pub is_running: bool,
    /// Address of a running broker, if not the leader's.
    pub host: Option<IpAddr>,
    /// Port of the broker; `None`: any free one.
    pub port: Option<u16>,
    /// Most messages that a client has sent without an acknowledgement, under QoS 1 and 2.
    pub in_flight: u16,
    pub queue: u64,
    pub payload_bytes: u64,
}

impl Settings {
    pub(crate) fn read(options: &NodeOptions) -> Result<Self> {
        let invalid = |text: String| Error::new(Status::Invalid, text);
        let kind = match options.variant.as_str() {
            "embedded" => Kind::Embedded,
            "mosquitto" => Kind::Mosquitto,
            other => return Err(invalid(format!("mqtt has no variant '{other}'; there are embedded and mosquitto"))),
        };
        let payload_bytes = options.max_payload_bytes;
        let room = |bytes: u64| bytes / payload_bytes.max(1);
        let settings = Self {
            kind,
            qos: match options.number("qos", 0..=2)? {
                0 => QoS::AtMostOnce,
                1 => QoS::AtLeastOnce,
                _ => QoS::ExactlyOnce,
            },
            is_secured: options.is_on("tls", false)?,
            is_undelayed: options.is_on("nodelay", true)?,
            holder: if options.setting("broker") == "follower" { Role::Follower } else { Role::Leader },
            is_running: match options.setting("broker") {
                "start" | "follower" => false,
                "running" => true,
                other => {
                    return Err(invalid(format!("setting 'broker={other}' is none of start, follower and running")));
                }
            },
            host: match options.setting("host") {
                "" | "own" => None,
                host => Some(
                    host.parse()
                        .map_err(|_| invalid(format!("setting 'host={host}' is neither own nor an IP address")))?,
                ),
            },
            port: os::number_or(options, "port", "free", 1..=65_535)?.map(|port| port as u16),
            in_flight: options.number("in_flight", 1..=100)?.min(room(MOST_UNACKNOWLEDGED_BYTES).max(1)) as u16,
            queue: options.number("queue", 1..=1_000_000)?.min(room(MOST_QUEUED_BYTES).max(LEAST_QUEUE)),
            payload_bytes,
        };
        if !settings.is_undelayed && settings.qos != QoS::AtMostOnce {
            let text = "setting 'nodelay=off' goes with qos=0 only: packets would wait for delayed acknowledgements";
            return Err(invalid(text.to_owned()));
        }
        if settings.is_running && settings.port.is_none() {
            return Err(invalid("setting 'broker=running' needs the port of that broker; give port=NUMBER".to_owned()));
        }
        if settings.host.is_some() && !settings.is_running {
            return Err(invalid("setting 'host' needs broker=running: where one listens already".to_owned()));
        }
        if settings.is_running && options.setting("queue") != QUEUE {
            let text = "setting 'queue' needs broker=start: a running broker uses its own settings";
            return Err(invalid(text.to_owned()));
        }
        if settings.holder == Role::Follower && options.follower_count > 1 {
            let text = "setting 'broker=follower' goes with one follower: others would not know where it is";
            return Err(invalid(text.to_owned()));
        }
        if (settings.is_running || settings.holder == Role::Follower) && settings.is_secured {
            let text = "setting 'tls=on' needs broker=start: the leader makes its certificates for the run";
            return Err(invalid(text.to_owned()));
        }
        Ok(settings)
    }
}

pub(crate) fn described() -> Vec<Setting> {
    vec![
        Setting::new("qos", "0", "0 | 1 | 2", "quality of service: at most, at least, exactly once", Names::Nothing),
        Setting::new(
            "tls",
            "off",
            "off | on",
            "on: TLS, both sides with certificates that are made for the run",
            Names::Nothing,
        ),
        Setting::new(
            "nodelay",
            "on",
            "on | off",
            "TCP_NODELAY of the clients, and of a broker that we start",
            Names::Nothing,
        ),
        Setting::new(
            "in_flight",
            "20",
            "messages, 1 to 100",
            "most that a client sends before they are acknowledged",
            Names::Nothing,
        ),
        Setting::new(
            "queue",
            QUEUE,
            "messages, 1 to 1000000",
            "most that the broker keeps for a subscriber that is behind, 512 MiB at most; the rest is lost",
            Names::Nothing,
        ),
        Setting::new(
            "broker",
            "start",
            "start | follower | running",
            "start: by the leader; follower: by the follower; running: one listens at `port` of `host` already",
            Names::Nothing,
        ),
        Setting::new(
            "host",
            "own",
            "own | IP address",
            "with broker=running: where it is; own: the leader's address",
            Names::Host,
        ),
        Setting::new("port", "free", "free | 1 to 65535", "where the broker listens", Names::Host),
    ]
}

/// Largest message for this machine's memory, in bytes. Fails if the kernel does not report its memory.
pub(crate) fn most_payload_bytes() -> Result<u64> {
    const FILE: &str = "/proc/meminfo";
    let text = std::fs::read_to_string(FILE).map_err(|error| Error::os(FILE, error))?;
    let total_kb =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    let total_kb = total_kb.ok_or_else(|| Error::failed(format!("{FILE} has no line MemTotal")))?;
    Ok(MOST_BYTES.min(total_kb * 1024 / MEMORY_PART))
}
