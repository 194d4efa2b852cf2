"""Gang scheduling: groups of pods are placed whole, or not at all.

    >>> import phalanx
    >>> cluster = phalanx.Cluster(["rack"])
    >>> for name, rack in [("n1", "a"), ("n2", "a"), ("n3", "b")]:
    ...     cluster.add_node(name, {"gpu": 8}, labels={"rack": rack})
    >>> gang = phalanx.Group("trainer", 4, phalanx.Pod({"gpu": 4}), require="rack")
    >>> phalanx.place(cluster, gang).nodes
    {'n1': 2, 'n2': 2}

Amounts are numbers of units, or text as Kubernetes writes it (``"500m"``, ``"1.5Gi"``). Times are in
seconds. Each input that the core refuses raises :class:`PhalanxError`; "does not fit" is an answer.
"""

from ._phalanx import (
    Cluster,
    Framework,
    Group,
    Job,
    NodeView,
    Outcome,
    PhalanxError,
    Planner,
    Pod,
    PodView,
    Results,
    Running,
    Simulation,
    Unfinished,
    Waiting,
    WhatIf,
    explain,
    place,
    preemptive,
)
from ._frames import compare, draw, jobs_of, to_frame, to_parquet

__all__ = [
    "Cluster",
    "Framework",
    "Group",
    "Job",
    "NodeView",
    "Outcome",
    "PhalanxError",
    "Planner",
    "Pod",
    "PodView",
    "Results",
    "Running",
    "Simulation",
    "Unfinished",
    "Waiting",
    "WhatIf",
    "compare",
    "draw",
    "explain",
    "jobs_of",
    "place",
    "preemptive",
    "to_frame",
    "to_parquet",
]
