"""The warning that a problem is foreign to the bundled models."""

import warnings

from beamgen._errors import ForeignProblemWarning


def warn_foreign(level: int) -> None:
    """Warns at the caller ``level`` frames up; Python shows the warning once for each place."""
    warnings.warn(
        "the bundled models know one kind of problem only (who has how many of something, 3 to 7 people; "
        "beamgen.sample_problems() has some): answers and scores of others mean nothing; name models of your own, "
        "or a pair of published ones",
        ForeignProblemWarning,
        stacklevel=level + 1,
    )
