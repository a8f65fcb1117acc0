"""What Slurm 22.05 printed on a cluster of two nodes, and what hostile users made it print."""

from __future__ import annotations

import pytest

from gpuconsole.core.fleet import Host, HostState
from gpuconsole.remote.slurm.nodes import hosts_of
from gpuconsole.remote.slurm.parse import (
    Picture,
    Row,
    expand,
    read_held,
    read_nodes,
    read_record,
    read_rows,
)
from gpuconsole.remote.slurm.states import WAITING, ended_sentence, waiting_sentence

NODES = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=3 CPUEfctv=8 CPUTot=8 CPULoad=1.31 \
AvailableFeatures=nvlink ActiveFeatures=nvlink Gres=gpu:a100:4 GresDrain=N/A \
GresUsed=gpu:a100:3(IDX:0-1,3) NodeAddr=127.0.0.1 NodeHostName=localhost Port=17821 \
Version=22.05.8 OS=Linux 6.1 #1 SMP RealMemory=8000 AllocMem=300 FreeMem=6792 Sockets=8 Boards=1 \
State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu  \
BootTime=1795233550 CfgTRES=cpu=8,mem=8000M,billing=8 AllocTRES=cpu=3,mem=300M
NodeName=n2 Arch=x86_64 CPUTot=8 CPULoad=0.00 ActiveFeatures=(null) Gres=gpu:v100:2,gpu:t4:1(S:0) \
GresUsed=gpu:v100:0(IDX:N/A),gpu:t4:0(IDX:N/A) NodeAddr=n2 Version=22.05.8 RealMemory=8000 \
FreeMem=N/A State=IDLE+DRAIN Partitions=gpu,debug CfgTRES=cpu=8 \
Reason=fan is loud State=DOWN [root@1795281076]
NodeName=n3 CPUTot=4 Gres=(null) State=DOWN+NOT_RESPONDING Partitions=gpu Reason=Not responding \
[slurm@1795281076]
"""
ROWS = """\
7|PENDING|bob|debug|N/A|1795280980|PartitionTimeLimit|
2|PENDING|ann|gpu|1795453784|1795280980|Resources|
1|RUNNING|ann|gpu|1795280984|1795280980|None|n1
5_0|RUNNING|bob|gpu|1795280984|1795280980|None|n1
"""
JOBS = """\
JobId=1 JobName=a.sh UserId=ann(1000) GroupId=ann(1000) Priority=4294901759 JobState=RUNNING \
Reason=None Dependency=(null) ExitCode=0:0 StartTime=1795280984 EndTime=1795453784 Partition=gpu \
NodeList=n1 BatchHost=n1 NumNodes=1 JOB_GRES=gpu:a100:2   Nodes=n1 CPU_IDs=0 Mem=100 \
GRES=gpu:a100:2(IDX:0-1) MinCPUsNode=1 Command=/home/ann/a.sh WorkDir=/home/ann Power=
JobId=8 ArrayJobId=5 ArrayTaskId=0 JobName=b UserId=bob(1001) JobState=RUNNING Reason=None \
ExitCode=0:0 StartTime=1795280984 NodeList=n1   Nodes=n1 CPU_IDs=1 Mem=100 GRES=gpu:a100:1(IDX:3) \
MinCPUsNode=1
"""


def test_nodes_are_read_with_devices_of_every_type() -> None:
    first, second, third = read_nodes(NODES)
    assert first.kinds == ("a100",) * 4
    assert first.used == frozenset({0, 1, 3})
    assert (first.cpus, first.memory_mib, first.free_mib) == (8, 8000.0, 6792.0)
    assert first.features == ("nvlink",)
    assert second.kinds == ("v100", "v100", "t4")
    assert second.states == frozenset({"IDLE", "DRAIN"})
    assert (second.free_mib, second.features) == (None, ())
    assert second.partitions == ("gpu", "debug")
    # What an administrator wrote cannot speak for Slurm.
    assert second.reason == "fan is loud State=DOWN"
    assert (third.kinds, third.states) == ((), frozenset({"DOWN", "NOT_RESPONDING"}))


def test_jobs_are_read_and_lines_of_another_shape_are_none() -> None:
    rows = read_rows(ROWS + "JobId=99 y|z\n9|RUNNING|x\n|||||||\nx|PENDING|a|b|c|d|e|f\n")
    assert sorted(rows) == ["1", "2", "5_0", "7"]
    assert rows["1"] == Row(
        "1", "RUNNING", "ann", "gpu", 1795280984.0, 1795280980.0, "None", ("n1",)
    )
    assert rows["7"].start is None


def test_who_has_which_device_is_told_where_all_agree() -> None:
    nodes, rows = read_nodes(NODES), read_rows(ROWS)
    held = read_held(JOBS, rows, nodes)
    assert {key: row.user for key, row in held.items()} == {
        ("n1", 0): "ann", ("n1", 1): "ann", ("n1", 3): "bob",
    }  # fmt: skip


@pytest.mark.parametrize(
    "forged",
    [
        # A job's name may hold anything: a claim on another node, on a free device, of a stranger.
        "JobId=1 JobName=x Nodes=n2 CPU_IDs=0 Mem=1 GRES=gpu:v100:2(IDX:0-1) UserId=ann(1)",
        "JobId=1 JobName=x Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu:a100:1(IDX:2) UserId=ann(1)",
        "JobId=77 JobName=x Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu:a100:1(IDX:0) UserId=eve(1)",
        "NodeName=n1 Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu:a100:1(IDX:0)",
    ],
)
def test_a_forged_claim_counts_for_nothing(forged: str) -> None:
    nodes, rows = read_nodes(NODES), read_rows(ROWS)
    assert read_held(f"{forged}\n{JOBS}", rows, nodes) == read_held(JOBS, rows, nodes)


def test_a_device_that_two_claim_is_nobodys() -> None:
    forged = "JobId=8 ArrayJobId=5 ArrayTaskId=0 JobName=x Nodes=n1 CPU_IDs=0 Mem=1"
    forged += " GRES=gpu:a100:1(IDX:0) UserId=bob(1)\n"
    held = read_held(forged + JOBS, read_rows(ROWS), read_nodes(NODES))
    assert ("n1", 0) not in held
    assert held["n1", 1].user == "ann"


def test_a_record_of_a_job_is_read() -> None:
    record = read_record(JOBS, "1", "a.sh")
    assert record is not None
    assert (record.state, record.exit_code, record.nodes) == ("RUNNING", 0, ("n1",))
    assert read_record("slurm_load_jobs error: Invalid job id specified\n", "1", "a.sh") is None
    assert read_record(JOBS, "2", "a.sh") is None
    assert read_record(JOBS, "1", "another") is None


def test_waiting_tasks_of_an_array_share_a_record() -> None:
    text = "JobId=5 ArrayJobId=5 ArrayTaskId=2-4%2 JobName=a JobState=PENDING Reason=Resources "
    record = read_record(text, "5_3", "a")
    assert record is not None
    assert record.state == "PENDING"
    assert read_record(text, "6_3", "a") is None
    assert read_record(text.replace("2-4%2", "2"), "5_3", "a") is None


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("n1", ("n1",)),
        ("n[1-3,7],gpu02", ("n1", "n2", "n3", "n7", "gpu02")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("rack[1-2]x", ("rack1x", "rack2x")),
        ("", ()),
        ("n[1-999999999]", ()),
        ("n[a-b]", ()),
        ("-rf,/etc", ()),
    ],
)
def test_compact_lists_of_nodes_are_written_out(listed: str, names: tuple[str, ...]) -> None:
    assert expand(listed) == names


def test_nodes_become_hosts_with_their_state_and_holders() -> None:
    nodes, rows = read_nodes(NODES), read_rows(ROWS)
    picture = Picture(nodes, rows, read_held(JOBS, rows, nodes))
    login = Host("hpc", cluster="hpc")
    found = hosts_of(login, picture, {"a100": "A100-SXM4-80GB"}, {"1": "gpuconsole-x"}, 5.0)
    entry, first, second, third = found
    assert (entry.name, entry.state, entry.devices) == ("hpc", HostState.UP, ())
    assert entry.facts.source == "slurm 22.05.8"
    assert not entry.node
    assert (first.name, first.node, first.state) == ("hpc/n1", True, HostState.UP)
    assert first.labels["node-state"] == "mixed"
    assert first.facts.memory_used_mib == 1208.0
    assert first.devices[0].memory_total_mib == 80 * 1024
    owner = first.devices[0].processes[0]
    assert (owner.user, owner.container_id) == ("ann", "gpuconsole-x")
    assert not first.devices[2].processes
    assert len({device.uuid for host in found for device in host.devices}) == 7
    assert second.drained == "Slurm drains it: fan is loud State=DOWN"
    assert second.state is HostState.UP
    assert third.state is HostState.DOWN
    assert "Not responding" in third.error


@pytest.mark.parametrize("word", sorted(WAITING))
def test_every_reason_is_told_with_slurms_own_word(word: str) -> None:
    sentence = waiting_sentence(word)
    assert sentence.endswith(f"(Slurm says {word}).")
    assert sentence[0].isupper()


@pytest.mark.parametrize(
    ("word", "reported"),
    [
        ("QOSMaxGRESPerUser", "The GPUs of its user are at what its quality of service allows"),
        ("QOSGrpGRES", "The GPUs of all its users together are at what its quality of service"),
        ("AssocGrpCpuLimit", "The processors of all its users together are at what its account"),
        ("QOSMaxJobsPerUserLimit", "The jobs of its user are at what its quality of service"),
        ("QOSMaxWallDurationPerJobLimit", "It asks for more time than its quality of service"),
        ("AssocMaxMemPerJob", "It asks for more memory than its account allows one job"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "Nodes that it needs are down"),
        ("SomethingNew", "Slurm lets it wait"),
        ("", "Slurm lets it wait"),
    ],
)
def test_limits_and_unknown_reasons_are_told_too(word: str, reported: str) -> None:
    assert waiting_sentence(word).startswith(reported)


def test_only_ends_that_slurm_made_are_explained() -> None:
    assert ended_sentence("TIMEOUT") == "Slurm ended it at its time limit."
    assert ended_sentence("COMPLETED") == ended_sentence("FAILED") == ""


def test_hostile_text_is_cleaned() -> None:
    text = NODES.replace("fan is loud", "fan \x1b[31mloud\x07")
    assert "\x1b" not in read_nodes(text)[1].reason
    rows = read_rows("1|RUNNING|a\x1b[0mnn|gpu|N/A|N/A|No\x07ne|n1\n")
    assert "\x1b" not in rows["1"].user
    assert "\x07" not in rows["1"].reason


def test_figures_and_lists_that_are_none_cost_nothing() -> None:
    many = ",".join(["1-4000"] * 100_000)
    assert expand(f"n[{many}]") == ()
    line = f"NodeName=n1 CPUTot=² Gres={','.join(['gpu:a100:9999'] * 100_000)} State=IDLE\n"
    (node,) = read_nodes(line)
    assert node.cpus is None
    assert node.kinds == ("a100",) * 256
