//! Waits for a future on a thread, but gives up when nothing happens for too long.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Wakes the waiting thread when the future can make progress.
#[derive(Default)]
struct Bell {
    is_rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    fn is_rung(&self) -> MutexGuard<'_, bool> {
        self.is_rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.is_rung() = true;
        self.rings.notify_one();
    }
}

/// Waits on this thread until the future is done; `None` if the future was not woken for as long as
/// `silence`. It needs no timer of a runtime, which may end before the thread does.
pub(crate) fn wait_for<T>(future: impl Future<Output = T>, silence: Duration) -> Option<T> {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
        let waited = bell.rings.wait_timeout_while(bell.is_rung(), silence, |is_rung| !*is_rung);
        let (mut is_rung, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        *is_rung = false;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::thread;

    use super::*;

    #[test]
    fn what_is_done_is_not_waited_for() {
        assert_eq!(wait_for(ready(7), Duration::ZERO), Some(7));
    }

    #[test]
    fn silence_ends_the_wait() {
        assert_eq!(wait_for(pending::<()>(), Duration::from_millis(1)), None);
    }

    #[test]
    fn an_answer_from_another_thread_is_heard() {
        let (answer, mut answered) = futures_channel::oneshot::channel();
        thread::spawn(move || answer.send(7));
        let heard = poll_fn(move |context| pin!(&mut answered).poll(context));
        assert_eq!(wait_for(heard, Duration::from_secs(60)), Some(Ok(7)));
    }
}
