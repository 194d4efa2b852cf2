"""Tables: results as frames and files, jobs from rows, a drawn distribution, paired comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._phalanx import Group, Job, Pod, Results

if TYPE_CHECKING:
    import os

    import pandas


def to_frame(results: Results, table: str = "jobs") -> pandas.DataFrame:
    """The table ``"jobs"`` or ``"samples"`` as a frame of pandas, a row a job or a sample."""
    import pandas

    return pandas.DataFrame(_columns(results, table))


def to_parquet(results: Results, path: str | os.PathLike[str], table: str = "jobs") -> None:
    """Writes a table as Parquet. Needs pandas and pyarrow."""
    to_frame(results, table).to_parquet(path, index=False)


def _columns(results: Results, table: str) -> dict[str, list[Any]]:
    if table == "jobs":
        return results.job_columns()
    if table == "samples":
        return results.sample_columns()
    raise ValueError(f'table {table!r} is neither "jobs" nor "samples"')


def jobs_of(
    rows: Iterable[Mapping[str, Any]] | pandas.DataFrame,
    resource: str,
    *,
    each: int | None = None,
) -> list[Job]:
    """Jobs from rows with ``name``, ``submit`` and ``run_time``, or from a frame with such columns.

    Without ``each`` a row's ``amount`` is what each of its ``pods`` asks for (both are 1 where they are
    absent). With ``each`` a row's ``amount`` is what the job asks for in all: it gets pods of ``each``,
    and one smaller pod if it asks for less. ``queue``, ``priority`` and ``estimate`` are optional.
    """
    records = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    return [_job(row, resource, each) for row in records]


def _job(row: Mapping[str, Any], resource: str, each: int | None) -> Job:
    amount, pods = int(row.get("amount", 1)), int(row.get("pods", 1))
    if each is not None:
        amount, pods = (amount, 1) if amount < each else (each, math.ceil(amount / each))
    estimate = row.get("estimate")
    group = Group(
        str(row["name"]),
        pods,
        Pod({resource: amount}),
        queue=row.get("queue"),
        priority=int(row.get("priority", 0)),
        run_time_estimate=None if estimate is None else float(estimate),
    )
    return Job(group, float(row["submit"]), float(row["run_time"]))


def draw(values: Sequence[float], *, bins: int = 10, width: int = 40, unit: str = "s") -> str:
    """The distribution of values as text: a bar a bin, with how many values it holds."""
    if bins < 1 or width < 1:
        raise ValueError("bins and width are at least 1")
    if not values:
        return "(nothing)"
    least, most = min(values), max(values)
    span = (most - least) / bins or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(int((value - least) / span), bins - 1)] += 1
    lines = []
    for place, count in enumerate(counts):
        bar = "█" * round(width * count / max(counts))
        lines.append(f"{least + place * span:12.1f} {unit} │{bar:<{width}} {count}")
    return "\n".join(lines)


# The 97.5 % points of Student's t for 1 to 30 degrees of freedom.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def compare(
    one: Callable[[int], float], other: Callable[[int], float], seeds: Iterable[int]
) -> dict[str, float]:
    """The mean of ``one(seed) - other(seed)`` with its 95 % interval by Student's t.

    Both are called with the same seeds, so that what they share falls out. At least two seeds.
    """
    differences = [one(seed) - other(seed) for seed in seeds]
    count = len(differences)
    if count < 2:
        raise ValueError("an interval needs at least two seeds")
    mean = sum(differences) / count
    variance = sum((value - mean) ** 2 for value in differences) / (count - 1)
    # Beyond 30 degrees of freedom the last value is a little too wide.
    half = _T[min(count - 1, len(_T)) - 1] * math.sqrt(variance / count)
    return {"mean": mean, "low": mean - half, "high": mean + half, "seeds": float(count)}
