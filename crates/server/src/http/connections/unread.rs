//! Discards bodies that are not read to their end: requests refused for their size, caller or
//! route.
//!
//! Most clients send the whole body before they read the response. If the connection is closed
//! while they send, it is reset, and they see no response at all. So the rest of the body is read
//! and discarded, up to a limit.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::timeout;

/// How much is discarded. A client that sends more sees the response only if it reads while it
/// sends. Discarding needs no memory, and the connection still counts towards the limit of its
/// address.
const DISCARDED_BYTES: usize = 1024 * 1024 * 1024;
/// How long discarding may take.
const DISCARDED_FOR: Duration = Duration::from_secs(10);
/// A client that sends nothing for this long has stopped, and waits for the connection to be
/// closed.
const QUIET: Duration = Duration::from_secs(1);

/// The body of a request. If it is dropped before its end, the rest is discarded.
pub(super) struct RequestBody {
    incoming: Option<Incoming>,
    /// The client waits for `100 Continue`, and has not got it.
    is_withheld: bool,
}

impl RequestBody {
    /// `expects_continue` is whether the client sends the body only after `100 Continue`.
    pub(super) fn new(incoming: Incoming, expects_continue: bool) -> RequestBody {
        RequestBody { incoming: Some(incoming), is_withheld: expects_continue }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.is_withheld = false;
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let polled = Pin::new(incoming).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = &polled {
            self.incoming = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        // Without a runtime the connection is gone as well.
        if !incoming.is_end_stream()
            && !self.is_withheld
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(discard(incoming));
        }
    }
}

async fn discard(mut body: Incoming) {
    let mut left = DISCARDED_BYTES;
    let discarding = async {
        while let Ok(Some(Ok(frame))) =
            timeout(QUIET, poll_fn(|context| Pin::new(&mut body).poll_frame(context))).await
        {
            let size = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(size) else { return };
            left = rest;
        }
    };
    let _ = timeout(DISCARDED_FOR, discarding).await;
}
