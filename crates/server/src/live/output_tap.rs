//! The output of one attempt, on its way from a runner to those who watch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::turn::Perform;
use runners::{OutputSink, Stream};

use super::secret_redactor::SecretRedactor;
use super::{About, Live};
use crate::secrets::Secrets;

/// Takes the output of one attempt, masks secrets in it, and passes it on to [`Live`].
#[derive(Debug)]
pub(crate) struct OutputTap {
    live: Arc<Live>,
    secrets: Arc<Secrets>,
    about: About,
    redactors: Mutex<[SecretRedactor; 2]>,
}

impl OutputTap {
    pub(crate) fn new(live: Arc<Live>, secrets: Arc<Secrets>, perform: &Perform) -> Arc<OutputTap> {
        let (about, redactors) = (About::new(perform), Mutex::default());
        Arc::new(OutputTap { live, secrets, about, redactors })
    }

    /// A sink that a runner writes output to.
    pub(crate) fn output_sink(self: &Arc<Self>) -> OutputSink {
        let output_tap = self.clone();
        OutputSink::new(move |stream, bytes| output_tap.hear(stream, bytes))
    }

    fn hear(&self, stream: Stream, bytes: &[u8]) {
        let shown = self.redactor()[stream as usize].pass(bytes, &self.secrets);
        self.live.say(&self.about, &shown);
    }

    /// Takes one whole line, of a script's log.
    pub(crate) fn log_line(&self, line: &str) {
        self.live.say(&self.about, &format!("{}\n", self.secrets.mask(line)));
    }

    /// Ends both streams: passes on what was held back.
    pub(crate) fn close(&self) {
        let rest = self.redactor().each_mut().map(|redactor| redactor.rest(&self.secrets));
        rest.iter().for_each(|rest| self.live.say(&self.about, rest));
    }

    fn redactor(&self) -> MutexGuard<'_, [SecretRedactor; 2]> {
        self.redactors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
