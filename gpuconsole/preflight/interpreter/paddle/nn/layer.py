"""`paddle.nn.Layer`, the base of all layers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Native,
    Saved,
    ShapeFault,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.machine.run_state.tape import LayerCall
from gpuconsole.preflight.interpreter.paddle.nn.layer_tree import Branch
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import (
    FLOATS,
    ITEM_BYTES,
    Parameter,
    Tensor,
    as_shape,
)

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


_WORDS = re.compile(r"(?<=.)(?=[A-Z][a-z]+)|(?<=[a-z])(?=[A-Z])")
"""Between the words of a class's name."""


class Layer(Branch):
    """`paddle.nn.Layer`; `before` and `after` are its hooks, `kept` the names of its buffers."""

    label = "Layer"
    inner: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.training = True
        self.path = ""
        self.named = ""
        """Paddle's name of it, once it has been needed."""

    @exposed.prop("training")
    def get_training(self, run: Run) -> Value:
        """Give the mode."""
        return self.training

    @exposed.setter("training")
    def set_training(self, value: Value) -> None:
        """Set the mode."""
        self.training = value is True

    def call(self, interp: Interpreter, *args: Value, **kwargs: Value) -> Value:
        """Run the layer's forward."""
        run: Run = interp.run
        unknown = next((argument for argument in args if isinstance(argument, Unknown)), None)
        if unknown is not None and (self.cls is None or self.cls.find("forward") is MISSING):
            run.block(unknown)
            return unknown
        if self.before:
            args = self.prepared(interp, args)
        # What is run without gradients beside training, to act or to judge, is no batch of it.
        aside = run.batch.loaders or (run.progress.optimizers and not run.mode.grad_enabled)
        for argument in () if aside else args:
            if isinstance(argument, Tensor) and argument.shape:
                run.found_batch(argument.shape[0])
        around, flops, place = run.tape.layer, run.tape.flops, (run.file, run.line)
        run.findings.networks += not around
        if not around and not self.path:
            self.name_all()
        run.tape.layer = self.path
        out = self.pass_on(interp, args, kwargs)
        for hook in self.after:
            given = interp.call(hook, [self, args, out], {})
            out = out if given is None or isinstance(given, Unknown) else given
            del given
        run.tape.layer = around
        if isinstance(out, Unknown):
            self.lose(run, out)
        elif not around:
            run.findings.forwards += 1
        self.note_call(run, place, out, run.tape.flops - flops)
        return out

    def lose(self, run: Run, out: Unknown) -> None:
        """Give the memory up where a layer with parameters is trained and its output not known."""
        if run.findings.lost is None:
            run.findings.lost = out
        if run.mode.grad_enabled and any(parameter.trainable for _, parameter in self.parameters()):
            run.block(out)

    def prepared(self, interp: Interpreter, args: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the inputs as the hooks before a forward pass leave them."""
        for hook in self.before:
            given = interp.call(hook, [self, args], {})
            if given is not None and not isinstance(given, Unknown):
                args = given if isinstance(given, tuple) else (given,)
        return args

    def name_all(self) -> None:
        """Give this layer and all below it their paths; the outermost goes by its class."""
        root = self.cls.name if self.cls is not None else self.label
        for name, layer in self.walk():
            layer.path = name or root

    def note_call(self, run: Run, place: tuple[str, int], out: Value, flops: float) -> None:
        """Remember the call for the table of layers."""
        if run.tape.moment != "forward" or not self.path:
            return
        first = out[0] if isinstance(out, (list, tuple)) and out else out
        shape = first.shape if isinstance(first, Tensor) else ()
        own = sum(attr.nbytes for attr in self.attrs.values() if isinstance(attr, Parameter))
        kind = self.cls.name if self.cls is not None else self.label
        run.tape.layers[self.path] = LayerCall(kind, *place, tuple(map(int, shape)), own, flops)

    def pass_on(
        self, interp: Interpreter, args: tuple[Value, ...], kwargs: dict[str, Value]
    ) -> Value:
        """Run the forward that the script or Paddle defines."""
        # An object's own attribute comes before its class's.
        forward = self.attrs.get("forward", MISSING)
        if forward is MISSING and self.cls is not None:
            of_class = self.cls.find("forward")
            forward = of_class if of_class is MISSING else interp.bind(of_class, self)
        if forward is MISSING:
            forward = interp.patched_method(self, "forward")
        if forward is MISSING:
            return self.built_in(interp, args, kwargs)
        return interp.call(forward, list(args), kwargs)

    def built_in(
        self, interp: Interpreter, args: tuple[Value, ...], kwargs: dict[str, Value]
    ) -> Value:
        """Run the forward that Paddle defines."""
        run: Run = interp.run
        if any(map(self.uses, run.patches.functions)):
            replaced = run.unknown(
                msg("{label} calls a function that the script replaces", label=self.label)
            )
            run.block(replaced)
            return replaced
        native = getattr(self, "forward", None)
        if native is None:
            return run.unknown(msg("{label} has no forward", label=self.label))
        try:
            return native(run, *args, **kwargs)
        except ShapeFault as fault:
            failed = run.fault(fault.message, fault.shapes)
            if not run.findings.faults:
                run.block(failed)
                return failed
            return self.recover(run, *args)

    def uses(self, function: str) -> bool:
        """Whether Paddle's forward may call a function of `paddle.nn.functional` in a way that is
        not followed: layers are named after theirs."""
        return self.label.lower().startswith(function.replace("_", ""))

    def recover(self, run: Run, *args: Value) -> Value:
        """Return a stand-in for the output after a fault, so that later faults are found too."""
        return run.unknown("the output of a layer with an input of a wrong shape")

    # -- what scripts ask

    @exposed.prop("_sub_layers")
    def get__sub_layers(self, run: Run) -> Value:
        """Give the direct sublayers by name."""
        return {name: member for name, member in self.members() if isinstance(member, Layer)}

    @exposed.prop("_parameters")
    def get__parameters(self, run: Run) -> Value:
        """Give the own parameters by name."""
        return dict(self.parameters(below=False))

    @exposed.prop("_buffers")
    def get__buffers(self, run: Run) -> Value:
        """Give the own buffers by name."""
        return dict(self.buffers(below=False))

    @exposed.prop("_dtype")
    def get__dtype(self, run: Run) -> Value:
        """Give the type of new parameters."""
        return run.mode.dtype

    @exposed.method("parameters")
    def do_parameters(self, run: Run, include_sublayers: Value = True) -> Value:
        """Give all parameters."""
        return [parameter for _, parameter in self.parameters(include_sublayers is not False)]

    @exposed.method("named_parameters")
    def do_named_parameters(self, run: Run, prefix: Value = "", include_sublayers: Value = True,
                            **_: Value) -> Value:  # fmt: skip
        """Give all parameters by name."""
        return list(self.parameters(include_sublayers is not False, str(prefix)))

    @exposed.method("buffers")
    def do_buffers(self, run: Run, include_sublayers: Value = True) -> Value:
        """Give all buffers."""
        return [buffer for _, buffer in self.buffers(include_sublayers is not False)]

    @exposed.method("named_buffers")
    def do_named_buffers(self, run: Run, prefix: Value = "", include_sublayers: Value = True,
                         **_: Value) -> Value:  # fmt: skip
        """Give all buffers by name."""
        return list(self.buffers(include_sublayers is not False, str(prefix)))

    @exposed.method("sublayers")
    def do_sublayers(self, run: Run, include_self: Value = False) -> Value:
        """Give all layers below."""
        return [layer for _, layer in self.walk() if include_self is True or layer is not self]

    @exposed.method("named_sublayers")
    def do_named_sublayers(self, run: Run, prefix: Value = "", include_self: Value = False,
                           **_: Value) -> Value:  # fmt: skip
        """Give all layers below by name."""
        return [(name, layer) for name, layer in self.walk(prefix=str(prefix))
                if include_self is True or layer is not self]  # fmt: skip

    @exposed.method("modules")
    def do_modules(self, run: Run) -> Value:
        """Give this layer and all below."""
        return self.do_sublayers(run, True)

    @exposed.method("named_modules")
    def do_named_modules(self, run: Run, *_: Value) -> Value:
        """Give this layer and all below by name."""
        return list(self.walk())

    @exposed.method("children")
    def do_children(self, run: Run) -> Value:
        """Give the direct sublayers."""
        return [child for _, child in self.children()]

    @exposed.method("named_children")
    def do_named_children(self, run: Run) -> Value:
        """Give the direct sublayers by name."""
        return list(self.children())

    @exposed.method("full_name")
    def do_full_name(self, run: Run) -> Value:
        """Give its class's name with a number."""
        if not self.named:
            kind = self.cls.name if self.cls is not None else self.label
            self.named = run.unique(_WORDS.sub("_", kind).lower())
        return self.named

    @exposed.method("train")
    def do_train(self, run: Run, mode: Value = True) -> Value:
        """Switch to training."""
        for _, layer in self.walk():
            layer.training = mode is not False
        return self

    @exposed.method("eval")
    def do_eval(self, run: Run) -> Value:
        """Switch to evaluation."""
        return self.do_train(run, False)

    @exposed.method("add_sublayer")
    def do_add_sublayer(self, run: Run, name: Value, sublayer: Value) -> Value:
        """Add a sublayer."""
        self.attrs[name if isinstance(name, str) else f"layer{len(self.attrs)}"] = sublayer
        return sublayer

    @exposed.method("add_module", "register_module")
    def do_add_module(self, run: Run, name: Value, module: Value) -> Value:
        """Add a sublayer, by its other name."""
        return self.do_add_sublayer(run, name, module)

    @exposed.method("add_parameter", "register_parameter")
    def do_add_parameter(self, run: Run, name: Value, parameter: Value) -> Value:
        """Add a parameter."""
        self.attrs[str(name)] = parameter
        return parameter

    @exposed.method("register_buffer")
    def do_register_buffer(
        self, run: Run, name: Value, tensor: Value = None, persistable: Value = True
    ) -> None:
        """Add a buffer."""
        self.kept.append(str(name))
        self.attrs[str(name)] = tensor

    @exposed.method("create_parameter")
    def do_create_parameter(self, run: Run, shape: Value, attr: Value = None, dtype: Value = None,
                            is_bias: Value = False, *_: Value, **__: Value) -> Value:  # fmt: skip
        """Make a parameter; none where its attribute is False."""
        if attr is False:
            return None
        unknown = first_unknown(shape)
        if unknown is not None:
            run.block(unknown)
            return unknown
        parameter = run.parameter(as_shape(shape), as_name(dtype))
        self._describe(run, parameter, attr, "b" if is_bias is True else "w")
        return parameter

    def _describe(self, run: Run, parameter: Tensor, attr: Value, kind: str) -> None:
        """Give a parameter what its attribute says, or the name that Paddle makes."""
        if getattr(attr, "frozen", False):
            parameter.stop_gradient = True
        name = attr if isinstance(attr, str) else getattr(attr, "name", "")
        parameter.name = name or run.unique(f"{self.do_full_name(run)}.{kind}")

    @exposed.method("create_tensor", "create_variable")
    def do_create_tensor(self, run: Run, name: Value = None, persistable: Value = None,
                         dtype: Value = None) -> Value:  # fmt: skip
        """Make an empty variable."""
        return run.tensor((0,), as_name(dtype))

    @exposed.method("apply")
    def do_apply(self, run: Run, fn: Value) -> Value:
        """Call a function on each layer, innermost first; what it draws has no part in memory."""
        blocking = run.findings.blocking
        for _, layer in reversed(list(self.walk())):
            run.interp.call(fn, [layer], {})
        run.findings.blocking = blocking
        return self

    @exposed.method("state_dict", "to_static_state_dict")
    def do_state_dict(self, run: Run, *_: Value, **__: Value) -> Value:
        """Give parameters and buffers by name."""
        return dict([*self.parameters(), *self.buffers()])

    @exposed.method("set_state_dict", "load_dict", "set_dict", "load_state_dict")
    def do_set_state_dict(self, run: Run, state: Value = None, *_: Value, **__: Value) -> Value:
        """Load weights: no sizes change, and what a file held lies beside them while it is kept."""
        if isinstance(state, Saved):
            owned = [*self.parameters(), *self.buffers()]
            state.take(run.storage(tensor.nbytes, "activations") for _, tensor in owned)
        return ([], [])

    @exposed.method("forward")
    def do_forward(self, run: Run, *args: Value, **kwargs: Value) -> Value:
        """Run the forward pass alone, without hooks."""
        return self.built_in(run.interp, args, kwargs)

    @exposed.method("extra_repr")
    def do_extra_repr(self, run: Run) -> Value:
        """Give no more text."""
        return ""

    @exposed.method("get_parameter")
    def do_get_parameter(self, run: Run, target: Value) -> Value:
        """Give a parameter by its path."""
        return dict(self.parameters())[target]

    @exposed.method("get_buffer")
    def do_get_buffer(self, run: Run, target: Value) -> Value:
        """Give a buffer by its path."""
        return dict(self.buffers())[target]

    @exposed.method("get_sublayer", "get_submodule")
    def do_get_sublayer(self, run: Run, target: Value) -> Value:
        """Give a layer below by its path."""
        return dict(self.walk())[target]

    @exposed.method("requires_grad_")
    def do_requires_grad_(self, run: Run, requires_grad: Value = True) -> Value:
        """Train all parameters, or none."""
        for _, parameter in self.parameters():
            parameter.stop_gradient = requires_grad is False
        return self

    @exposed.method("clear_gradients")
    def do_clear_gradients(self, run: Run, set_to_zero: Value = True) -> None:
        """Zero the gradients, or let them go."""
        for _, parameter in self.parameters():
            parameter.clear_gradient(zero=set_to_zero is not False)

    @exposed.method("zero_grad")
    def do_zero_grad(self, run: Run, set_to_none: Value = True) -> None:
        """Let the gradients go, or zero them."""
        self.do_clear_gradients(run, set_to_none is False)

    @exposed.method("to")
    def do_to(self, run: Run, device: Value = None, dtype: Value = None, blocking: Value = None,
              **_: Value) -> Value:  # fmt: skip
        """Move (there is one device) and cast the parameters and buffers that are floats."""
        wanted = as_name(dtype) or as_name(device)
        if wanted in FLOATS:
            for _name, tensor in [*self.parameters(), *self.buffers()]:
                if tensor.dtype in FLOATS and tensor.dtype != wanted:
                    tensor.dtype = wanted
                    tensor.storage = run.storage(tensor.nbytes, "parameters")
        return self

    @exposed.method("astype")
    def do_astype(self, run: Run, dtype: Value = None) -> Value:
        """Cast."""
        return self.do_to(run, None, dtype)

    @exposed.method("float")
    def do_float(self, run: Run, *_: Value) -> Value:
        """Cast to single precision."""
        return self.do_to(run, None, "float32")

    @exposed.method("float16", "half")
    def do_float16(self, run: Run, *_: Value) -> Value:
        """Cast to half precision."""
        return self.do_to(run, None, "float16")

    @exposed.method("bfloat16")
    def do_bfloat16(self, run: Run, *_: Value) -> Value:
        """Cast to brain floats."""
        return self.do_to(run, None, "bfloat16")

    @exposed.method("double")
    def do_double(self, run: Run, *_: Value) -> Value:
        """Cast to double precision."""
        return self.do_to(run, None, "float64")

    @exposed.method("cuda", "cpu", "npu", "xpu")
    def do_cuda(self, run: Run, *_: Value, **__: Value) -> Value:
        """Move: there is one device."""
        return self

    @exposed.method("register_forward_pre_hook")
    def do_register_forward_pre_hook(self, run: Run, hook: Value, *_: Value) -> Value:
        """Call a function before each forward pass."""
        self.before.append(hook)
        return Registered(self.before, hook)

    @exposed.method("register_forward_post_hook", "register_forward_hook")
    def do_register_forward_post_hook(self, run: Run, hook: Value, *_: Value) -> Value:
        """Call a function after each forward pass."""
        self.after.append(hook)
        return Registered(self.after, hook)

    def weight(
        self, run: Run, name: str, shape: tuple[int, ...], attr: Value = None
    ) -> Tensor | None:
        """Make a parameter of this layer unless its attribute is False."""
        if attr is False:
            self.attrs[name] = None
            return None
        parameter = run.parameter(shape)
        self._describe(run, parameter, attr, "b" if "bias" in name else "w")
        self.attrs[name] = parameter
        return parameter

    def tensor(self, name: str) -> Tensor | None:
        """Return a parameter or buffer by name."""
        value = self.attrs.get(name)
        return value if isinstance(value, Tensor) else None


class Registered(Native):
    """What registering a hook returns."""

    label = "hook"

    def __init__(self, hooks: list[Value], hook: Value) -> None:
        super().__init__()
        self.hooks, self.hook = hooks, hook

    @exposed.method("remove")
    def do_remove(self, run: Run) -> None:
        """Call the function no more."""
        if self.hook in self.hooks:
            self.hooks.remove(self.hook)


def as_name(dtype: Value) -> str:
    """Return the name of a type given as Paddle's object or by name; "" for anything else."""
    name = getattr(dtype, "name", dtype)
    return name if isinstance(name, str) and name in ITEM_BYTES else ""
