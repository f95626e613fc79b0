//! Generated rules with calendars, rolling, fitting and bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_fuzz::invariants::{
    Written, bounded, check_calendar, check_mistakes, check_skipping, check_timing,
};
use punctual_fuzz::plan::Plan;
use punctual_fuzz::world;

fuzz_target!(|plan: Plan| {
    let (zone, at) = (world::zone(plan.zone), plan.at());
    let declared = plan.calendar();
    let calendar = declared.as_ref().map(|spec| {
        bounded("CalendarSpec::build", &Written(spec), || world::build_calendar(spec, &zone, ""))
    });
    let calendar = match calendar.transpose() {
        Ok(calendar) => calendar,
        Err(mistakes) => return check_mistakes(&mistakes),
    };
    if let Some(calendar) = &calendar {
        check_calendar(calendar, &(Written(&declared), &zone), at);
    }
    let spec = plan.timing();
    let written = (Written(&spec), Written(&declared));
    let built = bounded("TimingSpec::build", &written, || {
        world::with_context(&zone, at, calendar.as_ref(), |context| spec.build(context))
    });
    match built {
        Ok(timing) => {
            let timing = timing.for_schedule("fuzz");
            check_timing(&timing, &written, at);
            check_skipping(&timing, &written, at, &plan.places);
        }
        Err(mistakes) => check_mistakes(&mistakes),
    }
});
