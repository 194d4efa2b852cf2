import json
import math
import subprocess
import sys
from pathlib import Path

import phalanx
import pytest

HOUR = 3_600.0


def cluster(nodes: int = 2) -> phalanx.Cluster:
    made = phalanx.Cluster()
    for number in range(nodes):
        made.add_node(f"n{number}", {"gpu": 8})
    return made


def job(name: str, submit: float, nodes: int, minutes: float, **more) -> phalanx.Job:
    run = 60.0 * minutes
    pod = phalanx.Pod({"gpu": 8})
    return phalanx.Job(phalanx.Group(name, nodes, pod, run_time_estimate=run, **more), submit, run)


# What the library's own example of a simulation gives.
JOBS = [job("a", 0, 1, 30), job("wide", 1, 2, 60), job("long", 2, 1, 40), job("short", 3, 1, 20)]


def test_backfill_starts_jobs_as_the_library_says() -> None:
    results = phalanx.Simulation(cluster(), "gpu").run(JOBS)
    assert results.job_columns()["start"] == [0.0, 1_800.0, 5_400.0, 3.0]
    summary = results.summary()
    assert summary["jobs"] == summary["finished"] == len(results) == 4
    assert summary["makespan"] == 7_800.0
    assert results.waits() == sorted([0.0, 1_799.0, 5_398.0, 0.0])
    in_order = phalanx.Simulation(cluster(), "gpu", discipline="fifo").run(JOBS)
    assert in_order.job_columns()["start"] == [0.0, 1_800.0, 5_400.0, 5_400.0]


def test_an_order_of_python_decides_who_is_first() -> None:
    names = []

    def shortest(waiting: phalanx.Waiting) -> int:
        names.append(waiting.name)
        return int(waiting.run_time_estimate or 0)

    jobs = [job("first", 0, 2, 10), job("long", 1, 2, 60), job("short", 2, 2, 5)]
    run = phalanx.Simulation(cluster(), "gpu", discipline="fifo", order=shortest).run(jobs)
    assert run.job_columns()["start"] == [0.0, 900.0, 600.0]
    assert set(names) == {"first", "long", "short"}

    def broken(waiting: phalanx.Waiting) -> int:
        raise ZeroDivisionError(waiting.name)

    with pytest.raises(ZeroDivisionError, match="first"):
        phalanx.Simulation(cluster(), "gpu", order=broken).run(jobs)


def test_failures_make_jobs_begin_anew_and_the_seed_decides() -> None:
    def lost(seed: int) -> float:
        jobs = [job(f"j{number}", 60.0 * number, 1, 30) for number in range(30)]
        failing = phalanx.Simulation(cluster(), "gpu", failures=(5, 4 * HOUR, 600.0, seed))
        return failing.run(jobs).summary()["work_lost"]

    assert lost(1) == lost(1) > 0 and lost(1) != lost(2)


def test_policies_that_stop_jobs() -> None:
    jobs = [job("long", 0, 2, 60), job("short", 60, 2, 10)]
    srtf = phalanx.preemptive(cluster(), jobs, "srtf")
    assert srtf == [(0.0, 4_200.0), (60.0, 660.0)]

    def first_come(unfinished: phalanx.Unfinished) -> float:
        return unfinished.submit

    assert phalanx.preemptive(cluster(), jobs, first_come) == [(0.0, 3_600.0), (3_600.0, 4_200.0)]
    with pytest.raises(ValueError, match="srtf"):
        phalanx.preemptive(cluster(), jobs, "lifo")
    with pytest.raises(ZeroDivisionError):
        phalanx.preemptive(cluster(), jobs, lambda unfinished: 1 / 0)


def test_a_score_of_python_is_asked_in_a_simulation() -> None:
    framework = phalanx.Framework()
    framework.score("Last", 1_000, lambda pod, node: 100 if node.name == "n1" else 0)
    watch = []
    framework.filter("Watch", lambda pod, node: watch.append(node.name) is None)
    phalanx.Simulation(cluster(), "gpu", framework=framework).run(JOBS[:1])
    assert "n1" in watch


def test_jobs_of_rows_and_their_amounts() -> None:
    rows = [
        {"name": "small", "submit": 0, "run_time": 60, "amount": 3},
        {"name": "big", "submit": 1, "run_time": 60, "amount": 20, "queue": "q"},
    ]
    table = phalanx.Simulation(cluster(4), "gpu").run(phalanx.jobs_of(rows, "gpu", each=8))
    columns = table.job_columns()
    assert columns["pods"] == [1, 3] and columns["amount"] == [3, 24] and columns["queue"][1] == "q"
    with pytest.raises(ValueError, match="discipline"):
        phalanx.Simulation(cluster(), "gpu", discipline="lifo")


def test_a_distribution_is_drawn_and_every_value_is_in_it() -> None:
    drawn = phalanx.draw([0.0, 1.0, 1.0, 10.0], bins=2)
    counts = [int(line.split()[-1]) for line in drawn.splitlines()]
    assert counts == [3, 1]
    assert phalanx.draw([5.0] * 3, bins=1).endswith("3") and phalanx.draw([]) == "(nothing)"


def test_a_paired_comparison_has_the_interval_of_student() -> None:
    # Differences 1, 2, 3: mean 2, deviation 1, t(2) = 4.303.
    answer = phalanx.compare(lambda seed: 2.0 * seed, float, [1, 2, 3])
    assert answer["mean"] == 2.0
    assert math.isclose(answer["high"] - 2.0, 4.303 / math.sqrt(3))
    with pytest.raises(ValueError, match="two seeds"):
        phalanx.compare(float, float, [1])


def test_frames() -> None:
    pandas = pytest.importorskip("pandas")
    results = phalanx.Simulation(cluster(), "gpu").run(JOBS)
    frame = phalanx.to_frame(results)
    assert list(frame["name"]) == [f"default/{name}" for name in ("a", "wide", "long", "short")]
    assert frame["wait"].sum() == 1_799 + 5_398
    samples = phalanx.to_frame(results, "samples")
    assert samples["used"].max() == 16 and (samples["used"] + samples["free"] == 16).all()
    again = phalanx.jobs_of(
        pandas.DataFrame([{"name": "x", "submit": 0.0, "run_time": 5.0, "amount": 2}]), "gpu"
    )
    assert again[0].name == "x"
    with pytest.raises(ValueError, match="samples"):
        phalanx.to_frame(results, "rows")


def test_parquet(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    results = phalanx.Simulation(cluster(), "gpu").run(JOBS)
    phalanx.to_parquet(results, tmp_path / "jobs.parquet")
    assert len(pandas.read_parquet(tmp_path / "jobs.parquet")) == 4


def test_the_notebook_runs() -> None:
    pytest.importorskip("pandas")
    book = Path(__file__).parent.parent / "notebooks" / "waits.ipynb"
    cells = json.loads(book.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 4
    names: dict[str, object] = {}
    for cell in code:
        exec(cell, names)
    assert names["gain"]["low"] > 0


def test_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text()
    blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert len(blocks) >= 2
    for block in blocks:
        exec(block, {})
    assert "█" in capsys.readouterr().out
    # The first is for a command line.
    assert len(blocks[0].strip().splitlines()) == 6
    ran = subprocess.run([sys.executable, "-c", blocks[0]], capture_output=True, text=True)
    assert ran.returncode == 0 and "█" in ran.stdout, ran.stderr


def test_a_function_of_python_says_how_fast_jobs_are() -> None:
    seen: list[tuple[str, str, list[str]]] = []

    def rate(running: phalanx.Running) -> float:
        seen.append((running.name, running.model, running.nodes))
        # Whoever has a neighbour on its node is half as fast.
        return 0.5 if running.neighbours else 1.0

    pod = phalanx.Pod({"gpu": 4})
    jobs = [
        phalanx.Job(phalanx.Group(name, 1, pod), submit, 100, model="bert")
        for name, submit in [("a", 0), ("b", 50)]
    ]
    run = phalanx.Simulation(cluster(1), "gpu", run_times=rate).run(jobs)
    # Alone for 50 s, then beside b at half the speed; b has 50 s of work left when a ends.
    assert run.job_columns()["end"] == [150.0, 200.0]
    assert ("a", "bert", ["n0"]) in seen

    def broken(running: phalanx.Running) -> float:
        raise ZeroDivisionError(running.name)

    with pytest.raises(ZeroDivisionError, match="a"):
        phalanx.Simulation(cluster(1), "gpu", run_times=broken).run(jobs)
    with pytest.raises(ValueError, match="no rate"):
        phalanx.Simulation(cluster(1), "gpu", run_times=lambda running: -1.0).run(jobs)


def test_jobs_follow_others_users_wait_and_checkpoints_cost() -> None:
    pod = phalanx.Pod({"gpu": 8})
    first = phalanx.Job(phalanx.Group("first", 1, pod), 0, 100, checkpoint=(40, 5, 0))
    second = phalanx.Job(phalanx.Group("second", 1, pod), 0, 10, after=["first"])
    run = phalanx.Simulation(cluster(2), "gpu").run([first, second])
    # Two checkpoints within 100 s of work, none at the end.
    assert run.job_columns()["end"] == [110.0, 120.0]
    jobs = [phalanx.Job(phalanx.Group(f"j{n}", 1, pod), n, 100, user="u") for n in range(4)]
    # One runs, one waits; the third is submitted when the second has started, and so on.
    run = phalanx.Simulation(cluster(1), "gpu", users=(1, 20.0)).run(jobs)
    submits = run.job_columns()["submit"]
    assert submits[:2] == [0.0, 1.0] and submits[2] >= 100.0 and submits[3] >= 200.0
