//! The child process that evaluates scripts. It confines itself, then evaluates one phase after the
//! other, each in a new interpreter, until its parent closes the pipe.

mod calls;
mod confine;
mod entry;
mod filter;
mod given;
mod json;
mod log;
mod meter;
mod phase;
mod state;
mod surface;
mod thrown;

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) use meter::cpu_message;

use super::limits::ScriptLimits;
use super::wire::{self, FromChild, Request, ToChild};

/// Stack for the host's own code, in addition to the stack that the script may use.
const OWN_STACK: usize = 4 << 20;

/// The two pipes to the parent. If they break, the parent has ended and the child exits.
pub(super) struct Channel {
    from: Box<dyn Read>,
    to: Box<dyn Write>,
}

impl Channel {
    /// Uses standard input and output. All such handles of this process share their buffers.
    fn standard() -> Channel {
        Channel { from: Box::new(io::stdin()), to: Box::new(io::stdout()) }
    }

    fn send(&mut self, message: &impl Serialize) {
        if wire::write(&mut self.to, message).is_err() {
            std::process::exit(0);
        }
    }

    fn receive<T: DeserializeOwned>(&mut self) -> T {
        match wire::read(&mut self.from) {
            Ok(message) => message,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => std::process::exit(0),
            Err(_) => std::process::exit(1),
        }
    }
}

/// Evaluates the phases that standard input asks for, until it is closed. This is the main function
/// of a child of [`Scripts`](super::Scripts).
pub fn child() -> ExitCode {
    let ToChild::Limits(limits) = Channel::standard().receive() else { return ExitCode::FAILURE };
    // This runs before another thread is started, because later threads inherit the namespaces and
    // capabilities.
    let namespaces = confine::step_back();
    let stack = limits.stack_bytes.saturating_add(OWN_STACK);
    let serving =
        std::thread::Builder::new().stack_size(stack).spawn(move || serve(&limits, namespaces));
    match serving.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        _ => ExitCode::FAILURE,
    }
}

fn serve(limits: &ScriptLimits, namespaces: confine::Namespaces) -> ExitCode {
    let confinement = match confine::confine(limits, namespaces) {
        Ok(confinement) => confinement,
        Err(error) => {
            // A parent reads only its pipe. The message is for people who start this program by
            // hand.
            let _ = writeln!(io::stderr(), "the process cannot be confined: {error}");
            return ExitCode::FAILURE;
        }
    };
    let channel = Rc::new(RefCell::new(Channel::standard()));
    channel.borrow_mut().send(&FromChild::Confined(confinement));
    loop {
        channel.borrow_mut().send(&FromChild::Ready);
        let request = next_request(&channel);
        if confine::allow_cpu(limits.cpu).is_err() {
            return ExitCode::FAILURE;
        }
        channel.borrow_mut().send(&FromChild::Taken);
        phase::evaluate(request, limits, &channel);
    }
}

/// Waits for the next phase. Answers that the previous phase did not wait for are skipped.
fn next_request(channel: &RefCell<Channel>) -> Request {
    loop {
        match channel.borrow_mut().receive() {
            ToChild::Evaluate(request) => return *request,
            ToChild::Answer { .. } => {}
            // The parent does not follow the protocol.
            ToChild::Limits(_) => std::process::exit(1),
        }
    }
}
