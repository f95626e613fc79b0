//! The process that evaluates: it gives up what it does not need, then takes one phase after the
//! other, each in an interpreter of its own, until nobody is there any more to ask.

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

/// What our own code needs of the stack, beside what the script may use.
const OWN_STACK: usize = 4 << 20;

/// The two pipes to the parent. When they break, there is nobody left to work for.
pub(super) struct Channel {
    from: Box<dyn Read>,
    to: Box<dyn Write>,
}

impl Channel {
    /// The handles share their buffers with all others of this process.
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

/// Evaluates what standard input asks for, until it is closed: the main of a child of
/// [`Scripts`](super::Scripts).
pub fn child() -> ExitCode {
    let ToChild::Limits(limits) = Channel::standard().receive() else { return ExitCode::FAILURE };
    // Before there is another thread: namespaces and capabilities are given up by all that follow.
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
            // A parent listens to nothing but its pipe; whoever tries this by hand sees it.
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

/// Waits for the next phase. Answers that the one before did not wait for come first.
fn next_request(channel: &RefCell<Channel>) -> Request {
    loop {
        match channel.borrow_mut().receive() {
            ToChild::Evaluate(request) => return *request,
            ToChild::Answer { .. } => {}
            // A parent that is not ours.
            ToChild::Limits(_) => std::process::exit(1),
        }
    }
}
