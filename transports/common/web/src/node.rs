//! An end of a transport over HTTP.

use crate::call_task::Connection;
use crate::client::Client;
use crate::driver::{self, Driver};
use crate::opening::{Called, Caller, Opening};
use crate::server::{CallService, Server};
use crate::settings::{MOST_BYTES, WebSettings};
use crate::tls;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tripmeter_abi::{Callback, Link, LinkOptions, Node, NodeOptions, Result, Role, Wait, os};

/// Makes a link that is not connected yet.
pub type MakeLink = fn(Driver, Opening, WebSettings, Option<Callback>) -> Box<dyn Link>;

/// Link with a call per message.
pub fn calling<C: Connection, S: CallService>(
    driver: Driver,
    opening: Opening,
    settings: WebSettings,
    callback: Option<Callback>,
) -> Box<dyn Link> {
    match opening {
        Opening::Leader(caller) => Box::new(Client::<C>::new(driver, caller, settings, callback)),
        Opening::Follower(called) => Box::new(Server::<S>::new(driver, called, settings, callback)),
    }
}

/// One end. Each link has its own connection.
pub struct WebNode {
    options: NodeOptions,
    settings: WebSettings,
    credentials: Option<tls::Credentials>,
    background: Option<Arc<Runtime>>,
    make_link: MakeLink,
}

impl WebNode {
    /// Node whose links `make_link` makes.
    pub fn open(options: &NodeOptions, settings: WebSettings, make_link: MakeLink) -> Result<Self> {
        os::check_payload(options, MOST_BYTES)?;
        let credentials = if settings.tls { tls::credentials(options)? } else { None };
        // Threads inherit CPU affinity, so tokio's thread starts before the measuring thread is pinned.
        let background = (options.role == Role::Leader && settings.is_one_way).then(driver::background).transpose()?;
        Ok(Self { options: options.clone(), settings, credentials, background, make_link })
    }
}

impl Node for WebNode {
    type Link = Box<dyn Link>;

    fn link(&mut self, options: &LinkOptions) -> Result<Box<dyn Link>> {
        let polls = self.options.wait == Wait::Poll;
        // The leader of a one-way pattern receives nothing.
        let callback = options.callback.filter(|_| self.background.is_none());
        let driver = match (&self.background, callback) {
            (Some(runtime), _) => Driver::with_runtime(runtime.clone(), polls),
            (None, Some(_)) => Driver::running()?,
            (None, None) => Driver::new(polls)?,
        };
        let (settings, protocol, own) = (self.settings, self.settings.protocol(), self.credentials.as_ref());
        let opening = match self.options.role {
            Role::Leader => {
                let tls = own.map(|own| own.connector(protocol)).transpose()?;
                Opening::Leader(Caller::open(&self.options, settings, tls)?)
            }
            Role::Follower => {
                let tls = own.map(|own| own.acceptor(protocol)).transpose()?;
                Opening::Follower(Called::open(&self.options, settings, tls)?)
            }
        };
        Ok((self.make_link)(driver, opening, settings, callback))
    }
}
