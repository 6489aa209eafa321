"""Dataclasses of JSON lines, which leave out fields that have their default."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def optional(default: Any) -> Any:
    """Returns a field that the line leaves out if it has this value."""
    return field(default=default, metadata={"optional": True})


def beside(default: Any) -> Any:
    """Returns a field that is not in the line, and is not compared by ``==``."""
    return field(default=default, repr=False, compare=False, metadata={"beside": True})


def to_line(value: Any) -> Any:
    """Converts a value to JSON."""
    if isinstance(value, list):
        return [to_line(item) for item in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    line = {}
    for each in fields(value):
        of_field = getattr(value, each.name)
        says_nothing = each.metadata.get("optional") and of_field == each.default
        if not says_nothing and not each.metadata.get("beside"):
            line[each.name] = to_line(of_field)
    return line


def of_line(cls: type[T], line: dict[str, Any], **others: Any) -> T:
    """Makes an object of a line. Unknown keys, such as those of a later version, are ignored."""
    names = {each.name for each in fields(cls) if not each.metadata.get("beside")}  # type: ignore[arg-type]
    return cls(**{name: value for name, value in line.items() if name in names} | others)
