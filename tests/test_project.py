"""What a public project has, held against the project: files that nothing else reads go stale."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuconsole import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parents[1]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def loaded(path: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / path).read_text("utf-8"))
    return found


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def commands() -> list[str]:
    """Every shell line of the workflow."""
    jobs = loaded(".github/workflows/check.yml")["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


def test_the_workflow_tries_every_python_that_is_supported() -> None:
    named = {
        found[1]
        for one in project()["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one))
    }
    matrix = loaded(".github/workflows/check.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert set(matrix["python"]) == named
    lowest = min(named, key=lambda one: int(one.partition(".")[2]))
    assert project()["requires-python"] == f">={lowest}"


def test_the_workflow_runs_what_there_is() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    asked = {found[1] for one in commands() if (found := re.match(r"make ([\w-]+)", one))}
    assert asked
    assert asked <= targets
    assert any("bash .ci/run" in one for one in commands())


def test_the_image_is_built_from_what_the_build_may_see() -> None:
    kept = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    assert all((ROOT / one).exists() for one in kept)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], *wheel["shared-data"]}
    assert needed | {project()["readme"], *project()["license-files"]} <= kept
    copied = re.findall(r"source/(\S+\.py)", (ROOT / "Dockerfile").read_text("utf-8"))
    assert copied
    assert all((ROOT / one).is_file() for one in copied)


def test_the_citation_names_this_version() -> None:
    cited = loaded("CITATION.cff")
    assert (cited["version"], cited["license"]) == (__version__, project()["license"])


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_its_readers_need(path: Path) -> None:
    form = yaml.safe_load(path.read_text("utf-8"))
    if path.name == "config.yml":
        return
    assert form["name"]
    assert form["description"]
    fields = [one for one in form["body"] if one["type"] != "markdown"]
    assert all(one["attributes"]["label"] for one in fields)
    assert len({one["id"] for one in fields}) == len(fields)


def test_extras_are_explained() -> None:
    page = (ROOT / "docs/install.md").read_text("utf-8")
    for extra in project()["optional-dependencies"]:
        if extra not in ("dev", "docs"):
            assert f"`{extra}`" in page, extra
