#!/usr/bin/env python3
"""Writes the holiday rules of crates/calendar/data/holidays from the `holidays` package.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install -r tools/holidays/requirements.txt
    /tmp/venv/bin/python tools/holidays/induce.py

Run it yearly after raising the pin in requirements.txt, and read the diff: it shows what the
world changed. It writes one rule file per country, the list of countries for the Rust module,
and the sample the tests check.

The package answers with dates; this program looks for the rules behind them, because rules can
be reviewed and hold beyond the years asked for. For every holiday name it proposes shapes (a
fixed day, a day moved by its weekday, Easter and some days, ...), and takes again and again the
one that saves the most text, until only irregular days are left; those are listed as dates. What
the rules give is then compared with the package for every region and year; a difference ends the
program before anything is written. The language of the files is described in text.rs and rules.rs.
"""

import json
import re
import sys
import textwrap
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import holidays

sys.dont_write_bytecode = True  # the tree stays clean of what importing the next two would leave

from search import induce, listed
from shapes import WINDOW, Dates, Rule

REPO = Path(__file__).resolve().parents[2]
DATA = REPO / "crates/calendar/data/holidays"
INCLUDES = REPO / "crates/calendar/src/holidays/countries.rs"
SAMPLE = REPO / "crates/calendar/tests/data/holidays-sample.jsonl"

COUNTRIES = """
    AD AE AL AM AO AR AT AU AZ BA BD BE BG BH BO BR BW BY CA CD CH CI CL CM CN CO CR CU CY CZ DE
    DK DO DZ EC EE EG ES ET FI FO FR GB GE GH GL GR GT HK HN HR HU ID IE IL IN IQ IR IS IT JM JO
    JP KE KH KR KW KZ LB LI LK LT LU LV LY MA MC MD ME MK MM MO MT MU MX MY MZ NA NG NI NL NO NP
    NZ OM PA PE PG PH PK PL PT PY QA RO RS RU SA SE SG SI SK SM SN SV TH TN TR TT TW TZ UA UG US
    UY UZ VA VE VN ZA ZM ZW
""".split()

WHOLE = "country"  # the country asked for without a subdivision
WORKING = "working"  # stands for the name of a holiday on make-up working days
SAMPLE_YEARS = range(2020, 2036)
ANNOUNCED = 2026  # the newest year whose yearly announcements the pinned package holds
FEWEST_DAYS_OF_A_SERIES = 5


# --- Asking the package ---------------------------------------------------------------------


def ask(country, subdivision, years):
    kind = getattr(holidays, country)
    language = "en_US" if "en_US" in kind.supported_languages else None
    return kind(subdiv=subdivision, years=years, observed=True, language=language)


def known_window(country):
    """The years the package knows: some countries end before the window does."""
    kind = getattr(holidays, country)
    return range(max(WINDOW.start, kind.start_year), min(WINDOW.stop, kind.end_year + 1))


def days_by_name(country, subdivision, window):
    days = defaultdict(set)
    answer = ask(country, subdivision, window)
    for day, names in answer.items():
        for name in names.split("; "):
            days[name].add(day)
    for day in getattr(answer, "weekend_workdays", ()):
        if day.year in window:
            days[WORKING].add(day)
    return days


# --- One country ----------------------------------------------------------------------------


def country_rules(country, window):
    """All rules of a country: (name, rule, regions), verified against the package."""
    kind = getattr(holidays, country)
    asked = {WHOLE: days_by_name(country, None, window)}
    for subdivision in kind.subdivisions:
        asked[subdivision] = days_by_name(country, subdivision, window)
    rules, anchors = [], defaultdict(set)
    for name in plain_names_first(asked.values()):
        days_of = {region: days[name] for region, days in asked.items() if name in days}
        # Make-up working days are announced year by year: a rule among them is a coincidence.
        stood_in_for = anchors[name.partition(" (")[0]]
        induced = listed(days_of) if name == WORKING else induce(days_of, window, stood_in_for)
        for rule, regions in induced:
            rules.append((name, rule, regions))
            if isinstance(rule, Rule):
                anchors[name].add(rule.shape.anchor)
    verify(country, asked, rules, window)
    return rules


def plain_names_first(answers):
    """Holidays before the days that stand in for them, whose rules refer to the same anchors."""
    month_days = defaultdict(set)
    for answer in answers:
        for name, days in answer.items():
            month_days[name] |= {(day.month, day.day) for day in days}
    return sorted(month_days, key=lambda name: ("(" in name, len(month_days[name]), name))


def verify(country, asked, rules, window):
    for region, expected in asked.items():
        made = defaultdict(set)
        for name, rule, regions in rules:
            if region in regions:
                made[name] |= rule.dates(window)
        if made != expected:
            sys.exit(f"{country} {region}: the rules differ from the package: "
                     f"{[n for n in made | expected if made[n] != expected[n]]}")


def spaced(class_name):
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", class_name)
    return words.replace(" And ", " and ").replace(" Of ", " of ").replace(" The ", " the ")


def country_name(country):
    rows = holidays.registry.COUNTRIES.values()
    return next(spaced(row[0]) for row in rows if row[1] == country)


def subdivision_line(kind, code):
    aliases = [alias for alias, of in kind.subdivisions_aliases.items() if of == code]
    codes = [alias for alias in aliases if re.fullmatch(r"[A-Z0-9]{1,3}", alias)]
    names = [alias for alias in aliases if alias not in codes]
    also = f" | {' '.join(codes)}" if codes else ""
    return f"subdivision {code} | {names[0] if names else code}{also}"


def known_years(rules, everywhere, window):
    """The last year in which all days are known, for the regions whose days are not all rules."""
    until = defaultdict(set)
    for region in everywhere:
        series = defaultdict(set)
        for name, rule, regions in rules:
            if isinstance(rule, Dates) and region in regions:
                series[name.removesuffix(" (estimated)")] |= rule.days
        ends = [series_end(days, window) for days in series.values()]
        ends = [end for end in ends if end]
        if ends:
            until[min(ends)].add(region)
    return {frozenset(regions): end for end, regions in until.items()}


def series_end(days, window):
    """The last year of a listed series, unless it is a few single days or was abolished."""
    years = sorted({day.year for day in days})
    if len(days) < FEWEST_DAYS_OF_A_SERIES or years[-1] < ANNOUNCED - 1:
        return None
    longest_gap = max((later - year for year, later in pairwise(years)), default=1)
    if years[-1] + longest_gap > window[-1]:
        return window[-1]
    yearly = len(years) > 0.7 * (years[-1] + 1 - years[0])
    return years[-1] if yearly else None


def section_title(regions, everywhere):
    if regions == everywhere:
        return ""
    only, rest = ", ".join(sorted(regions)), ", ".join(sorted(everywhere - regions))
    return f"[{only}]" if len(only) <= len(rest) + 4 else f"[not {rest}]"


def wrapped(line):
    return textwrap.fill(
        line, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def country_text(country, rules, window):
    kind = getattr(holidays, country)
    name = country_name(country)
    lines = [
        f"# Public holidays of {name}, observed days included, {window[0]} to {window[-1]}.",
        f"# Made by tools/holidays/induce.py from the PyPI package holidays {holidays.__version__}",
        "# (MIT, Vacanza Team and individual contributors).",
        f"country {country} | {name}",
        *(subdivision_line(kind, code) for code in kind.subdivisions),
    ]
    everywhere = frozenset((WHOLE, *kind.subdivisions))
    sections = defaultdict(lambda: defaultdict(list))
    for name, rule, regions in rules:
        sections[regions][name].append(rule)
    known = known_years(rules, everywhere, window)
    for regions in known:
        sections[regions]  # a section of its own where no rule has exactly these regions
    for regions in sorted(sections, key=lambda r: (r != everywhere, -len(r), sorted(r))):
        lines += ["", wrapped(section_title(regions, everywhere))]
        if regions in known:
            lines.append(f"years {window[0]}..{known[regions]}")
        names = sections[regions]
        for name in sorted(names, key=lambda n: (min(r.sort_key() for r in names[n]), n)):
            lines.append(wrapped(f"{name}: {'; '.join(map(str, names[name]))}"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


# --- What the Rust module needs beside the rules --------------------------------------------


def includes_text():
    rows = "\n".join(
        f'    ("{c}", include_str!("../../data/holidays/{c}.txt")),' for c in sorted(COUNTRIES))
    return (
        "//! The rule file of each country, in the order of their codes. Written by\n"
        "//! `tools/holidays/induce.py`.\n\n"
        f"pub(super) const RULE_TEXTS: &[(&str, &str)] = &[\n{rows}\n];\n")


def sample_lines():
    """Every country once and more subdivisions than countries, the years taken in turn."""
    regions = [(country, None) for country in sorted(COUNTRIES)]
    subdivided = [(c, s) for c in sorted(COUNTRIES) for s in getattr(holidays, c).subdivisions]
    regions += subdivided[:: max(1, len(subdivided) // 60)]
    for turn, (country, subdivision) in enumerate(regions):
        years = [year for year in SAMPLE_YEARS if year in known_window(country)]
        year = years[turn * 5 % len(years)]
        days = sorted(str(day) for day in ask(country, subdivision, year))
        row = {"country": country, "subdiv": subdivision, "year": year, "expected": days}
        yield json.dumps(row, separators=(",", ":"))


def main():
    chosen = sys.argv[1:] or COUNTRIES
    texts = {}
    for country in chosen:
        window = known_window(country)
        texts[country] = country_text(country, country_rules(country, window), window)
        print(f"{country} {len(texts[country])} bytes", flush=True)
    DATA.mkdir(parents=True, exist_ok=True)
    for country, text in texts.items():
        (DATA / f"{country}.txt").write_text(text, encoding="utf-8")
    INCLUDES.parent.mkdir(parents=True, exist_ok=True)
    INCLUDES.write_text(includes_text(), encoding="utf-8")
    SAMPLE.parent.mkdir(parents=True, exist_ok=True)
    SAMPLE.write_text("".join(f"{line}\n" for line in sample_lines()), encoding="utf-8")


if __name__ == "__main__":
    main()
