"""A GPU stood in by the CPU, for Paddle inside an image of the lab.

Its Paddle says that it computes on `gpu:0`; the figures of that device are those of Paddle's own
CPU allocator, taken from the driver in pages of 2 MiB. Past LAB_GPU_MIB it raises what Paddle
raises when a card is full. The driver's figures come from `fake_nvml.c`, as everywhere in the lab.

It comes as the image's `sitecustomize`, so the reporter has one to stand before.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import LabHost
from tests.real.rig.image import paddle_image

GPU_IMAGE = "lab/gpu:1"

SITE = '''
import importlib.abc, importlib.util, os, sys

MIB = 2**20
FULL = """

Out of memory error on GPU 0. Cannot allocate %fMB memory on GPU 0, %fMB memory has been allocated \
and available memory is only %fMB.

Please check whether there is any other process using GPU 0.
1. If yes, please stop them, or start PaddlePaddle on another GPU.
2. If no, please decrease the batch size of your model.
"""


class Loader(importlib.abc.Loader):
    def __init__(self, inner):
        self.inner = inner

    def create_module(self, spec):
        return self.inner.create_module(spec)

    def exec_module(self, module):
        self.inner.exec_module(module)
        pretend(module)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "paddle":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        spec.loader = Loader(spec.loader)
        return spec


def pretend(paddle):
    core = paddle.base.core
    held = lambda *device: core.host_memory_stat_current_value("Allocated", 0)
    most = lambda *device: core.host_memory_stat_peak_value("Allocated", 0)
    pages = lambda *device: -(-most() // (2 * MIB)) * 2 * MIB
    paddle.device.get_device = lambda: "gpu:0"
    cuda = paddle.device.cuda
    cuda.memory_allocated, cuda.max_memory_allocated = held, most
    cuda.memory_reserved = cuda.max_memory_reserved = pages
    cuda.get_device_name = lambda *device: "stand-in"
    limit = float(os.environ.get("LAB_GPU_MIB", "inf")) * MIB
    call = paddle.nn.Layer.__call__

    def called(self, *inputs, **options):
        result = call(self, *inputs, **options)
        if held() > limit:
            size = result.size * 4 / MIB
            raise MemoryError(FULL % (size, held() / MIB, size / 2))
        return result

    paddle.nn.Layer.__call__ = called


# Behind whoever waits for Paddle already: to them it is the GPU's from its first line on.
sys.meta_path.insert(1, Finder())
'''


def gpu_image(lab: LabDocker, *, full_at_mib: float | None = None, name: str = GPU_IMAGE) -> str:
    """Make the image on an engine and return its name."""
    env = {} if full_at_mib is None else {"LAB_GPU_MIB": f"{full_at_mib:g}"}
    return paddle_image(lab, name, modules={"sitecustomize.py": SITE}, env=env)


@contextmanager
def driver_tells(engine: LabDocker, host: LabHost, held_mib: float) -> Iterator[None]:
    """Let a host's stand-in driver list the running container's process with so much memory."""
    stop = threading.Event()

    def tell() -> None:
        client = engine.client()
        while not stop.wait(0.2):
            for item in client.containers(filters={"status": "running"}):
                state = client.inspect_container(item["Id"])
                uuids = state["Config"]["Labels"].get("gpuconsole.devices", "")
                if uuids in host.uuids and state["State"]["Pid"]:
                    index = host.uuids.index(uuids)
                    process = f"{state['State']['Pid']}:{held_mib:.0f}"
                    host.driver.set({f"{index}.procs": process, f"{index}.used_mib": held_mib})
        client.close()
        for index in range(len(host.uuids)):
            host.driver.clear(f"{index}.procs", f"{index}.used_mib")

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
