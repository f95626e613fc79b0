use super::*;

#[test]
fn texts_become_canonical() {
    for (text, canonical) in [
        ("rrule:freq=daily", "FREQ=DAILY"),
        (" RRULE:FREQ=WEEKLY;INTERVAL=1;WKST=mo ", "FREQ=WEEKLY"),
        ("COUNT=3;FREQ=DAILY", "FREQ=DAILY;COUNT=3"),
        ("FREQ=YEARLY;BYDAY=+1SU,-1SU,MO", "FREQ=YEARLY;BYDAY=-1SU,MO,1SU"),
        ("FREQ=YEARLY;UNTIL=20270101t000000z", "FREQ=YEARLY;UNTIL=20270101T000000Z"),
        ("FREQ=DAILY;BYHOUR=17,9,9;WKST=SU", "FREQ=DAILY;BYHOUR=9,17;WKST=SU"),
        // Combinations that RFC 5545 forbids but that are in use.
        ("FREQ=WEEKLY;BYMONTHDAY=1;BYWEEKNO=2", "FREQ=WEEKLY;BYMONTHDAY=1;BYWEEKNO=2"),
        ("FREQ=DAILY;BYYEARDAY=-1;BYDAY=2MO", "FREQ=DAILY;BYDAY=2MO;BYYEARDAY=-1"),
    ] {
        let rrule = Rrule::parse(text).unwrap();
        assert_eq!(rrule.to_string(), canonical, "{text}");
        assert_eq!(Rrule::parse(canonical).unwrap(), rrule);
    }
}

#[test]
fn mistakes_have_a_code_and_a_place() {
    for (text, code, marked) in [
        ("", "rrule-empty", ""),
        ("RRULE:", "rrule-empty", "RRULE:"),
        ("FREQ=DAILY;", "rrule-part", ""),
        ("FREQ=DAILY;;COUNT=1", "rrule-part", ""),
        ("FREQ=DAILY;COUNT", "rrule-part", "COUNT"),
        ("DAILY", "rrule-part", "DAILY"),
        ("FREQ=DAILY; COUNT=1", "rrule-key", " COUNT"),
        ("FREQ=DAILY;BYDAYS=MO", "rrule-key", "BYDAYS"),
        ("RSCALE=CHINESE;FREQ=DAILY", "rrule-scale", "RSCALE"),
        ("FREQ=YEARLY;SKIP=OMIT", "rrule-scale", "SKIP"),
        ("FREQ=YEARLY;BYEASTER=0", "rrule-easter", "BYEASTER"),
        ("FREQ=DAILY;COUNT=1;count=2", "rrule-duplicate", "count=2"),
        ("COUNT=3", "rrule-missing-freq", "COUNT=3"),
        ("FREQ=DAYLY", "rrule-freq", "DAYLY"),
        ("FREQ=", "rrule-freq", ""),
        ("FREQ=DAILY;INTERVAL=0", "rrule-range", "0"),
        ("FREQ=DAILY;INTERVAL=-1", "rrule-range", "-1"),
        ("FREQ=DAILY;INTERVAL=1000001", "rrule-range", "1000001"),
        ("FREQ=DAILY;COUNT=0", "rrule-range", "0"),
        ("FREQ=DAILY;COUNT=3001", "rrule-range", "3001"),
        ("FREQ=DAILY;COUNT=9223372036854775808", "rrule-range", "9223372036854775808"),
        ("FREQ=DAILY;COUNT=１", "rrule-number", "１"),
        ("FREQ=DAILY;COUNT=", "rrule-number", ""),
        ("FREQ=DAILY;COUNT=1.5", "rrule-number", "1.5"),
        ("FREQ=DAILY;COUNT=--1", "rrule-number", "--1"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20260101", "rrule-count-until", "UNTIL=20260101"),
        ("FREQ=DAILY;UNTIL=2026-01-01", "rrule-until", "2026-01-01"),
        ("FREQ=DAILY;UNTIL=20260230", "rrule-until", "20260230"),
        ("FREQ=DAILY;UNTIL=20260101Z", "rrule-until", "20260101Z"),
        ("FREQ=DAILY;UNTIL=20260101T2500", "rrule-until", "20260101T2500"),
        ("FREQ=DAILY;UNTIL=é", "rrule-until", "é"),
        ("FREQ=DAILY;BYHOUR=24", "rrule-range", "24"),
        ("FREQ=DAILY;BYHOUR=1,,2", "rrule-empty-item", ""),
        ("FREQ=DAILY;BYHOUR=-1", "rrule-range", "-1"),
        ("FREQ=DAILY;BYMONTH=0", "rrule-zero", "0"),
        ("FREQ=DAILY;BYMONTHDAY=0", "rrule-zero", "0"),
        ("FREQ=DAILY;BYMONTHDAY=-32", "rrule-range", "-32"),
        ("FREQ=DAILY;BYYEARDAY=367", "rrule-range", "367"),
        ("FREQ=YEARLY;BYWEEKNO=54", "rrule-range", "54"),
        ("FREQ=MONTHLY;BYDAY=54MO", "rrule-range", "54"),
        ("FREQ=MONTHLY;BYDAY=0MO", "rrule-zero", "0"),
        ("FREQ=MONTHLY;BYDAY=2", "rrule-empty-item", ""),
        ("FREQ=MONTHLY;BYDAY=MONDAY", "rrule-weekday", "MONDAY"),
        ("FREQ=MONTHLY;BYDAY=٢MO", "rrule-number", "٢"),
        ("FREQ=WEEKLY;WKST=1MO", "rrule-weekday", "1MO"),
        ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=2MO", "rrule-prefix", "BYDAY=2MO"),
        ("FREQ=MONTHLY;BYSETPOS=1", "rrule-setpos", "BYSETPOS=1"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=0", "rrule-zero", "0"),
    ] {
        let problem = Rrule::parse(text).unwrap_err();
        let found = (problem.code, &problem.text[problem.span.clone()]);
        assert_eq!(found, (code, marked), "{text}");
    }
    let long = format!("FREQ=DAILY;BYHOUR={}1", "1,".repeat(600));
    assert_eq!(Rrule::parse(&long).unwrap_err().code, "rrule-long");
}

#[test]
fn mistakes_are_shown_with_a_remedy() {
    for (text, shown) in [
        (
            "FREQ=DAYLY;COUNT=3",
            "no such frequency: DAYLY\n  \
               FREQ=DAYLY;COUNT=3\n  \
               \u{20}    ^^^^^\n  \
             allowed: SECONDLY, MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY, YEARLY\n  \
             try: FREQ=DAILY",
        ),
        (
            "FREQ=DAILY;COUNT=9999999",
            "COUNT 9999999 is out of range\n  \
               FREQ=DAILY;COUNT=9999999\n  \
               \u{20}                ^^^^^^^\n  \
             allowed: 1-3000\n  \
             try: UNTIL with the last date, or no COUNT for a rule without an end",
        ),
        (
            "FREQ=WEEKLY;BYDAY=MO,WEDNESDAY",
            "no such weekday: WEDNESDAY\n  \
               FREQ=WEEKLY;BYDAY=MO,WEDNESDAY\n  \
               \u{20}                    ^^^^^^^^^\n  \
             allowed: SU, MO, TU, WE, TH, FR, SA\n  \
             try: BYDAY=WE",
        ),
    ] {
        assert_eq!(Rrule::parse(text).unwrap_err().to_string(), shown);
    }
}
