#![expect(unsafe_code, reason = "memory that is lent or shared")]

use crate::session::{HELD, Ipc, Patience, Session, await_peer, failed, peer_left};
use crate::wake::Wake;
use iceoryx2::prelude::AllocationStrategy;
use iceoryx2::service::port_factory::PortFactory as _;
use std::ptr;
use tripmeter_abi::{Error, Link, Loan, Message, Result};

/// The server keeps the latest request, even a released one, for its response.
const REQUESTS: usize = HELD + 1;

type Service = iceoryx2::service::port_factory::request_response::PortFactory<Ipc, [u8], (), [u8], ()>;
type ClientPort = iceoryx2::port::client::Client<Ipc, [u8], (), [u8], ()>;
type ServerPort = iceoryx2::port::server::Server<Ipc, [u8], (), [u8], ()>;
type RequestMut = iceoryx2::request_mut::RequestMut<Ipc, [u8], (), [u8], ()>;
type PendingResponse = iceoryx2::pending_response::PendingResponse<Ipc, [u8], (), [u8], ()>;
type ActiveRequest = iceoryx2::active_request::ActiveRequest<Ipc, [u8], (), [u8], ()>;
type ResponseMut = iceoryx2::response_mut::ResponseMut<Ipc, [u8], ()>;
type Response = iceoryx2::response::Response<Ipc, [u8], ()>;

fn service(session: &Session) -> Result<Service> {
    session
        .service("calls")?
        .request_response::<[u8], [u8]>()
        .max_nodes(2)
        .max_clients(1)
        .max_servers(1)
        .max_loaned_requests(1)
        .max_active_requests_per_client(REQUESTS)
        .max_response_buffer_size(HELD)
        .max_borrowed_responses_per_pending_response(HELD)
        .enable_safe_overflow_for_requests(false)
        .enable_safe_overflow_for_responses(false)
        .open_or_create()
        .map_err(failed("opening the service"))
}

fn message(payload: &[u8], slot: usize) -> Message {
    Message { data: payload.as_ptr(), length: payload.len(), token: ptr::without_provenance_mut(slot) }
}

pub(crate) struct Client<W> {
    // Dropped first: requests and responses return to the port.
    loaned: Option<RequestMut>,
    held: [Option<Response>; HELD],
    pending: Option<PendingResponse>,
    port: ClientPort,
    wake: W,
    service: Service,
    patience: Patience,
    _session: Session,
}

// SAFETY: the port shares reference counts without atomics with its requests and responses. All of them, and the iceoryx2
// node they belong to, are owned by this link and never leave it, so that they move between threads together.
unsafe impl<W: Wake> Send for Client<W> {}

impl<W: Wake> Client<W> {
    pub(crate) fn open(session: Session, wake: impl Fn(&Session) -> Result<W>) -> Result<Self> {
        let service = service(&session)?;
        let patience = Patience::new();
        let port = service
            .client_builder()
            .initial_max_slice_len(session.max_payload_bytes)
            .allocation_strategy(AllocationStrategy::Static)
            .set_backpressure_handler(patience.handler())
            .create()
            .map_err(failed("creating the client"))?;
        let wake = wake(&session)?;
        let held = [const { None }; HELD];
        Ok(Self { loaned: None, held, pending: None, port, wake, service, patience, _session: session })
    }

    fn server_is_there(&self) -> bool {
        self.service.dynamic_config().number_of_servers() > 0
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<Message>> {
        let Some(pending) = &self.pending else { return Ok(None) };
        let Some(response) = pending.receive().map_err(failed("receiving"))? else { return Ok(None) };
        let slot = usize::from(self.held[0].is_some());
        let response = self.held[slot].insert(response);
        Ok(Some(message(response.payload(), slot)))
    }
}

impl<W: Wake> Link for Client<W> {
    fn connect(&mut self, _peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        await_peer(timeout_ns, || Ok(self.server_is_there() && self.wake.peers_are_there(1)))
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        let request = self.port.loan_slice_uninit(length).map_err(failed("loaning"))?;
        // SAFETY: the payload is mapped memory, of which any content is a valid `u8`; its writer fills it before sending.
        let request = self.loaned.insert(unsafe { request.assume_init() });
        Ok(Loan { data: request.payload_mut().as_mut_ptr(), length, token: ptr::null_mut() })
    }

    fn publish(&mut self, _loan: Loan, timeout_ns: u64) -> Result<bool> {
        let request = self.loaned.take().ok_or_else(|| Error::failed("iceoryx2: nothing is on loan"))?;
        self.patience.set_ns(timeout_ns);
        let pending = self.pending.insert(request.send().map_err(failed("sending"))?);
        match pending.number_of_server_connections() {
            0 if !self.server_is_there() => Err(peer_left()),
            0 => Ok(false),
            _ => self.wake.notify().map(|()| true),
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
            None if !self.server_is_there() => Err(peer_left()),
            message => Ok(message),
        }
    }

    fn release(&mut self, message: Message) {
        self.held[message.token.addr()] = None;
    }
}

pub(crate) struct Server<W> {
    // Dropped first: responses and requests return to the port.
    loaned: Option<ResponseMut>,
    requests: [Option<ActiveRequest>; REQUESTS],
    latest: usize,
    latest_is_released: bool,
    port: ServerPort,
    wake: W,
    service: Service,
    patience: Patience,
    _session: Session,
}

// SAFETY: as for `Client`.
unsafe impl<W: Wake> Send for Server<W> {}

impl<W: Wake> Server<W> {
    pub(crate) fn open(session: Session, wake: impl Fn(&Session) -> Result<W>) -> Result<Self> {
        let service = service(&session)?;
        let patience = Patience::new();
        let port = service
            .server_builder()
            .initial_max_slice_len(session.max_payload_bytes)
            .allocation_strategy(AllocationStrategy::Static)
            .max_loaned_responses_per_request(1)
            .set_backpressure_handler(patience.handler())
            .create()
            .map_err(failed("creating the server"))?;
        let wake = wake(&session)?;
        Ok(Self {
            loaned: None,
            requests: [const { None }; REQUESTS],
            latest: 0,
            latest_is_released: false,
            port,
            wake,
            service,
            patience,
            _session: session,
        })
    }

    fn client_is_there(&self) -> bool {
        self.service.dynamic_config().number_of_clients() > 0
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<Message>> {
        let Some(request) = self.port.receive().map_err(failed("receiving"))? else { return Ok(None) };
        if self.latest_is_released {
            self.requests[self.latest] = None;
            self.latest_is_released = false;
        }
        let free = self.requests.iter().position(Option::is_none);
        self.latest = free.ok_or_else(|| Error::failed("iceoryx2: too many requests are held unreleased"))?;
        let request = self.requests[self.latest].insert(request);
        Ok(Some(message(request.payload(), self.latest)))
    }
}

impl<W: Wake> Link for Server<W> {
    fn connect(&mut self, _peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        await_peer(timeout_ns, || Ok(self.client_is_there() && self.wake.peers_are_there(1)))?;
        self.port.has_requests().map_err(failed("connecting to the client"))?;
        Ok(())
    }

    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
        let slot = in_reply_to.map_or(self.latest, |request| request.token.addr());
        let request = self.requests[slot].as_ref();
        let request = request.ok_or_else(|| Error::failed("iceoryx2: there is no request to answer"))?;
        let response = request.loan_slice_uninit(length).map_err(failed("loaning"))?;
        // SAFETY: the payload is mapped memory, of which any content is a valid `u8`; its writer fills it before sending.
        let response = self.loaned.insert(unsafe { response.assume_init() });
        Ok(Loan { data: response.payload_mut().as_mut_ptr(), length, token: ptr::null_mut() })
    }

    fn publish(&mut self, _loan: Loan, timeout_ns: u64) -> Result<bool> {
        let response = self.loaned.take().ok_or_else(|| Error::failed("iceoryx2: nothing is on loan"))?;
        self.patience.set_ns(timeout_ns);
        response.send().map_err(failed("sending"))?;
        self.wake.notify().map(|()| true)
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
            None if !self.client_is_there() => Err(peer_left()),
            message => Ok(message),
        }
    }

    fn release(&mut self, message: Message) {
        match message.token.addr() {
            slot if slot == self.latest => self.latest_is_released = true,
            slot => self.requests[slot] = None,
        }
    }
}
