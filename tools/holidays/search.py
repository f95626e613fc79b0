"""The search for the rules behind the days of a holiday."""

import datetime
from collections import Counter, defaultdict
from dataclasses import replace

from shapes import EASTERS, EQUINOXES, NEAR, Dates, Rule, Shape, leap_safe

LISTED_DATE_COST = 11  # characters
EXCEPTION_COST = 6
FEWEST_DAYS_OF_A_RULE = 4


def best_stretch(values):
    """Start, end (inclusive) and sum of the stretch of values with the greatest sum."""
    best, total, start = (0, -1, 0), 0, 0
    for i, value in enumerate(values):
        if total <= 0:
            total, start = 0, i
        total += value
        if total > best[2]:
            best = (start, i, total)
    return best


def fit(shape, days, missing, window):
    """The years in which the shape is worth its text for these days, as a rule."""
    years = range(window.start - 1, window.stop + 1)
    made = [shape.date_in(year) for year in years]
    made = [day if day and day.year in window else None for day in made]
    wrong = [day is not None and day not in days for day in made]
    worth = [
        -EXCEPTION_COST if bad else LISTED_DATE_COST if day in missing else 0
        for day, bad in zip(made, wrong)
    ]
    start, end, _ = best_stretch(worth)
    explained = sum(day in missing for day in made[start : end + 1])
    exceptions = [years[i] for i in range(start, end + 1) if wrong[i]]
    if explained < max(FEWEST_DAYS_OF_A_RULE, 3 * len(exceptions)):
        return None
    if shape.every > 1 and (exceptions or explained == FEWEST_DAYS_OF_A_RULE):
        return None  # so few days every few years are soon found by chance
    first = years[start] if any(wrong[:start]) or shape.every > 1 else None
    last = years[end] if any(wrong[end + 1 :]) else None
    return Rule(shape, first, last, tuple(exceptions))


def shapes(days, missing, window):
    """Shapes that may explain some of the missing days."""
    for anchor, feast in EASTERS.items():
        distances = Counter((day - feast(day.year)).days for day in missing)
        for distance, count in distances.items():
            if count >= FEWEST_DAYS_OF_A_RULE:
                yield Shape(anchor, offset=distance)
    for anchor, days_there in grouped(missing, lambda day: f"{day:%m-%d}"):
        yield Shape(anchor)
        yield from every_few_years(Shape(anchor), days_there)
    near = Counter()
    for day in missing:
        for distance in range(-6, 7):
            near[f"{day + datetime.timedelta(distance):%m-%d}"] += 1
    anchors = [md for md, n in near.items() if n >= FEWEST_DAYS_OF_A_RULE and md != "02-29"]
    for anchor in anchors:
        if leap_safe(anchor):
            yield from same_weekday(anchor, missing)
    yield from map(Shape, EQUINOXES)
    for anchor in anchors + list(EQUINOXES):
        yield from moved_by_weekday(anchor, days, missing, window)


def grouped(days, key):
    groups = defaultdict(set)
    for day in days:
        groups[key(day)].add(day)
    return groups.items()


def every_few_years(shape, days):
    for every in range(2, 7):
        phases = Counter(day.year % every for day in days)
        for phase, count in phases.items():
            if count >= FEWEST_DAYS_OF_A_RULE:
                yield replace(shape, every=every, phase=phase)


def same_weekday(anchor, missing):
    """The first Monday, or another weekday, on or after the anchor."""
    anchored = {year: Shape(anchor).date_in(year) for year in {day.year for day in missing}}
    week = {day for day in missing if 0 <= (day - anchored[day.year]).days < 7}
    for weekday, days_there in grouped(week, lambda day: day.weekday()):
        if len(days_there) >= FEWEST_DAYS_OF_A_RULE:
            shape = Shape(anchor, weekdays=tuple((weekday - of) % 7 for of in range(7)))
            yield shape
            yield from every_few_years(shape, days_there)


def moved_by_weekday(anchor, days, missing, window):
    by_weekday = defaultdict(list)
    for year in range(window.start - 1, window.stop + 1):
        day = Shape(anchor).date_in(year)
        if day:
            by_weekday[day.weekday()].append(day)
    offsets = [None] * 7
    for weekday, anchored in by_weekday.items():
        best = 0
        for offset in sorted(range(-3, 5), key=abs):
            moved = [day + datetime.timedelta(offset) for day in anchored]
            moved = [day for day in moved if day.year in window]
            if sum(day in missing for day in moved) < 2:
                continue
            _, _, worth = best_stretch([(d in missing) or (d in days) - 1 for d in moved])
            if worth > best:
                best, offsets[weekday] = worth, offset
    used = {offset for offset in offsets if offset is not None}
    if not used or (len(used) == 1 and None not in offsets):
        return
    yield Shape(anchor, weekdays=tuple(offsets))
    near = tuple(None if offset is None or abs(offset) > NEAR else offset for offset in offsets)
    if any(offset is not None for offset in near):
        yield Shape(anchor, weekdays=near)
    for weekday, offset in enumerate(offsets):
        if offset is not None and len(used) > 1:
            yield Shape(anchor, weekdays=(None,) * weekday + (offset,) + (None,) * (6 - weekday))


def induce(days_of, window, liked_anchors):
    """Rules and lists, each with its regions, that give exactly the days of each region."""
    regions_of = defaultdict(list)
    for region, days in days_of.items():
        regions_of[frozenset(days)].append(region)
    missing = {days: set(days) for days in regions_of}
    found, proposed = [], {}
    while True:
        for days in missing:
            if days not in proposed:
                tried = shapes(days, missing[days], window)
                fits = (fit(shape, days, missing[days], window) for shape in tried)
                proposed[days] = {rule for rule in fits if rule}
        best = None
        for rule in sorted(set().union(*proposed.values()), key=lambda r: (str(r), repr(r))):
            made = rule.dates(window)
            holds_in = [d for d in missing if made <= d and made & missing[d]]
            gained = set().union(*(made & missing[d] for d in holds_in))
            worth = len(gained) * LISTED_DATE_COST - rule.cost(liked_anchors)
            key = (worth, len(holds_in))
            if worth > 0 and len(gained) >= FEWEST_DAYS_OF_A_RULE and (not best or key > best[0]):
                best = (key, rule, made, holds_in)
        if not best:
            break
        _, rule, made, holds_in = best
        found.append((rule, frozenset(r for d in holds_in for r in regions_of[d])))
        for days in holds_in:
            missing[days] -= made
            del proposed[days]
    left = {r: missing[days] for days, regions in regions_of.items() for r in regions}
    return found + listed(left)


def listed(days_of):
    """Lists, each with its regions, that give exactly the days of each region."""
    lists = defaultdict(set)
    for day in set().union(*days_of.values()):
        lists[frozenset(region for region, days in days_of.items() if day in days)].add(day)
    return [(Dates(frozenset(days)), regions) for regions, days in lists.items()]
