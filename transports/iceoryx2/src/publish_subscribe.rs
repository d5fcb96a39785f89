#![expect(unsafe_code, reason = "memory that is lent or shared")]

use crate::session::{HELD, Ipc, Patience, Session, await_peer, failed, peer_left, queue_length};
use crate::wake::Wake;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::AllocationStrategy;
use iceoryx2::sample::Sample;
use iceoryx2::sample_mut::SampleMut;
use iceoryx2::service::port_factory::PortFactory as _;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;
use std::ptr;
use tripmeter_abi::{Error, Link, Loan, Message, Result};

/// Publisher and subscriber, each of its own service.
pub(crate) struct PublishSubscribe<W> {
    // Dropped first: samples return to their ports.
    loaned: Option<SampleMut<Ipc, [u8], ()>>,
    held: [Option<Sample<Ipc, [u8], ()>>; HELD],
    publisher: Publisher<Ipc, [u8], ()>,
    subscriber: Subscriber<Ipc, [u8], ()>,
    wake: W,
    outward: PortFactory<Ipc, [u8], ()>,
    inward: PortFactory<Ipc, [u8], ()>,
    patience: Patience,
    session: Session,
}

// SAFETY: the ports share reference counts without atomics among themselves and with their samples. All of them, and the
// iceoryx2 node they belong to, are owned by this link and never leave it, so that they move between threads together.
unsafe impl<W: Wake> Send for PublishSubscribe<W> {}

fn service(session: &Session, direction: &str) -> Result<PortFactory<Ipc, [u8], ()>> {
    let [publishers, subscribers] = session.ends(direction);
    session
        .service(direction)?
        .publish_subscribe::<[u8]>()
        .max_nodes(publishers + subscribers)
        .max_publishers(publishers)
        .max_subscribers(subscribers)
        .history_size(0)
        .subscriber_max_buffer_size(queue_length(session.pattern))
        .subscriber_max_borrowed_samples(HELD)
        // A full queue must block the sender, and never lose a message silently.
        .enable_safe_overflow(false)
        .open_or_create()
        .map_err(failed("opening the service"))
}

impl<W: Wake> PublishSubscribe<W> {
    pub(crate) fn open(session: Session, wake: impl Fn(&Session) -> Result<W>) -> Result<Self> {
        let [outward, inward] = session.directions();
        let (outward, inward) = (service(&session, outward)?, service(&session, inward)?);
        let patience = Patience::new();
        let publisher = outward
            .publisher_builder()
            .initial_max_slice_len(session.max_payload_bytes)
            .allocation_strategy(AllocationStrategy::Static)
            .max_loaned_samples(1)
            .set_backpressure_handler(patience.handler())
            .create()
            .map_err(failed("creating the publisher"))?;
        let subscriber = inward.subscriber_builder().create().map_err(failed("creating the subscriber"))?;
        let wake = wake(&session)?;
        Ok(Self {
            loaned: None,
            held: [const { None }; HELD],
            publisher,
            subscriber,
            wake,
            outward,
            inward,
            patience,
            session,
        })
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<Message>> {
        let Some(sample) = self.subscriber.receive().map_err(failed("receiving"))? else { return Ok(None) };
        let slot = usize::from(self.held[0].is_some());
        let payload = sample.payload();
        let message =
            Message { data: payload.as_ptr(), length: payload.len(), token: ptr::without_provenance_mut(slot) };
        self.held[slot] = Some(sample);
        Ok(Some(message))
    }

    fn peer_is_there(&self) -> bool {
        self.outward.dynamic_config().number_of_subscribers() >= self.session.peers()
            && self.inward.dynamic_config().number_of_publishers() >= self.session.peers()
    }
}

impl<W: Wake> Link for PublishSubscribe<W> {
    fn connect(&mut self, _peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        await_peer(timeout_ns, || Ok(self.peer_is_there() && self.wake.peers_are_there(self.session.peers())))?;
        self.publisher.update_connections().map_err(failed("connecting to the subscriber"))?;
        self.subscriber.has_samples().map_err(failed("connecting to the publisher"))?;
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        let sample = self.publisher.loan_slice_uninit(length).map_err(failed("loaning"))?;
        // SAFETY: the payload is mapped memory, of which any content is a valid `u8`; its writer fills it before sending.
        let sample = self.loaned.insert(unsafe { sample.assume_init() });
        Ok(Loan { data: sample.payload_mut().as_mut_ptr(), length, token: ptr::null_mut() })
    }

    fn publish(&mut self, _loan: Loan, timeout_ns: u64) -> Result<bool> {
        let sample = self.loaned.take().ok_or_else(|| Error::failed("iceoryx2: nothing is on loan"))?;
        self.patience.set_ns(timeout_ns);
        match sample.send() {
            Ok(0) if !self.peer_is_there() => Err(peer_left()),
            Ok(0) => Ok(false),
            Ok(_) => self.wake.notify().map(|()| true),
            Err(error) => Err(failed("sending")(error)),
        }
    }

    fn discard(&mut self, _loan: Loan) {
        self.loaned = None;
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let message = self.receive()?;
        if !W::SLEEPS || message.is_some() {
            return Ok(message);
        }
        self.wake.wait(timeout_ns)?;
        match self.receive()? {
            None if !self.peer_is_there() => Err(peer_left()),
            message => Ok(message),
        }
    }

    fn release(&mut self, message: Message) {
        self.held[message.token.addr()] = None;
    }
}
