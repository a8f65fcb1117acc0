# First thing that runs on the host: takes options and sources from standard input, makes them
# importable from memory, starts the agent. Sent as text, so nothing here may rely on __file__.
# type: ignore
import importlib.machinery
import json
import sys
import zlib

options = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
sources = json.loads(zlib.decompress(sys.stdin.buffer.read(options["size"])).decode("utf-8"))


# No class of `importlib.abc`: to import that takes as long as half of the agent's start.
class Sources:
    def find_spec(self, fullname, path=None, target=None):
        if fullname not in sources:
            return None
        package = any(name.startswith(fullname + ".") for name in sources)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=package)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__
        exec(compile(sources[name], "<gpuconsole:%s>" % name, "exec"), module.__dict__)


# In front, so that an old pynvml on the host is not taken instead of ours.
sys.meta_path.insert(0, Sources())

from gpuconsole.remote.agent.main import main  # noqa: E402

main(options)
