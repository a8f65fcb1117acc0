"""Models of pydantic against pydantic itself, and what files hold that reading does not open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.interpreter.domain.values import SomeInt, Unknown
from gpuconsole.preflight.interpreter.frontend import source
from gpuconsole.preflight.interpreter.libraries.registry import library
from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting
from tests.preflight.modelled import modelled

MODELS = """
from enum import Enum
from pathlib import Path
from typing import Dict, List, Literal, Optional, Tuple, Union
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator, ValidationInfo

class Kind(str, Enum):
    SMALL = "small"
    LARGE = "large"

class Layer(BaseModel):
    width: int = 64
    rate: float = 0.5

class Net(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    kind: Kind = Kind.SMALL
    first: Layer = Layer()
    layers: List[Layer] = Field(default_factory=list)
    by_name: Dict[str, Layer] = {}
    shape: Tuple[int, int] = (32, 32)
    where: Optional[Path] = None
    mode: Literal["a", "b"] = "a"
    size: Union[int, str] = 3
    depth: "int" = Field(2, ge=1, alias="levels")

    @field_validator("name")
    @classmethod
    def lower(cls, v):
        return v.lower()

    @field_validator("size", mode="before")
    def doubled(cls, v, info: ValidationInfo):
        return v * info.data["depth"] if "depth" in info.data else v * 2

    @model_validator(mode="before")
    @classmethod
    def renamed(cls, data):
        if "title" in data:
            data["name"] = data.pop("title")
        return data

    @model_validator(mode="after")
    def last(self):
        self.depth += 1
        return self

class Deep(Net):
    depth: int = 9
    more: int = 1

a = Net(
    title="ABC", first={"width": "128"}, layers=[{"width": 8, "rate": 1}, Layer(width=9)],
    by_name={"x": {"width": 7}}, shape=[3, 4], where="data", size=5, levels="4", kind="large",
    other=5,
)
b = Deep(name="Q")
found = [
    a.name, a.first.width, [(layer.width, layer.rate) for layer in a.layers], a.shape, a.size,
    a.by_name["x"].width, str(a.where / "x"), a.depth, a.kind is Kind.LARGE, a.other, b.depth,
    b.name, b.first.width, b.more, b.size, type(a.layers[0].rate).__name__,
]
dumped = a.model_dump(exclude={"kind", "where"})
copied = a.model_copy(update={"size": 11}).size
made = Net.model_validate({"name": "Z", "depth": 1}).depth
b.first.width = 3
fresh = Deep(name="R").first.width
"""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What pydantic gives, and what reading has."""
    real: dict[str, Any] = {"__name__": "models"}
    exec(compile(MODELS, "models", "exec"), real)
    return real, modelled(tmp_path_factory.mktemp("models") / "models.py", MODELS)


@pytest.mark.parametrize("name", ["found", "dumped", "copied", "made", "fresh"])
def test_models_have_the_values_that_pydantic_gives_them(
    pairs: tuple[dict[str, Any], dict[str, Any]], name: str
) -> None:
    real, read = pairs
    assert read[name] == real[name]


REFUSED = """
from pydantic import BaseModel, conint, validator
class A(BaseModel):
    n: conint(gt=0) = 3
    m: int
    k: int = 2
    @validator("k")
    def small(cls, v, values):
        if v > 5:
            raise ValueError("too large")
        return v + values["n"]
found = {call}
"""
HELD = """
import struct
import cv2
import yaml
import scipy.io as sio
from scipy.io import loadmat
cv2.ocl.setUseOpenCL(False)
yaml.add_representer(dict, lambda dumper, data: dumper.represent_dict(data))
with open("x.bin", "rb") as file:
    data = file.read()
magic, rows = struct.unpack_from(">II", data, 0)
offset = struct.calcsize(">II")
pixels = len(struct.unpack_from(f">{4 * 3}B", data, offset))
(name,) = struct.unpack("4s", data[:4])
share = struct.unpack("<d", data[:8])[0]
endless = struct.unpack_from(">1000000000B", data)
wrong = struct.calcsize("what")
x = loadmat("a.mat")["x"]
y = sio.loadmat("b.mat", squeeze_me=True)["y"].astype("float32")[:, 0:1]
sio.savemat("c.mat", {"a": 1})
"""


def read_with_findings(path: Path, text: str) -> tuple[dict[str, Any], Run]:
    path.write_text(text)
    run = Run(Setting("cpu"))
    machine = Interpreter(run, path, path.parent, library(run))
    return machine.imports.run_script(source.read(path)).names, run


@pytest.mark.parametrize(
    "call", ["A().m", 'A(m="x").m', "A(m=1, k=9).k", "A(m=[1]).m", 'A(n="4", m=1).n',
             "A(m=1).nothing", "A.model_validate(3)"],
)  # fmt: skip
def test_what_pydantic_may_refuse_is_unknown_and_no_fault(tmp_path: Path, call: str) -> None:
    names, run = read_with_findings(tmp_path / "models.py", REFUSED.format(call=call))
    assert isinstance(names["found"], Unknown)
    assert not run.findings.faults


def test_a_check_of_an_older_form_is_given_the_fields_before(tmp_path: Path) -> None:
    names, _ = read_with_findings(tmp_path / "models.py", REFUSED.format(call="A(m=1, k=3).k"))
    assert names["found"] == 6


def test_what_files_hold_is_unknown_and_how_they_are_packed_is_not(tmp_path: Path) -> None:
    names, run = read_with_findings(tmp_path / "held.py", HELD)
    assert isinstance(names["magic"], SomeInt)
    assert isinstance(names["rows"], SomeInt)
    assert (names["offset"], names["pixels"]) == (8, 12)
    for name in ("name", "share", "endless", "wrong", "x", "y"):
        assert isinstance(names[name], Unknown), name
    assert not run.findings.faults
    # Neither `cv2.ocl` nor a way to write YAML is missing.
    reasons = [unknown.reason for unknown in run.findings.unknowns.values()]
    assert not [reason for reason in reasons if "not known to the analysis" in reason]
