import doctest

import phalanx
import pytest


def racks(nodes: int = 3, gpus: int = 8) -> phalanx.Cluster:
    cluster = phalanx.Cluster(["rack"])
    for number in range(nodes):
        cluster.add_node(f"n{number}", {"gpu": gpus}, labels={"rack": f"r{number // 2}"})
    return cluster


def gang(pods: int, gpus: int = 4, **more) -> phalanx.Group:
    return phalanx.Group("trainer", pods, phalanx.Pod({"gpu": gpus}), **more)


def test_the_docstring_runs() -> None:
    failed, tried = doctest.testmod(phalanx)
    assert tried >= 4 and failed == 0


def test_a_gang_is_placed_whole_in_one_rack_and_committed() -> None:
    cluster = racks()
    outcome = phalanx.place(cluster, gang(4, require="rack"))
    assert outcome and outcome.word == "placed" and len(outcome) == 4
    assert outcome.nodes == {"n0": 2, "n1": 2}
    assert [(key, value) for _, key, value in outcome.domains] == [("rack", "r0")]
    cluster.commit(outcome)
    assert [cluster.free(node)["gpu"] for node in cluster.nodes] == [0, 0, 8]
    assert len(cluster.pods) == 4 and {node for _, _, node in cluster.pods} == {"n0", "n1"}


def test_a_gang_that_does_not_fit_is_an_answer_with_a_reason() -> None:
    cluster = racks()
    late = gang(5, require="rack")
    outcome = phalanx.place(cluster, late)
    assert not outcome and outcome.word == "infeasible" and outcome.assignments == []
    assert "rack" in phalanx.explain(cluster, late)
    with pytest.raises(phalanx.PhalanxError, match="no plan"):
        cluster.commit(outcome)
    assert cluster.pods == []


def test_what_if_evicts_adds_and_goes_back_and_the_cluster_stays() -> None:
    cluster = racks(2)
    cluster.add_pod(phalanx.Pod({"gpu": 8}, name="batch"), "n0")
    what_if = cluster.what_if()
    mark = what_if.mark()
    assert not what_if.place(gang(4))
    what_if.evict("batch")
    assert what_if.place(gang(4))
    what_if.rollback(mark)
    assert not what_if.place(gang(4))
    assert what_if.add_nodes("more", {"gpu": 8}) and what_if.place(gang(4))
    what_if.apply(what_if.place(gang(4)))
    assert what_if.free("n1")["gpu"] == 0
    assert cluster.nodes == ["n0", "n1"] and len(cluster.pods) == 1


def test_groups_nest_and_quantities_are_kubernetes() -> None:
    cluster = phalanx.Cluster(["rack"])
    cluster.add_node("n", {"cpu": "4", "memory": "8Gi"}, labels={"rack": "r"})
    assert cluster.free("n") == {"cpu": 4_000, "memory": 8 << 30}
    part = phalanx.Group("part", 2, phalanx.Pod({"cpu": "500m"}))
    both = phalanx.Group("both", groups=[part, phalanx.Group("rest", 1, phalanx.Pod({"cpu": 2}))])
    assert len(both) == 3 and phalanx.place(cluster, both)
    with pytest.raises(phalanx.PhalanxError, match="cpu"):
        phalanx.Pod({"cpu": "a lot"})


def test_a_score_of_python_decides_and_a_filter_forbids() -> None:
    cluster = racks()
    framework = phalanx.Framework()
    seen = []

    def last(pod: phalanx.PodView, node: phalanx.NodeView) -> int:
        seen.append((pod.requests["gpu"], node.free["gpu"]))
        return 100 if node.name == "n2" else 0

    framework.score("Last", 1_000, last, reach="node")
    assert ("Last", 1_000) in framework.scores
    assert phalanx.place(cluster, gang(1), framework=framework).nodes == {"n2": 1}
    assert (4, 8) in seen
    framework.filter("NotTheLast", lambda pod, node: node.labels["rack"] != "r1", reach="static")
    assert set(phalanx.place(cluster, gang(1), framework=framework).nodes) <= {"n0", "n1"}


def test_an_exception_of_a_callback_comes_out_and_is_forgotten_afterwards() -> None:
    framework = phalanx.Framework()
    broken = [True]

    def score(pod: phalanx.PodView, node: phalanx.NodeView) -> int:
        if broken[0]:
            raise KeyError("celsius")
        return 1

    framework.score("Broken", 1, score)
    with pytest.raises(KeyError, match="celsius"):
        phalanx.place(racks(), gang(1), framework=framework)
    broken[0] = False
    assert phalanx.place(racks(), gang(1), framework=framework)
    framework.score("Text", 1, lambda pod, node: "high")
    with pytest.raises(TypeError):
        phalanx.place(racks(), gang(1), framework=framework)


def test_a_planner_that_a_callback_asks_again_says_so() -> None:
    planner, cluster, framework = phalanx.Planner(), racks(), phalanx.Framework()
    framework.score("Again", 1, lambda pod, node: len(planner.place(cluster, gang(1))))
    with pytest.raises(RuntimeError, match="at work"):
        planner.place(cluster, gang(1), framework=framework)
    assert planner.place(cluster, gang(1))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: phalanx.Group("no pod", 3),
        lambda: phalanx.Group("", 1, phalanx.Pod({"gpu": 1})),
        lambda: phalanx.Pod({"gpu": -1}),
        lambda: racks().add_node("n0", {"gpu": 8}),
        lambda: racks().remove_node("none"),
        lambda: racks().remove_pod("none"),
        lambda: racks().add_pod(phalanx.Pod({"gpu": 1}), "n0"),
        lambda: racks().what_if().rollback(3),
        lambda: racks().what_if().evict("none"),
        lambda: phalanx.Job(gang(1), -1.0, 5.0),
        lambda: phalanx.Job(gang(1), 0.0, float("nan")),
        lambda: phalanx.preemptive(racks(), [], "srtf", overhead=float("inf")),
    ],
)
def test_wrong_input_is_a_typed_error(wrong) -> None:
    with pytest.raises(phalanx.PhalanxError):
        wrong()
