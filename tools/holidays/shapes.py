"""The rules a holiday can follow: how they give dates and how they are written.

crates/calendar/src/holidays/rules.rs reads what `__str__` writes here.
"""

import datetime
from dataclasses import dataclass
from functools import cache

from dateutil.easter import EASTER_ORTHODOX, easter

WINDOW = range(2010, 2051)
LIKED_ANCHOR_WORTH = 15  # characters
NEAR = 2  # days; moves by more are rare
FAR_MOVE_COST = 40
WEEKDAYS = "Mon Tue Wed Thu Fri Sat Sun".split()


@cache
def western_easter(year):
    return easter(year)


@cache
def orthodox_easter(year):
    return easter(year, EASTER_ORTHODOX)


EASTERS = {"easter": western_easter, "orthodox": orthodox_easter}

# The day of March or September on which Japan has its equinox, in millionths in 1980.
EQUINOXES = {"vernal": (3, 20_843_100), "autumnal": (9, 23_248_800)}


def equinox(year, month, millionths):
    """Holds for 1980 to 2099."""
    since = year - 1980
    return datetime.date(year, month, (millionths + 242_194 * since) // 1_000_000 - since // 4)


def leap_safe(month_day):
    """Whether the days within a week of it are the same in all years."""
    return not "02-22" <= month_day <= "03-06"


def offset_text(offset):
    return f"{offset:+d}" if offset else ""


@dataclass(frozen=True)
class Shape:
    """A day of the year: an anchor, moved by days or by a number of days for each weekday."""

    anchor: str
    offset: int = 0
    weekdays: tuple = None  # for Monday to Sunday the days to move, None where there is no holiday
    every: int = 1
    phase: int = 0

    def date_in(self, year):
        if year % self.every != self.phase:
            return None
        day = self.anchor_in(year)
        if day is None:
            return None
        move = self.offset if self.weekdays is None else self.weekdays[day.weekday()]
        return None if move is None else day + datetime.timedelta(move)

    def anchor_in(self, year):
        if self.anchor in EASTERS:
            return EASTERS[self.anchor](year)
        if self.anchor in EQUINOXES:
            return equinox(year, *EQUINOXES[self.anchor])
        try:
            return datetime.date(year, int(self.anchor[:2]), int(self.anchor[3:]))
        except ValueError:
            return None

    def __str__(self):
        if self.weekdays is None:
            return self.anchor + offset_text(self.offset)
        return self.weekday_text() or f"{self.anchor} {self.moves_text()}"

    def weekday_text(self):
        """`Mon>=01-15` where the day is always the one such weekday of seven days."""
        if None in self.weekdays or self.anchor in EQUINOXES or not leap_safe(self.anchor):
            return None
        earliest, latest = min(self.weekdays), max(self.weekdays)
        targets = {(weekday + move) % 7 for weekday, move in enumerate(self.weekdays)}
        if len(targets) > 1 or latest - earliest != 6:
            return None
        target = WEEKDAYS[targets.pop()]
        anchor = self.anchor_in(2023)  # any year, as the days are not around 29 February
        first, last = (anchor + datetime.timedelta(move) for move in (earliest, latest))
        ends_month = (last + datetime.timedelta(1)).day == 1 and first.day != 22
        return f"{target}<={last:%m-%d}" if ends_month else f"{target}>={first:%m-%d}"

    def moves_text(self):
        stays = sum(move == 0 for move in self.weekdays)
        default = 0 if stays >= 4 and None not in self.weekdays else None
        moves = [
            WEEKDAYS[weekday] + offset_text(move)
            for weekday, move in enumerate(self.weekdays)
            if move != default
        ]
        return " ".join((["only"] if default is None else []) + moves)


@dataclass(frozen=True)
class Rule:
    """A shape and the years it holds in; without a first or last year it has no known end."""

    shape: Shape
    first: int = None
    last: int = None
    exceptions: tuple = ()

    def dates(self, window):
        first = self.first or window.start - 1
        last = self.last or window.stop
        years = (year for year in range(first, last + 1) if year not in self.exceptions)
        made = (self.shape.date_in(year) for year in years)
        return {day for day in made if day and day.year in window}

    def cost(self, liked_anchors):
        """Characters; a day moved from a day that is a holiday itself explains more than others."""
        liked = self.shape.anchor in liked_anchors and self.shape.weekdays is not None
        text = str(self)
        far_moves = sum(abs(move or 0) > NEAR for move in self.shape.weekdays or ())
        far_cost = 0 if "=" in text else FAR_MOVE_COST * far_moves
        return len(text) + len(self.exceptions) + far_cost - LIKED_ANCHOR_WORTH * liked

    def sort_key(self):
        day = self.shape.anchor_in(2024) + datetime.timedelta(self.shape.offset)
        return f"{day:%m-%d}"

    def __str__(self):
        parts = [str(self.shape)]
        if self.shape.every > 1:
            parts.append(f"every {self.shape.every}")
        if self.first:
            parts.append(f"from {self.first}")
        if self.last:
            parts.append(f"to {self.last}")
        if self.exceptions:
            parts.append("except " + " ".join(map(str, self.exceptions)))
        return " ".join(parts)


@dataclass(frozen=True)
class Dates:
    """Listed days; `2024-02-10..12` is a stretch within one month."""

    days: frozenset

    def dates(self, window):
        return set(self.days)

    def sort_key(self):
        return min(f"{day:%m-%d}" for day in self.days)

    def __str__(self):
        stretches = []
        for day in sorted(self.days):
            if stretches and (day - stretches[-1][1]).days == 1 and day.day > 1:
                stretches[-1][1] = day
            else:
                stretches.append([day, day])
        return " ".join(str(a) if a == b else f"{a}..{b:%d}" for a, b in stretches)
