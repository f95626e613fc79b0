//! Waits on the simulation's own thread for answers of a store.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use store::Failure;
use tokio::runtime::{Builder, Runtime};

/// Drives the connections to PostgreSQL. A world on the embedded store needs none.
static RUNTIME: OnceLock<Runtime> = OnceLock::new();

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The runtime that drives connections, started at the first call.
pub(crate) fn runtime() -> Result<&'static Runtime, Failure> {
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let built = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let built = built.map_err(|error| Failure::Unavailable(format!("no runtime: {error}")))?;
    Ok(RUNTIME.get_or_init(|| built))
}

/// Waits until the future is done. Unlike `Runtime::block_on`, this also works inside of a task.
pub(crate) fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let _entered = RUNTIME.get().map(Runtime::enter);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (std::pin::pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}
