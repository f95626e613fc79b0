//! The plan of the last decision about a schedule, so that the next one need not build it again.

use jiff::Timestamp;
use language::schedule::Plan;

/// A plan with the anchor that it was built for. It follows from the declaration, so it is not
/// stored, and schedules that differ in nothing else are equal.
#[derive(Clone, Debug, Default)]
pub struct LastPlan(Option<Box<(Timestamp, Plan)>>);

impl LastPlan {
    /// Takes the plan, if it was built for this anchor.
    pub(crate) fn take(&mut self, anchor: Timestamp) -> Option<Plan> {
        let (of, plan) = *self.0.take()?;
        (of == anchor).then_some(plan)
    }

    pub(crate) fn keep(&mut self, anchor: Timestamp, plan: Plan) {
        self.0 = Some(Box::new((anchor, plan)));
    }

    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

impl PartialEq for LastPlan {
    fn eq(&self, _: &LastPlan) -> bool {
        true
    }
}
