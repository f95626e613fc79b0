//! The output of one attempt, on its way from a runner to those who watch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::turn::Perform;
use runners::{Ear, Stream};

use super::curtain::Curtain;
use super::{About, Live};
use crate::secrets::Secrets;

/// Takes the output of one attempt, masks secrets in it, and passes it on to [`Live`].
#[derive(Debug)]
pub(crate) struct Hearing {
    live: Arc<Live>,
    secrets: Arc<Secrets>,
    about: About,
    curtains: Mutex<[Curtain; 2]>,
}

impl Hearing {
    pub(crate) fn new(live: Arc<Live>, secrets: Arc<Secrets>, perform: &Perform) -> Arc<Hearing> {
        let (about, curtains) = (About::new(perform), Mutex::default());
        Arc::new(Hearing { live, secrets, about, curtains })
    }

    /// A sink that a runner writes output to.
    pub(crate) fn ear(self: &Arc<Self>) -> Ear {
        let hearing = self.clone();
        Ear::new(move |stream, bytes| hearing.hear(stream, bytes))
    }

    fn hear(&self, stream: Stream, bytes: &[u8]) {
        let shown = self.curtain()[stream as usize].pass(bytes, &self.secrets);
        self.live.say(&self.about, &shown);
    }

    /// Takes one whole line, of a script's log.
    pub(crate) fn hear_line(&self, line: &str) {
        self.live.say(&self.about, &format!("{}\n", self.secrets.mask(line)));
    }

    /// Ends both streams: passes on what was held back.
    pub(crate) fn close(&self) {
        let rest = self.curtain().each_mut().map(|curtain| curtain.rest(&self.secrets));
        rest.iter().for_each(|rest| self.live.say(&self.about, rest));
    }

    fn curtain(&self) -> MutexGuard<'_, [Curtain; 2]> {
        self.curtains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
