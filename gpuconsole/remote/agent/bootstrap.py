# First thing that runs on the host: takes options and modules from standard input, makes them
# importable from memory, starts the agent. Sent as text, so nothing here may rely on __file__.
# type: ignore
import importlib.machinery
import json
import marshal
import sys
import zlib

options = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
compiled, sources = [zlib.decompress(sys.stdin.buffer.read(size)) for size in options["sizes"]]
# What the console has compiled runs under the Python that it was compiled for, and no other.
here = getattr(importlib._bootstrap_external, "MAGIC_NUMBER", b"").hex()
ready = here == options["magic"]
modules = marshal.loads(compiled) if ready else json.loads(sources.decode("utf-8"))


# No class of `importlib.abc`: to import that takes as long as half of the agent's start.
class Modules:
    def find_spec(self, fullname, path=None, target=None):
        if fullname not in modules:
            return None
        package = any(name.startswith(fullname + ".") for name in modules)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=package)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__
        code = modules[name]
        if not ready:
            code = compile(code, "<gpuconsole:%s>" % name, "exec")
        exec(code, module.__dict__)


# In front, so that an old pynvml on the host is not taken instead of ours.
sys.meta_path.insert(0, Modules())

from gpuconsole.remote.agent.main import main  # noqa: E402

main(options)
