"""Each maker's devices in a container: its own nodes, folders, groups, runtime and variables."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from gpuconsole.core.containers import ContainerSpec
from gpuconsole.core.engines.device_requests import Handover, handover
from gpuconsole.core.engines.docker_command import docker_line
from gpuconsole.core.fleet import Backend
from gpuconsole.core.vendors import VENDORS, unproven, vendor_of


def made(backend: str, *indexes: int, **options: object) -> ContainerSpec:
    return ContainerSpec(
        name="n",
        image="img:1",
        command=("true",),
        backend=backend,
        device_uuids=tuple(f"d{index}" for index in indexes),
        device_indexes=indexes,
        **options,  # type: ignore[arg-type]
    )


def given(backend: str, *indexes: int, **options: object) -> Handover:
    return handover(made(backend, *indexes, **options))


def test_every_back_end_but_the_processor_has_a_maker() -> None:
    for backend in get_args(Backend):
        if backend != "cpu":
            assert vendor_of(backend).backend == backend
    with pytest.raises(ValueError, match="abacus"):
        given("abacus", 0)


def test_ascend_nodes_have_the_numbers_of_the_host() -> None:
    npu = given("npu", 2, 5)
    assert npu.nodes == (
        "/dev/davinci2", "/dev/davinci5",
        "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc",
    )  # fmt: skip
    assert {mount.target for mount in npu.mounts} >= {"/usr/local/Ascend/driver", "/usr/local/dcmi"}
    assert all(mount.read_only for mount in npu.mounts)
    assert npu.env["ASCEND_VISIBLE_DEVICES"] == "2,5"
    # Inside it counts from 0 again: a variable for the framework would hide its only device.
    assert "ASCEND_RT_VISIBLE_DEVICES" not in npu.env
    assert not npu.uuids


def test_ascend_over_several_hosts_knows_its_network() -> None:
    assert "/etc/hccn.conf" not in {mount.source for mount in given("npu", 0).mounts}
    assert "/etc/hccn.conf" in {mount.source for mount in given("npu", 0, network="host").mounts}


def test_a_makers_runtime_adds_the_nodes_itself() -> None:
    npu = given("npu", 1, runtime="ascend")
    assert (npu.runtime, npu.nodes, npu.mounts) == ("ascend", (), ())
    assert npu.env["ASCEND_VISIBLE_DEVICES"] == "1"
    # Another maker's runtime is none of its.
    assert given("npu", 1, runtime="mthreads").nodes


def test_amd_and_hygon_differ_though_paddle_calls_both_dcu() -> None:
    hygon, amd = given("dcu", 1), given("dcu", 1, vendor="amd")
    assert hygon.nodes == ("/dev/kfd", "/dev/mkfd", "/dev/dri")
    assert [mount.source for mount in hygon.mounts] == ["/opt/hyhal"]
    assert amd.nodes == ("/dev/kfd", "/dev/dri")
    assert amd.mounts == ()
    assert amd.groups == ("video", "render")
    assert hygon.env["HIP_VISIBLE_DEVICES"] == amd.env["HIP_VISIBLE_DEVICES"] == "1"
    assert hygon.security == amd.security == ("seccomp=unconfined",)
    # A maker of another back end is a mistake of somebody's, not a choice.
    assert given("dcu", 1, vendor="ascend") == hygon


@pytest.mark.parametrize(
    ("backend", "nodes", "variable"),
    [
        ("xpu", ("/dev/xpu3", "/dev/xpuctrl"), ""),
        ("mlu", ("/dev/cambricon_dev3", "/dev/cambricon_ctl"), "CAMBRICON_VISIBLE_DEVICES"),
        ("iluvatar_gpu", ("/dev/iluvatar3", "/dev/itrctl"), "IX_VISIBLE_DEVICES"),
        ("metax_gpu", ("/dev/mxcd", "/dev/dri"), "CUDA_VISIBLE_DEVICES"),
        ("musa", ("/dev/mtgpu.3", "/dev/dri"), "MTHREADS_VISIBLE_DEVICES"),
    ],
)
def test_the_other_makers(backend: str, nodes: tuple[str, ...], variable: str) -> None:
    found = given(backend, 3)
    assert found.nodes == nodes
    assert not found.privileged
    assert found.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    if variable:
        assert found.env[variable] == "3"


def test_the_hosts_own_groups_stand_for_the_names() -> None:
    assert given("dcu", 0, vendor="amd", node_groups=(44, 993)).groups == ("44", "993")
    assert given("npu", 0, node_groups=(1000,)).groups == ("1000",)
    assert given("dcu", 0, node_groups=()).groups == ()


def test_the_line_says_all_of_it() -> None:
    def options(spec: ContainerSpec) -> set[tuple[str, str]]:
        return set(pairwise(shlex.split(docker_line(spec))))

    assert options(made("dcu", 0)) >= {
        ("--device", "/dev/mkfd"),
        ("--group-add", "video"),
        ("--cap-add", "SYS_PTRACE"),
        ("--security-opt", "seccomp=unconfined"),
    }
    assert ("--runtime", "ascend") in options(made("npu", 0, runtime="ascend"))
    assert "--privileged" in docker_line(made("gcu", 0))
    assert "--privileged" not in docker_line(made("mlu", 0))


def test_what_was_never_run_says_so() -> None:
    assert unproven("gpu") == unproven("cpu") == ""
    assert "Huawei Ascend" in unproven("npu")
    assert "AMD" in unproven("dcu", "amd")
    assert [vendor.name for vendor in VENDORS.values() if vendor.proven] == ["nvidia"]
    assert {vendor.name for vendor in VENDORS.values() if vendor.privileged} == {"enflame"}


def test_the_page_names_what_each_container_gets() -> None:
    page = (Path(__file__).parents[2] / "docs" / "devices.md").read_text("utf-8")
    rows = page.partition("<!-- containers -->")[2].partition("<!-- /containers -->")[0]
    for vendor in VENDORS.values():
        (row,) = (line for line in rows.splitlines() if line.startswith(f"| {vendor.title} |"))
        _, _, backend, nodes, folders, runtime, variable, _ = (
            cell.strip() for cell in row.split("|")
        )
        assert backend == f"`{vendor.backend}`"
        if vendor.name == "nvidia":
            continue
        paths = (*(node.format("N") for node in vendor.nodes), *vendor.shared)
        listed = " ".join(f"`{path}`" for path in paths)
        assert nodes == (listed or "all, privileged")
        assert folders == " ".join(f"`{path}`" for path in vendor.mounts)
        assert runtime == (f"`{vendor.runtime}`" if vendor.runtime else "")
        names = [name for name in (vendor.selects, vendor.visible) if name]
        assert variable == " ".join(f"`{name}`" for name in names)
