//! POSIX message queues, one per direction.
//!
//! They need no mounted `/dev/mqueue`. Messages larger than a queue's are split into packets. Once a link is
//! connected, it only calls `mq_send(3)` and `mq_receive(3)`. Both queues are unlinked as soon as both ends have
//! them open; until then the file `queues` of the scratch folder lists them.

mod limits;
mod queue;
#[cfg(test)]
mod tests;

use limits::Shape;
use queue::QueuePair;
use tripmeter_abi::os;
use tripmeter_abi::packets::{self, MOST_PAYLOAD_BYTES, PacketLink};
use tripmeter_abi::{
    Description, Limits, LinkOptions, Names, Node, NodeOptions, Path, Pattern, Result, Setting, System, Variant,
    kernel_version,
};

#[derive(Clone, Copy, Debug, Default)]
pub struct Mq;

impl System for Mq {
    type Node = MqNode;

    fn description(&self) -> Description {
        let depth = "messages per queue; native: fs.mqueue.msg_max, or what fits RLIMIT_MSGQUEUE";
        Description {
            system: "mq".into(),
            summary: "POSIX message queues".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            system_version: kernel_version(),
            variants: vec![Variant {
                patterns: vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput],
                interrupt: true,
                ..Variant::new("queue", "a queue per direction", Path::MessageQueue)
            }],
            settings: vec![
                packets::packet_setting(),
                Setting::new("depth", "native", "native | messages, 1 and more", depth, Names::Nothing),
            ],
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        os::check(&self.description(), options)?;
        let shape = Shape::find(options)?;
        queue::try_shape(options, &shape)?;
        Ok(Limits { max_payload_bytes: MOST_PAYLOAD_BYTES, packet_bytes: shape.packet as u64, unauthorized_peers: 0 })
    }

    fn open(&self, options: &NodeOptions) -> Result<MqNode> {
        os::check(&self.description(), options)?;
        os::check_payload(options, MOST_PAYLOAD_BYTES)?;
        Ok(MqNode { options: options.clone(), shape: Shape::find(options)? })
    }
}

pub struct MqNode {
    options: NodeOptions,
    shape: Shape,
}

impl Node for MqNode {
    type Link = PacketLink<QueuePair>;

    fn link(&mut self, link: &LinkOptions) -> Result<Self::Link> {
        let queues = QueuePair::new(&self.options, link.index, self.shape)?;
        PacketLink::new(queues, self.shape.packet, self.options.max_payload_bytes)
    }
}
