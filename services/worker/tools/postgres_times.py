"""Times as Postgres counts them, from and to texts: ISO 8601, or Postgres's own form where that has none."""

from __future__ import annotations

import re
from datetime import date

DAY_US = 86_400_000_000
# What stands for infinity on the wire.
_DAYS_END = {2**31 - 1: "infinity", -(2**31): "-infinity"}
_US_END = {2**63 - 1: "infinity", -(2**63): "-infinity"}
_INTERVAL_END = {
    (2**31 - 1, 2**31 - 1, 2**63 - 1): "infinity",
    (-(2**31), -(2**31), -(2**63)): "-infinity",
}
_EPOCH = date(2000, 1, 1).toordinal()
_LAST = date.max.toordinal()
_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<part>\d+))?)?"
_ZONE = r"(?P<zone>Z|[+-]\d{2}(?::?\d{2}(?::?\d{2})?)?|UTC)"
_DATE = r"(?P<year>[+-]?\d{4,6})-(?P<month>\d{2})-(?P<day>\d{2})"
_STAMP = re.compile(rf"{_DATE}(?:[T ]\s*{_CLOCK}\s*{_ZONE}?)?(?P<bc>\s+BC)?", re.I)
_TIME = re.compile(rf"{_CLOCK}\s*{_ZONE}?", re.I)
_ISO_INTERVAL = re.compile(
    r"P(?=.)(?:(?P<year>N)Y)?(?:(?P<mon>N)M)?(?:(?P<week>N)W)?(?:(?P<day>N)D)?"
    r"(?:T(?=.)(?:(?P<hour>N)H)?(?:(?P<min>N)M)?(?:(?P<sec>N)S)?)?".replace("N", r"[+-]?\d+(?:[.]\d+)?"),
    re.I,
)
_PART = re.compile(
    r"\s*(?:(?P<sign>[+-])?(?P<h>\d+):(?P<m>\d{2})(?::(?P<s>\d{2}(?:[.]\d+)?))?"
    r"|(?P<count>[+-]?\d+(?:[.]\d+)?)\s*(?P<unit>[a-z]+))\s*",
    re.I,
)
_UNITS = {
    "year": ("y", "yr", "yrs", "year", "years"),
    "mon": ("mon", "mons", "month", "months"),
    "week": ("w", "week", "weeks"),
    "day": ("d", "day", "days"),
    "hour": ("h", "hr", "hrs", "hour", "hours"),
    "min": ("m", "min", "mins", "minute", "minutes"),
    "sec": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "millisecond", "milliseconds"),
    "us": ("us", "microsecond", "microseconds"),
}
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words}
_MONTHS_IN = {"year": 12, "mon": 1}
_DAYS_IN = {"week": 7, "day": 1}
_US_IN = {"hour": 3_600_000_000, "min": 60_000_000, "sec": 1_000_000, "ms": 1_000, "us": 1}


def date_text(days: int) -> str:
    """Return the date that is so many days after 2000-01-01."""
    return _DAYS_END.get(days) or "".join(_calendar(days))


def timestamp_text(us: int, zone: str = "") -> str:
    """Return the time that is so many microseconds after 2000-01-01."""
    if us in _US_END:
        return _US_END[us]
    days, rest = divmod(us, DAY_US)
    day, era = _calendar(days)
    return f"{day}T{time_text(rest)}{zone}{era}"


def time_text(us: int) -> str:
    """Return a time of day; 24:00:00 is one too."""
    seconds, part = divmod(us, 1_000_000)
    fraction = f".{part:06}" if part else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def zone_text(west_s: int) -> str:
    """Return an offset from UTC; Postgres counts it westwards."""
    east_s = abs(west_s)
    seconds = f":{east_s % 60:02}" if east_s % 60 else ""
    return f"{'-' if west_s > 0 else '+'}{east_s // 3600:02}:{east_s // 60 % 60:02}{seconds}"


def interval_text(months: int, days: int, us: int) -> str:
    """Return an interval as an ISO 8601 duration."""
    if (months, days, us) in _INTERVAL_END:
        return _INTERVAL_END[months, days, us]
    sign, size = (-1, -us) if us < 0 else (1, us)
    seconds, part = divmod(size, 1_000_000)
    years = int(months / 12)
    day = _listed((years, "Y"), (months - 12 * years, "M"), (days, "D"))
    time = _listed((sign * (seconds // 3600), "H"), (sign * (seconds // 60 % 60), "M"))
    if seconds % 60 or part:
        fraction = f".{part:06}".rstrip("0") if part else ""
        time += f"{'-' if sign < 0 else ''}{seconds % 60}{fraction}S"
    return f"P{day}T{time}" if time else f"P{day}" if day else "PT0S"


def parse_date(text: str) -> int:
    """Return the days after 2000-01-01 of a date, or of the day of a time; raises ValueError."""
    for days, word in _DAYS_END.items():
        if text.strip().lower() == word:
            return days
    return _days(_match(_STAMP, text))


def parse_timestamp(text: str, *, zoned: bool) -> int:
    """Return the microseconds after 2000-01-01 of a time; raises ValueError.

    Without a zone the clock is taken as it is; with one, a text that names none is taken as UTC.
    """
    for us, word in _US_END.items():
        if text.strip().lower() == word:
            return us
    found = _match(_STAMP, text)
    us = _days(found) * DAY_US + (_clock(found) if found["hour"] else 0)
    us += _west_s(found["zone"]) * 1_000_000 if zoned else 0
    if abs(us) >= 2**63 - 1:
        raise ValueError("out of range")
    return us


def parse_time(text: str) -> int:
    """Return the microseconds after midnight; raises ValueError."""
    return _clock(_match(_TIME, text))


def parse_zoned_time(text: str) -> tuple[int, int]:
    """Return the microseconds after midnight and the zone's offset; raises ValueError."""
    found = _match(_TIME, text)
    return _clock(found), _west_s(found["zone"])


def parse_interval(value: str) -> tuple[int, int, int]:
    """Return months, days and microseconds of an ISO 8601 duration or a text such as '1 day 02:00'; ValueError."""
    for ends, word in _INTERVAL_END.items():
        if value.strip().lower() == word:
            return ends
    found = _ISO_INTERVAL.fullmatch(value.strip())
    if found is not None:
        return _summed([(unit, float(count)) for unit, count in found.groupdict().items() if count])
    return _summed(_parts(value))


def _calendar(days: int) -> tuple[str, str]:
    """Return year, month and day, and the era if it is not ours."""
    ordinal = _EPOCH + days
    if 1 <= ordinal <= _LAST:
        return date.fromordinal(ordinal).isoformat(), ""
    cycle, rest = divmod(ordinal - 1, 146_097)  # 400 years
    like = date.fromordinal(rest + 1)
    year = like.year + 400 * cycle
    era, shown = ("", year) if year > 0 else (" BC", 1 - year)
    return f"{shown:04}-{like.month:02}-{like.day:02}", era


def _days(found: re.Match[str]) -> int:
    year, month, day = int(found["year"]), int(found["month"]), int(found["day"])
    if found["bc"]:
        year = 1 - year
    cycle, like = divmod(year - 1, 400)
    if not 1 <= month <= 12 or not 1 <= day <= _MONTHS[month - 1]:
        raise ValueError("no such day")
    return date(like + 1, month, day).toordinal() + 146_097 * cycle - _EPOCH


def _clock(found: re.Match[str]) -> int:
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    part = round(float(f"0.{found['part'] or 0}") * 1_000_000)
    us = ((hour * 60 + minute) * 60 + second) * 1_000_000 + part
    if minute > 59 or second > 60 or us > DAY_US:
        raise ValueError("no such time of day")
    return us


def _west_s(zone: str | None) -> int:
    if zone is None or zone.upper() in ("Z", "UTC"):
        return 0
    figures = zone[1:].replace(":", "").ljust(6, "0")
    west_s = int(figures[:2]) * 3600 + int(figures[2:4]) * 60 + int(figures[4:])
    return west_s if zone[0] == "-" else -west_s


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text.strip())
    if found is None:
        raise ValueError("not in the form of a time")
    return found


def _parts(text: str) -> list[tuple[str, float]]:
    parts: list[tuple[str, float]] = []
    at = 0
    while at < len(text) or not parts:
        found = _PART.match(text, at)
        if found is None:
            raise ValueError("not in the form of an interval")
        at = found.end()
        if found["unit"]:
            unit = _UNIT_OF.get(found["unit"].lower())
            if unit is None:
                raise ValueError("no unit of time")
            parts.append((unit, float(found["count"])))
            continue
        sign = -1 if found["sign"] == "-" else 1
        parts += [("hour", sign * float(found["h"])), ("min", sign * float(found["m"]))]
        parts.append(("sec", sign * float(found["s"] or 0)))
    return parts


def _summed(parts: list[tuple[str, float]]) -> tuple[int, int, int]:
    """Return the sum of parts; a fraction of a month is days of a month of 30, as Postgres has it."""
    months = sum(count * _MONTHS_IN[unit] for unit, count in parts if unit in _MONTHS_IN)
    days = sum(count * _DAYS_IN[unit] for unit, count in parts if unit in _DAYS_IN)
    us = sum(count * _US_IN[unit] for unit, count in parts if unit in _US_IN)
    days += (months - int(months)) * 30
    us += (days - int(days)) * DAY_US
    if max(abs(months), abs(days)) >= 2**31 - 1 or abs(us) >= 2**63 - 1:
        raise ValueError("out of range")
    return int(months), int(days), round(us)


def _listed(*parts: tuple[int, str]) -> str:
    return "".join(f"{count}{unit}" for count, unit in parts if count)
