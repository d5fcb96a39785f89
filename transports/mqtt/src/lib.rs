//! MQTT 3.1.1: leader and follower are clients of a broker, a separate process that listens at one address only.
//!
//! | Variant | Broker |
//! |---|---|
//! | `embedded` | rumqttd, in the program `tripmeter_mqtt_broker` beside the plugin |
//! | `mosquitto` | Eclipse Mosquitto, with a configuration of ours |
//!
//! The leader starts the broker when it opens its node, and ends it when it closes it; the broker dies with the
//! leader. Each link has its own connection, with a topic per direction.

mod broker;
mod client;
mod credentials;
mod link;
mod settings;

use broker::Broker;
use link::MqttLink;
use settings::Settings;
use tripmeter_abi::{
    Description, Limits, LinkOptions, Node, NodeOptions, Path, Pattern, Result, System, UnauthorizedPeer, Variant,
    Wait, export_transport, os,
};

/// System `mqtt`.
#[derive(Default)]
pub struct Mqtt;

export_transport!(Mqtt);

impl System for Mqtt {
    type Node = MqttNode;

    fn description(&self) -> Description {
        let variant = |name, summary| Variant {
            patterns: vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput],
            waits: vec![Wait::Poll, Wait::Block, Wait::Callback],
            // A broker drops messages for a slow subscriber.
            lossy: true,
            secure: true,
            own_threads: true,
            fan_out: true,
            publishers: true,
            broker: true,
            remote: true,
            ..Variant::new(name, summary, Path::Tcp)
        };
        Description {
            system: "mqtt".to_owned(),
            summary: "MQTT 3.1.1 over TCP through a broker".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system_version: broker::versions(),
            variants: vec![
                variant("embedded", "rumqttd between, a process that one end starts"),
                variant("mosquitto", "Mosquitto between, a process that one end starts"),
            ],
            settings: settings::described(),
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        let settings = Settings::read(options)?;
        // Only the host of the end that holds the broker needs one.
        if options.role == settings.holder {
            broker::check(&settings, settings.host.unwrap_or(options.address()))?;
        }
        let unauthorized_peers =
            if settings.is_secured { UnauthorizedPeer::Plain.code() | UnauthorizedPeer::Foreign.code() } else { 0 };
        Ok(Limits { max_payload_bytes: settings::most_payload_bytes()?, packet_bytes: 0, unauthorized_peers })
    }

    fn open(&self, options: &NodeOptions) -> Result<MqttNode> {
        os::check_payload(options, settings::most_payload_bytes()?)?;
        let settings = Settings::read(options)?;
        let broker = (options.role == settings.holder).then(|| Broker::join(&settings, options)).transpose()?;
        Ok(MqttNode { options: options.clone(), settings, broker })
    }
}

/// Settings of one process; one of both ends holds the broker.
pub struct MqttNode {
    options: NodeOptions,
    settings: Settings,
    broker: Option<Broker>,
}

impl Node for MqttNode {
    type Link = MqttLink;

    fn link(&mut self, options: &LinkOptions) -> Result<MqttLink> {
        let at = self.broker.as_ref().map(Broker::address);
        Ok(MqttLink::new(self.options.clone(), self.settings, options, at))
    }
}
