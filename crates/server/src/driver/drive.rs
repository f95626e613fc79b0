//! The driver's loop: when it takes turns, one after the other or, where the store allows it, side
//! by side; and how it stops.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use store::{Failure, Report, Turned};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::turn::Begun;
use super::{Driver, Taken};
use crate::alarm::Alarm;
use crate::hub::DriverSignal;

/// The driver retries a store that does not answer after this pause, doubled each time up to
/// `LAST_RETRY`.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(2);
/// When the node stops, attempts may go on for this long before they are handed back.
const FINISH: Duration = Duration::from_secs(20);
/// How often the driver reads the clock while a turn is in flight. A node that was suspended in the
/// middle of a turn notices it by that; an idle node has its alarm.
const PULSE: Duration = Duration::from_secs(1);

/// Turns that are in flight.
type InFlightTurns = FuturesUnordered<InFlightTurn>;
type InFlightTurn = BoxFuture<'static, (Begun, Result<Turned, Failure>)>;

impl Driver {
    /// Drives the node until `stop` is cancelled, and then until its attempts have ended or are
    /// handed back.
    pub async fn run(
        self,
        signals: UnboundedReceiver<DriverSignal>,
        reports: UnboundedReceiver<Report>,
        stop: CancellationToken,
    ) -> Result<(), Failure> {
        let renewals = self.renewals();
        tokio::select! {
            ended = self.drive(signals, reports, stop) => ended,
            never = renewals.run() => match never {},
        }
    }

    async fn drive(
        mut self,
        mut signals: UnboundedReceiver<DriverSignal>,
        mut reports: UnboundedReceiver<Report>,
        stop: CancellationToken,
    ) -> Result<(), Failure> {
        let alarm = Alarm::new().map_err(|error| Failure::Unavailable(error.to_string()))?;
        let mut in_flight = InFlightTurns::new();
        let mut pulse = tokio::time::interval(PULSE);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Whether a report, a signal or the alarm came since the last turn began.
        let mut is_called = false;
        while !stop.is_cancelled() {
            let at = self.next_wakeup();
            if self.may_begin(is_called) {
                is_called = false;
                self.notice_time(at).await;
                self.take_all(&mut reports, &mut signals);
                match self.begin_turn().await {
                    Ok(turn) => in_flight.push(turn),
                    Err(failure) => self.turn_finished(Err(failure), &stop).await,
                }
                continue;
            }
            // If something is due but no turn may begin beside those in flight, wait for one of
            // them, not for the alarm.
            let rings = at.filter(|_| self.in_flight == 0 || !self.is_due());
            let rings = rings.into_iter().chain(self.settles_at()).min();
            let rings = rings.map(|at| self.clock.alarm(at));
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some((begun, turned)) = in_flight.next() => {
                    self.notice_suspension().await;
                    let ended = self.end(begun, turned);
                    let ended = self.isolate(ended).await;
                    self.turn_finished(ended, &stop).await;
                    self.is_awake();
                }
                _ = pulse.tick(), if self.in_flight > 0 => self.notice_suspension().await,
                report = reports.recv() => {
                    self.reports.extend(report);
                    self.take_all(&mut reports, &mut signals);
                    is_called = true;
                }
                Some(signal) = signals.recv() => {
                    self.take_signal(signal);
                    is_called = true;
                }
                _ = alarm.wait_until(rings) => is_called = true,
            }
        }
        while let Some((begun, turned)) = in_flight.next().await {
            // If this turn failed, its reports are kept in `self.reports`; `finish` commits them.
            let _ = self.end(begun, turned);
        }
        self.finish(&mut reports).await
    }

    /// Whether a turn may begin: the first when there is anything to do, further ones beside it
    /// when there is much to do.
    fn may_begin(&self, is_called: bool) -> bool {
        match self.in_flight {
            0 => is_called || self.has_more(),
            in_flight => in_flight < self.store.turns_at_a_time() && self.has_more_beside(),
        }
    }

    fn take_all(
        &mut self,
        reports: &mut UnboundedReceiver<Report>,
        signals: &mut UnboundedReceiver<DriverSignal>,
    ) {
        while let Ok(report) = reports.try_recv() {
            self.reports.push(report);
        }
        while let Ok(signal) = signals.try_recv() {
            self.take_signal(signal);
        }
    }

    /// Begins a turn and returns the future that waits for it.
    async fn begin_turn(&mut self) -> Result<InFlightTurn, Failure> {
        self.prepare().await?;
        let (begun, request) = self.begin();
        let store = self.store.clone();
        Ok(Box::pin(async move { (begun, store.turn(request).await) }))
    }

    /// Handles the end of a turn. If the store does not answer, the driver pauses, each time for
    /// longer; it decides nothing meanwhile.
    async fn turn_finished(&mut self, ended: Result<Taken, Failure>, stop: &CancellationToken) {
        match ended {
            Ok(_) => {
                if self.outage.take().is_some() {
                    tracing::info!("the store answers again");
                }
                self.hub.set_ready();
                self.tell_recovered();
            }
            Err(Failure::Fenced) => {}
            Err(failure) => {
                self.hub.set_not_ready(format!("Nothing can be decided: {failure}."));
                let pause = self.outage.unwrap_or(FIRST_RETRY);
                if self.outage.is_some() {
                    tracing::debug!(%failure, "trying again in {pause:?}");
                } else {
                    tracing::error!(%failure, "nothing can be decided until the store answers again");
                }
                self.outage = Some((pause * 2).min(LAST_RETRY));
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
    }

    /// Waits for attempts to end, for at most `FINISH`. Attempts that do not end in time are handed
    /// back: another node, or this node's next start, takes them over.
    async fn finish(&mut self, reports: &mut UnboundedReceiver<Report>) -> Result<(), Failure> {
        self.stopping = true;
        self.hub.set_not_ready("The node is stopping.");
        let deadline = tokio::time::sleep(FINISH);
        tokio::pin!(deadline);
        tracing::info!(attempts = self.going_on(), "stopping");
        while self.going_on() > 0 {
            if self.reports.is_empty() {
                tokio::select! {
                    report = reports.recv() => self.reports.extend(report),
                    () = &mut deadline => break,
                }
            }
            while let Ok(report) = reports.try_recv() {
                self.reports.push(report);
            }
            match self.turn().await {
                Ok(_) => {}
                // Other nodes have taken over all attempts of this node.
                Err(Failure::Fenced) => break,
                Err(failure) => {
                    tracing::error!(%failure, "what has ended cannot be stored: it will be repeated");
                    break;
                }
            }
        }
        if self.going_on() > 0 {
            tracing::warn!(attempts = self.going_on(), "handed back");
        }
        self.dispatch.abandon();
        self.store.has_settled(&self.name).await?;
        self.store.leave(self.node).await
    }
}
