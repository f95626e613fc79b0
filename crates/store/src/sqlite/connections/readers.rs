//! Readers beside the writer: each sees the last commit and blocks nobody.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use futures_util::future::BoxFuture;
use rusqlite::Connection;

use crate::failure::Failure;

/// SQLite calls back after this many steps of its virtual machine.
const STEPS: std::ffi::c_int = 100_000;
/// How many callbacks a query may take: about half a minute. A longer query would keep the log from
/// being restarted, and the log would grow without bound.
const MOST: u32 = 20_000;

type Question = Box<dyn FnOnce(&mut Connection) + Send>;

/// A few threads, each with a connection of its own.
pub(crate) struct Readers {
    questions: Option<Sender<Question>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(connections: Vec<Connection>) -> Result<Readers, Failure> {
        let (questions, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let mut threads = Vec::new();
        for mut connection in connections {
            let waiting = waiting.clone();
            let callbacks = Arc::new(AtomicU32::new(0));
            let counted = callbacks.clone();
            let is_too_long = move || counted.fetch_add(1, Ordering::Relaxed) >= MOST;
            connection.progress_handler(STEPS, Some(is_too_long))?;
            let thread = thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || serve(&mut connection, &waiting, &callbacks))
                .map_err(|error| Failure::Unavailable(error.to_string()))?;
            threads.push(thread);
        }
        Ok(Readers { questions: Some(questions), threads })
    }

    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Failure>> {
        let (answer, answered) = futures_channel::oneshot::channel();
        let question: Question = Box::new(move |connection| {
            // The caller may be gone.
            let _ = answer.send(question(connection));
        });
        let sent =
            self.questions.as_ref().is_some_and(|questions| questions.send(question).is_ok());
        Box::pin(async move {
            let closed = || Failure::Unavailable("the store is closed".to_owned());
            if !sent {
                return Err(closed());
            }
            answered.await.map_err(|_| closed())?
        })
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.questions.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(connection: &mut Connection, waiting: &Mutex<Receiver<Question>>, callbacks: &AtomicU32) {
    loop {
        let question = match waiting.lock() {
            Ok(waiting) => waiting.recv(),
            Err(_) => return,
        };
        match question {
            Ok(question) => {
                callbacks.store(0, Ordering::Relaxed);
                question(connection);
            }
            Err(_) => return,
        }
    }
}
