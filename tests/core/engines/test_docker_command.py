"""The line shown for a container: quoted, complete, and never more devices than were given."""

from __future__ import annotations

import csv
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.containers import ContainerSpec
from gpuconsole.core.engines.device_requests import DEVICES_LABEL, container_labels, environment
from gpuconsole.core.engines.docker_command import docker_line, docker_run
from gpuconsole.core.jobs import Mount

TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30)


def made(**options: object) -> ContainerSpec:
    return ContainerSpec(name="n", image="img:1", command=("python", "a.py"), **options)  # type: ignore[arg-type]


def values(words: tuple[str, ...], option: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def test_a_plain_spec_as_a_line() -> None:
    line = docker_line(made(memory_limit_mib=2048, user="1:2", network="bridge", cpuset="0-3"))
    assert line == (
        "docker run --detach --name n --init --workdir /workspace --user 1:2"
        " --shm-size 8192m --pids-limit 4096 --memory 2048m --memory-swap 2048m --cpuset-cpus 0-3"
        " --network bridge --security-opt no-new-privileges --cap-drop ALL"
        " --log-driver json-file --log-opt max-size=256m --log-opt max-file=4"
        " --env HOME=/workspace --env PYTHONUNBUFFERED=1 --env NVIDIA_VISIBLE_DEVICES=void"
        " img:1 python a.py"
    )


def test_gpus_by_uuid_are_one_quoted_value() -> None:
    words = docker_run(made(device_uuids=("GPU-a", "GPU-b")))
    assert values(words, "--gpus") == ['"device=GPU-a,GPU-b"']
    assert "--gpus '\"device=GPU-a,GPU-b\"'" in docker_line(made(device_uuids=("GPU-a", "GPU-b")))
    assert f"{DEVICES_LABEL}=GPU-a,GPU-b" in values(words, "--label")


def test_nothing_is_published_and_nothing_is_privileged() -> None:
    for backend in ("gpu", "npu", "xpu", "dcu", "cpu"):
        words = docker_run(made(backend=backend, device_uuids=("u",), device_indexes=(0,)))
        assert not {"--privileged", "--publish", "-p", "--pid", "--ipc"} & set(words)


@given(st.lists(TEXT, max_size=4), st.dictionaries(st.sampled_from("ABC"), TEXT), TEXT)
def test_a_shell_reads_back_exactly_the_arguments(
    command: list[str], env: dict[str, str], label: str
) -> None:
    spec = ContainerSpec("n", "img", tuple(command), env=env, labels={"l": label})
    words = shlex.split(docker_line(spec))
    assert tuple(words) == docker_run(spec)
    assert words[len(words) - len(command) :] == command
    assert f"l={label}" in words


@given(TEXT.filter(lambda text: "\n" not in text and "\r" not in text))
def test_a_mount_reads_back_through_csv(folder: str) -> None:
    words = docker_run(made(mounts=(Mount("/" + folder, "/in", False), Mount("/b", "/c"))))
    first, second = (next(csv.reader([value])) for value in values(words, "--mount"))
    assert first == ["type=bind", f"source=/{folder}", "target=/in"]
    assert second == ["type=bind", "source=/b", "target=/c", "readonly"]


def test_a_limit_that_is_no_whole_mib_is_said_in_bytes() -> None:
    assert values(docker_run(made(memory_limit_mib=1.5)), "--memory") == ["1572864b"]
    assert values(docker_run(made()), "--memory") == []


def test_the_task_sets_variables_but_never_which_devices() -> None:
    env = {"HOME": "/h", "NVIDIA_VISIBLE_DEVICES": "all", "X": "1"}
    assert environment(made(env=env)) == {
        "HOME": "/h",
        "PYTHONUNBUFFERED": "1",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "X": "1",
    }
    seen = environment(made(env=env, device_uuids=("GPU-a",)))
    assert seen["NVIDIA_VISIBLE_DEVICES"] == "GPU-a"


def test_without_devices_there_is_no_label_of_devices() -> None:
    assert container_labels(made(labels={"a": "b"})) == {"a": "b"}


def test_values_that_are_secret_are_left_to_the_shell_that_runs_the_line() -> None:
    spec = made(env={"LR": "1", "HF_TOKEN": "hidden-1"}, secrets={"MINE": "hidden-2", "LR": "no"})
    words = docker_run(spec)
    assert {"LR", "HF_TOKEN", "MINE"} <= set(values(words, "--env"))
    assert "hidden" not in docker_line(spec)
    assert "hidden" not in repr(made(secrets={"MINE": "hidden-2"}))
    assert environment(spec)["MINE"] == "hidden-2"
    assert environment(spec)["LR"] == "1", "the console's own settings go first"


@pytest.mark.parametrize(
    ("user", "owner"), [("1000:1001", ",uid=1000,gid=1001"), ("7", ",uid=7,gid=7"), ("", "")]
)
def test_a_folder_in_memory_has_a_size_and_belongs_to_the_user(user: str, owner: str) -> None:
    words = docker_run(made(user=user, memory_folders={"/workspace": 2.0}))
    at = words.index("--tmpfs")
    assert words[at + 1] == f"/workspace:exec,mode=0755,size={2 * 2**20}{owner}"
