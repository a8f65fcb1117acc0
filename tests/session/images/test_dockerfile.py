"""A Dockerfile for a script: what it needs, in which order, and what is doubted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.errors import DocumentError, UsageError
from gpuconsole.session.images.dockerfile import dockerfile, imported, packages_of
from gpuconsole.session.images.task_file_image import changed, write_image

BASE = "paddlepaddle/paddle:3.3.1-gpu-cuda12.6-cudnn9.5"


def project(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "train.py"


def test_imports_are_followed_through_the_projects_own_modules(tmp_path: Path) -> None:
    script = project(
        tmp_path,
        train="import os, cv2\nimport paddle.nn\nfrom lib import net\nfrom . import near\n",
        lib__init="",
        lib__net="from PIL import Image\nimport train\n",
        unused="import tensorflow\n",
    )
    (tmp_path / "lib/init.py").rename(tmp_path / "lib/__init__.py")
    assert imported(script, tmp_path) == {"cv2", "paddle", "PIL"}
    assert packages_of(imported(script, tmp_path)) == ["opencv-python-headless", "pillow"]


def test_layers_that_change_seldom_come_first(tmp_path: Path) -> None:
    script = project(tmp_path, train="import yaml\n")
    made = dockerfile(script, tmp_path, BASE)
    lines = made.text.splitlines()
    order = [
        next(number for number, line in enumerate(lines) if line.startswith(word))
        for word in ("FROM", "RUN python -m pip", "USER", "COPY --chown", "CMD")
    ]
    assert order == sorted(order)
    assert lines[-1] == 'CMD ["python", "train.py"]'
    assert "root" not in made.text


def test_a_list_of_requirements_wins_and_is_doubted(tmp_path: Path) -> None:
    script = project(tmp_path, train="import yaml, tqdm\n")
    (tmp_path / "requirements.txt").write_text("pyyaml==6.0\npaddlepaddle-gpu  # no\n-r more\n")
    made = dockerfile(script, tmp_path, "paddle")
    assert "pip install --no-cache-dir -r" in made.text
    reported = "\n".join(made.notes)
    assert "does not name what the script imports: tqdm." in reported
    assert "Take that line out" in reported
    assert "without a version" in reported
    assert "means latest" in reported


def test_a_script_with_nothing_to_install_has_no_such_layer(tmp_path: Path) -> None:
    script = project(tmp_path, train="import os\nimport paddle\n")
    made = dockerfile(script, tmp_path, BASE)
    assert "pip" not in made.text
    assert made.notes == ()


@pytest.mark.parametrize("text", ["def (", "\0", "(" * 5000])
def test_what_is_no_python_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        dockerfile(project(tmp_path, train=text), tmp_path, BASE)


def test_a_script_outside_the_project_is_refused(tmp_path: Path) -> None:
    script = project(tmp_path, train="")
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError) as caught:
        dockerfile(script, tmp_path / "other", BASE)
    assert "--project" in caught.value.hint
    with pytest.raises(UsageError):
        dockerfile(tmp_path / "absent.py", tmp_path, BASE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("task:\n  image: a:1  # ours\n  name: x\n", "task:\n  image: B  # ours\n  name: x\n"),
        ('task:\n  name: "é"\n  image: "a:1"\n', 'task:\n  name: "é"\n  image: B\n'),
        ("# top\ntask:\n    name: x\n", "# top\ntask:\n    image: B\n    name: x\n"),
        ("task: {name: x}\n", "task: {image: B, name: x}\n"),
    ],
)
def test_a_task_file_changes_in_one_place(before: str, after: str) -> None:
    assert changed(before, "B", "t.yaml") == after


@pytest.mark.parametrize("text", ["", "a: [", "task:\n", "task: 7\n", "- task\n"])
def test_what_is_no_task_file_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    with pytest.raises(DocumentError):
        write_image(path, "B")
    assert path.read_text() == text
