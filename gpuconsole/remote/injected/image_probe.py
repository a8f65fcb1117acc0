"""Tells, inside a container, which Paddle an image holds and where it computes: one line of JSON.

Its text is run with `python -c`; it must stand alone and suit any Python 3.
"""

import json
import platform
from types import ModuleType
from typing import Any

MARK = "gpuconsole-image "
KINDS = ("gpu", "npu", "xpu", "dcu")


def main() -> None:
    """Print what is there; an image without Paddle is reported too."""
    said = {"python": platform.python_version()}
    try:
        paddle = __import__("paddle")
        said["paddle"] = str(paddle.__version__)
        said.update(versions(paddle))
        said["built_for"] = built_for(paddle)
        square = paddle.ones([4, 4])
        if float(paddle.matmul(square, square).sum()) != 64.0:
            said["error"] = "A matrix product came out wrong."
        # Asked last: only now is it known where Paddle really computed.
        said["device"] = str(square.place)
    except BaseException as error:
        said["error"] = type(error).__name__ + ": " + str(error)[:2000]
    print(MARK + json.dumps(said), flush=True)


def versions(paddle: ModuleType) -> "dict[str, str]":
    """Return the versions of CUDA and cuDNN that Paddle is built for, `none` without."""
    facts = {}
    for name in ("cuda", "cudnn"):
        tell = getattr(paddle.version, name, None)
        value = str(tell()) if callable(tell) else ""
        facts[name] = "none" if value in ("False", "0.0", "None") else value
    return facts


def built_for(paddle: ModuleType) -> str:
    """Return the kind of device that Paddle is built for; a plugin's where there is one."""
    plugins: Any = getattr(paddle.device, "get_all_custom_device_type", tuple)()
    if plugins:
        return str(plugins[0])
    for kind, question in (("dcu", "rocm"), ("gpu", "cuda"), ("xpu", "xpu")):
        built = getattr(paddle.device, "is_compiled_with_" + question, None)
        if callable(built) and built():
            return kind
    return "cpu"


if __name__ == "__main__":
    main()
