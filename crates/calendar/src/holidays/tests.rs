use super::*;
use jiff::civil::date;

#[track_caller]
fn region(code: &str) -> Region {
    Region::parse(code).unwrap()
}

fn dates(holidays: &[Holiday]) -> Vec<Date> {
    holidays.iter().map(|holiday| holiday.date).collect()
}

#[track_caller]
fn check_unknown(code: &str, message: &str) {
    assert_eq!(Region::parse(code).unwrap_err().to_string(), message);
}

#[test]
fn every_line_of_every_rule_file_is_understood() {
    for (country, text) in RULE_TEXTS {
        for line in text::logical_lines(text) {
            assert!(text::read(&line).is_some(), "{country}: {line}");
        }
        let first = text::logical_lines(text).next().unwrap();
        assert!(first.starts_with(&format!("country {country} | ")), "{country}: {first}");
    }
    assert!(RULE_TEXTS.is_sorted_by_key(|(country, _)| *country));
}

#[test]
fn sections_name_known_subdivisions() {
    for (country, text) in RULE_TEXTS {
        let known: Vec<&str> = text::subdivisions(text).map(|part| part.code).collect();
        for line in text::logical_lines(text) {
            let Some(Line::Section(regions)) = text::read(&line) else { continue };
            let (text::Regions::Only(codes) | text::Regions::AllBut(codes)) = regions;
            for code in codes {
                assert!(code == "country" || known.contains(&code), "{country}: {line}");
            }
        }
    }
}

#[test]
fn codes_are_read_in_any_case_and_shown_in_one() {
    for (written, code, name) in [
        ("US", "US", "United States"),
        ("de-by", "DE-BY", "Germany, Bayern"),
        (" gb-sct ", "GB-SCT", "United Kingdom, Scotland"),
        ("uk", "GB", "United Kingdom"),
        ("fr-gp", "FR-971", "France, Guadeloupe"),
        ("ch-stadt zurich", "CH-Stadt Zurich", "Switzerland, Stadt Zürich"),
    ] {
        let region = region(written);
        assert_eq!((region.code(), region.name()), (code, name));
    }
}

#[test]
fn unknown_codes_are_answered_with_the_nearest() {
    let lead = "no holidays are known for the region";
    check_unknown("Germany", &format!("{lead} \"Germany\"; try DE"));
    check_unknown("DE-Bayern", &format!("{lead} \"DE-Bayern\"; try DE-BY"));
    check_unknown("US-C", &format!("{lead} \"US-C\"; try US-CA, US-CO, US-CT"));
    check_unknown("gb-xyz", &format!("{lead} \"gb-xyz\"; try GB, GB-ENG, GB-NIR, GB-SCT, GB-WLS"));
    check_unknown(
        "nowhere at all",
        &format!(
            "{lead} \"nowhere at all\"; write a country like DE, or a subdivision of it like DE-BY"
        ),
    );
}

#[test]
fn odd_texts_are_unknown_and_do_no_harm() {
    for code in ["", "-", "DE-", "-BY", "é-é", "DE-BY-X", "\u{1b}[2J", &"x".repeat(100_000)] {
        let unknown = Region::parse(code).unwrap_err();
        assert!(unknown.to_string().len() < 500, "{code:.20}");
    }
}

#[test]
fn several_holidays_on_one_date_are_one_entry() {
    let holidays = region("DE-BB").holidays(2008);
    let ascension = holidays.iter().find(|holiday| holiday.date == date(2008, 5, 1)).unwrap();
    assert_eq!(&*ascension.name, "Ascension Day; Labor Day");
    assert!(dates(&holidays).is_sorted_by(|a, b| a < b));
}

#[test]
fn observed_days_may_fall_in_the_year_before() {
    let days = dates(&region("US").holidays(2021));
    assert_eq!(days.last(), Some(&date(2021, 12, 31)));
    assert_eq!(days.first(), Some(&date(2021, 1, 1)));
}

#[test]
fn rules_hold_beyond_the_years_they_were_made_from() {
    let germany = region("DE");
    assert_eq!(germany.known_years(), None);
    assert!(dates(&germany.holidays(2100)).contains(&date(2100, 3, 26)), "Good Friday");
    assert_eq!(germany.holidays(2100).len(), 9);
}

#[test]
fn lists_end_with_the_known_years() {
    assert_eq!(region("SA").known_years(), Some(2010..=2050));
    assert_eq!(region("US").known_years(), None);
    assert_eq!(region("US-CA").known_years(), Some(2010..=2035));
    assert!(!region("SA").holidays(2060).is_empty(), "fixed days remain");
}

#[test]
fn china_makes_up_for_days_off() {
    let days = dates(&region("CN").working_days(2024));
    assert!(days.contains(&date(2024, 2, 4)));
    assert_eq!(days.len(), 8);
    assert_eq!(region("DE").working_days(2024), []);
}

#[test]
fn any_year_is_answered() {
    for country in Region::countries() {
        let region = region(country.code);
        for year in [i16::MIN, -9999, -1, 0, 1, 1582, 1900, 9999, i16::MAX] {
            assert!(region.holidays(year).iter().all(|holiday| holiday.date.year() == year));
        }
    }
}

#[test]
fn every_listed_region_is_found() {
    for country in Region::countries() {
        assert_eq!(region(country.code).name(), country.name);
        for part in country.subdivisions {
            assert_eq!(region(&part.code).code(), part.code);
        }
    }
}
