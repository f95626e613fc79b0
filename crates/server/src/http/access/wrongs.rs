//! Slows down callers who guess tokens, by the network they call from. A valid token is admitted at
//! once, whatever others tried from the same address: behind a proxy, everybody has the same one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::http::connections::network;
use crate::http::problem::Problem;

/// How many wrong tokens one network may send within [`WINDOW`] without delay: people mistype, and
/// programs retry.
const FREE: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Each further wrong token is answered this much later than the one before, up to [`LONGEST`].
const STEP: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(250);
/// How many networks are tracked at most.
const MOST_WATCHED: usize = 10_000;
/// How many responses are delayed at a time. Further ones are refused at once, so that nobody ties
/// up all connections.
const MOST_HELD: usize = 256;

/// The wrong tokens of the last minute, by network.
pub(crate) struct Wrongs {
    seen: Mutex<HashMap<IpAddr, (Instant, u32)>>,
    held: Semaphore,
}

impl Default for Wrongs {
    fn default() -> Wrongs {
        Wrongs { seen: Mutex::default(), held: Semaphore::new(MOST_HELD) }
    }
}

impl Wrongs {
    /// Records a wrong token, and returns when the request may be answered.
    pub(super) async fn slow(&self, from: Option<IpAddr>) -> Result<(), Problem> {
        let surplus = self.note(from).saturating_sub(FREE);
        self.hold_back(surplus).await
    }

    /// The same for the sign-in page: after too many wrong tokens it tells people to wait. Valid
    /// tokens are never refused.
    pub(super) async fn refuse_after_many(&self, from: Option<IpAddr>) -> Result<(), Problem> {
        let surplus = self.note(from).saturating_sub(FREE);
        self.hold_back(surplus).await?;
        if surplus > 0 { Err(too_many()) } else { Ok(()) }
    }

    async fn hold_back(&self, surplus: u32) -> Result<(), Problem> {
        if surplus > 0 {
            let Ok(_held) = self.held.try_acquire() else { return Err(too_many()) };
            tokio::time::sleep(STEP.saturating_mul(surplus).min(LONGEST)).await;
        }
        Ok(())
    }

    /// Records a wrong token, and returns how many there were from this network, with this one.
    fn note(&self, from: Option<IpAddr>) -> u32 {
        let (Some(from), now) = (from.map(network), Instant::now()) else { return 0 };
        let mut seen = self.seen();
        if seen.len() >= MOST_WATCHED {
            seen.retain(|_, (since, _)| now < *since + WINDOW);
        }
        // Too many networks are tracked: callers from further ones are slowed down as well.
        if seen.len() >= MOST_WATCHED && !seen.contains_key(&from) {
            return u32::MAX;
        }
        let (since, wrong) = seen.entry(from).or_insert((now, 0));
        if now >= *since + WINDOW {
            (*since, *wrong) = (now, 0);
        }
        *wrong = wrong.saturating_add(1);
        *wrong
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<IpAddr, (Instant, u32)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many() -> Problem {
    let detail = "Many wrong tokens came from your address. A right one is taken at any time; for others, wait \
                  a minute.";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", "Too many requests", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock is paused: how far it has advanced shows how long a call slept.
    #[tokio::test(start_paused = true)]
    async fn guessing_becomes_slow_and_begins_again_after_a_while() {
        let wrongs = Wrongs::default();
        let (one, other) = (Some([192, 0, 2, 1].into()), Some([192, 0, 2, 2].into()));
        let begun = Instant::now();
        for _ in 0..FREE {
            wrongs.slow(one).await.unwrap();
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        wrongs.slow(one).await.unwrap();
        assert_eq!(begun.elapsed(), STEP);
        for _ in 0..100 {
            wrongs.slow(one).await.unwrap();
        }
        let (begun, refused) = (Instant::now(), wrongs.refuse_after_many(one).await.unwrap_err());
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(begun.elapsed(), LONGEST, "no longer than that");
        wrongs.refuse_after_many(other).await.unwrap();
        wrongs.slow(None).await.unwrap();
        assert_eq!(begun.elapsed(), LONGEST, "others are not held up");
        tokio::time::advance(WINDOW).await;
        wrongs.refuse_after_many(one).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_answers_are_held_back() {
        let wrongs = Wrongs::default();
        let from = Some([192, 0, 2, 1].into());
        for _ in 0..FREE {
            wrongs.slow(from).await.unwrap();
        }
        let all = (0..MOST_HELD + 3).map(|_| wrongs.slow(from));
        let refused = futures_util::future::join_all(all).await;
        assert_eq!(refused.iter().filter(|answer| answer.is_err()).count(), 3);
    }
}
