//! Named pipes (FIFOs), one per direction.
//!
//! Both are in the scratch folder, and are unlinked as soon as both ends have them open. A connected link only
//! calls `read(2)` and `write(2)`. Neither end holds a writer of the FIFO that it reads, so that a dead peer shows
//! as end of file.

mod fifo;

use fifo::FifoPair;
use tripmeter_abi::os;
use tripmeter_abi::packets::{self, MOST_PAYLOAD_BYTES, StreamLink};
use tripmeter_abi::{
    Description, Limits, LinkOptions, Names, Node, NodeOptions, Path, Pattern, Result, Setting, System, Variant,
    kernel_version,
};

#[derive(Clone, Copy, Debug, Default)]
pub struct Pipe;

impl System for Pipe {
    type Node = PipeNode;

    fn description(&self) -> Description {
        Description {
            system: "pipe".into(),
            summary: "named pipes".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            system_version: kernel_version(),
            variants: vec![Variant {
                patterns: vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput],
                interrupt: true,
                ..Variant::new("fifo", "a FIFO per direction", Path::Pipe)
            }],
            settings: vec![
                packets::packet_setting(),
                Setting::new(
                    "buffer",
                    "system",
                    "system | bytes",
                    "F_SETPIPE_SZ; the kernel rounds up",
                    Names::Nothing,
                ),
            ],
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        let (packet, buffer) = settings(options)?;
        fifo::try_buffer(buffer, 2 * options.link_count.max(1))?;
        Ok(Limits {
            max_payload_bytes: MOST_PAYLOAD_BYTES,
            packet_bytes: packet.unwrap_or(0) as u64,
            unauthorized_peers: 0,
        })
    }

    fn open(&self, options: &NodeOptions) -> Result<PipeNode> {
        os::check_payload(options, MOST_PAYLOAD_BYTES)?;
        let (packet, buffer) = settings(options)?;
        Ok(PipeNode { options: options.clone(), packet, buffer })
    }
}

/// Values of `packet` and `buffer`; `None` for the system's own.
fn settings(options: &NodeOptions) -> Result<(Option<usize>, Option<u64>)> {
    os::check(&Pipe.description(), options)?;
    let packet = packets::packet_bytes(options, MOST_PAYLOAD_BYTES)?;
    Ok((packet, os::number_or(options, "buffer", "system", 4096..=1 << 30)?))
}

pub struct PipeNode {
    options: NodeOptions,
    packet: Option<usize>,
    buffer: Option<u64>,
}

impl Node for PipeNode {
    type Link = StreamLink<FifoPair>;

    fn link(&mut self, link: &LinkOptions) -> Result<Self::Link> {
        let fifos = FifoPair::new(&self.options, link.index, self.buffer)?;
        StreamLink::new(fifos, self.packet, self.options.max_payload_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_abi::testing::{self, Case};
    use tripmeter_abi::{Link, Role, Status, Wait};

    const CASE: Case<'_> =
        Case { variant: "fifo", settings: &[], wait: Wait::Block, pattern: Pattern::Ping, payloads: &[(16, 1)] };

    #[test]
    fn fifo() {
        testing::conformance(&Pipe, "fifo", &[&[], &[("packet", "4096")], &[("buffer", "8192")]]);
    }

    #[test]
    fn a_buffer_beyond_the_kernel_s_limit_is_refused() {
        let error = testing::probe(&Pipe, &Case { settings: &[("buffer", "1073741824")], ..CASE });
        // A privileged process may get it.
        if let Err(error) = error {
            assert_eq!(error.status, Status::Limit, "{error}");
            assert!(error.message.contains("pipe-max-size"), "{error}");
        }
    }

    #[test]
    fn an_absent_peer_ends_the_connecting_and_leaves_no_file() {
        let scratch = testing::Scratch::new();
        for role in [Role::Leader, Role::Follower] {
            let mut node = Pipe.open(&testing::options(&Pipe, role, &CASE, &scratch)).unwrap();
            let mut link = node.link(&LinkOptions { index: 0, callback: None }).unwrap();
            let error = link.connect(&[Vec::new()], 2_000_000).unwrap_err();
            assert_eq!(error.status, Status::Failed, "{error}");
            drop(link);
            assert_eq!(scratch.entries(), [""; 0]);
        }
    }
}
