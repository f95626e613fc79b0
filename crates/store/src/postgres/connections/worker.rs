//! Threads that run transactions, each on a connection of its own.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use futures_util::future::BoxFuture;

use crate::failure::Failure;
use crate::postgres::transaction::core::Core;
use crate::set_aside::guarded;

type Job = Box<dyn FnOnce(&mut Core) + Send>;

/// A queue of work, and the threads that do it. They end when the queue is dropped.
pub(crate) struct Workers {
    jobs: Sender<Job>,
}

impl Workers {
    pub(crate) fn start(name: &str, cores: Vec<Core>) -> Result<Workers, Failure> {
        let (jobs, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for core in cores {
            let waiting = waiting.clone();
            thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || serve(core, &waiting))
                .map_err(|error| Failure::Unavailable(error.to_string()))?;
        }
        Ok(Workers { jobs })
    }

    /// Runs `work` on one of the threads. The answer comes when it is done, including its commit.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core) -> Result<T, Failure> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Failure>> {
        let (answer, answered) = futures_channel::oneshot::channel();
        let job: Job = Box::new(move |core| {
            // The caller may be gone; the work is done all the same.
            let _ = answer.send(guarded(|| work(core)));
        });
        let sent = self.jobs.send(job).is_ok();
        Box::pin(async move {
            let closed = || Failure::Unavailable("the store is closed".to_owned());
            if !sent {
                return Err(closed());
            }
            answered.await.map_err(|_| closed())?
        })
    }
}

fn serve(mut core: Core, waiting: &Mutex<Receiver<Job>>) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        job(&mut core);
    }
}
