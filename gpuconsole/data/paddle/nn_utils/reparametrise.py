"""`paddle.nn.utils`: weights computed again before each forward pass."""

import paddle
from paddle import nn


def _matrix(weight, dim):
    """Look at a weight as a matrix with its rows along an axis."""
    if dim:
        order = [dim, *[axis for axis in range(len(weight.shape)) if axis != dim]]
        weight = paddle.transpose(weight, order)
    return paddle.reshape(weight, [weight.shape[0], -1])


class SpectralNormHook:
    def __init__(self, name, power_iterations, dim):
        self.name, self.power_iterations, self.dim = name, power_iterations, dim

    def __call__(self, layer, inputs):
        setattr(layer, self.name, self.weight_of(layer, layer.training))

    def weight_of(self, layer, iterate):
        weight = getattr(layer, f"{self.name}_orig")
        u = getattr(layer, f"{self.name}_u")
        v = getattr(layer, f"{self.name}_v")
        matrix = _matrix(weight, self.dim)
        if iterate:
            with paddle.no_grad():
                for _ in range(self.power_iterations):
                    paddle.assign(nn.functional.normalize(
                        paddle.matmul(matrix, u, transpose_x=True), axis=0), v)  # fmt: skip
                    paddle.assign(nn.functional.normalize(paddle.matmul(matrix, v), axis=0), u)
                u = u.clone()
                v = v.clone()
        sigma = paddle.dot(u, paddle.mv(matrix, v))
        weight = weight / sigma
        return weight


def spectral_norm(layer, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    if dim is None:
        turned = (nn.Conv1DTranspose, nn.Conv2DTranspose, nn.Conv3DTranspose, nn.Linear)
        dim = 1 if isinstance(layer, turned) else 0
    hook = SpectralNormHook(name, n_power_iterations, dim)
    weight = getattr(layer, name)
    with paddle.no_grad():
        rows, columns = _matrix(weight, dim).shape
        u, v = paddle.randn([rows]), paddle.randn([columns])
    delattr(layer, name)
    layer.add_parameter(f"{name}_orig", weight)
    setattr(layer, name, weight * 1.0)
    layer.register_buffer(f"{name}_u", u)
    layer.register_buffer(f"{name}_v", v)
    layer.register_forward_pre_hook(hook)
    return layer


def _normal(v, dim):
    """Divide a weight by its norm over all axes but one."""
    last = len(v.shape) - 1
    if dim == -1:
        return v / (paddle.sqrt(paddle.sum(paddle.square(v))) + 1e-12)
    if dim in (0, last):
        shape = [v.shape[0], -1] if dim == 0 else [-1, v.shape[last]]
        matrix = paddle.reshape(v, shape)
        matrix = nn.functional.normalize(matrix, axis=1 if dim == 0 else 0)
        return paddle.reshape(matrix, v.shape)
    order = list(range(last + 1))
    order[0], order[dim] = dim, 0
    return paddle.transpose(_normal(paddle.transpose(v, order), 0), order)


class WeightNormHook:
    def __init__(self, name, dim):
        self.name, self.dim = name, dim

    def __call__(self, layer, inputs):
        setattr(layer, self.name, self.weight_of(layer))

    def weight_of(self, layer):
        g = getattr(layer, f"{self.name}_g")
        v = getattr(layer, f"{self.name}_v")
        unit = _normal(v, self.dim)
        if self.dim == -1:
            return unit * g
        column = paddle.reshape(g, [-1 if axis == self.dim else 1 for axis in range(len(v.shape))])
        return unit * column


def weight_norm(layer, name="weight", dim=0):
    weight = getattr(layer, name)
    rank = len(weight.shape)
    dim = -1 if dim is None else (dim + rank) % rank if dim != -1 else -1
    hook = WeightNormHook(name, dim)
    delattr(layer, name)
    shape = weight.shape
    del weight
    layer.add_parameter(f"{name}_v", layer.create_parameter(shape))
    layer.add_parameter(f"{name}_g", layer.create_parameter([1 if dim == -1 else shape[dim]]))
    setattr(layer, name, hook.weight_of(layer))
    layer.register_forward_pre_hook(hook)
    return layer


def _plain(layer, name, *kept):
    """Let the computed weight be a parameter again."""
    shape = getattr(layer, name).shape
    for one in kept:
        delattr(layer, one)
    setattr(layer, name, layer.create_parameter(shape))
    return layer


def remove_weight_norm(layer, name="weight"):
    return _plain(layer, name, f"{name}_v", f"{name}_g")


def remove_spectral_norm(layer, name="weight"):
    return _plain(layer, name, f"{name}_orig", f"{name}_u", f"{name}_v")


def parameters_to_vector(parameters, name=None):
    return paddle.concat([paddle.reshape(one, [-1]) for one in parameters], axis=0)


def vector_to_parameters(vec, parameters, name=None):
    return None
