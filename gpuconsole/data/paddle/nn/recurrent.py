"""Cells of recurrent nets, and the nets that step through a sequence with a cell."""

import paddle
from paddle import nn


def _flat(states):
    """Return the tensors of nested states."""
    if not isinstance(states, (list, tuple)):
        return [states]
    return [one for state in states for one in _flat(state)]


def _filled(shapes, batch, value, dtype):
    if isinstance(shapes[0], (list, tuple)):
        return tuple([_filled(one, batch, value, dtype) for one in shapes])
    return paddle.full([batch, *[extent for extent in shapes if extent != -1]], value, dtype)


class RNNCellBase(nn.Layer):
    def get_initial_states(self, batch_ref, shape=None, dtype=None, init_value=0.0,
                           batch_dim_idx=0):  # fmt: skip
        like = _flat(batch_ref)[0]
        shapes = self.state_shape if shape is None else shape
        return _filled(shapes, like.shape[batch_dim_idx], init_value, dtype or "float32")

    def _make_weights(self, rows, input_size, hidden_size, *attrs):
        self.weight_ih = self._one([rows, input_size], attrs[0])
        self.weight_hh = self._one([rows, hidden_size], attrs[1])
        self.bias_ih = self._one([rows], attrs[2])
        self.bias_hh = self._one([rows], attrs[3])

    def _one(self, shape, attr):
        if attr is not False:
            return self.create_parameter(shape, attr=attr)
        made = self.create_parameter(shape)
        made.stop_gradient = True
        return made


class SimpleRNNCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, activation="tanh", weight_ih_attr=None,
                 weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None, name=None):  # fmt: skip
        super().__init__()
        self._make_weights(hidden_size, input_size, hidden_size,
                           weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)  # fmt: skip
        self.input_size, self.hidden_size = input_size, hidden_size
        self.activation = activation
        self._activation_fn = paddle.tanh if activation == "tanh" else nn.functional.relu

    @property
    def state_shape(self):
        return (self.hidden_size,)

    def forward(self, inputs, states=None):
        if states is None:
            states = self.get_initial_states(inputs, self.state_shape)
        hidden = states
        from_input = paddle.matmul(inputs, self.weight_ih, transpose_y=True)
        if self.bias_ih is not None:
            from_input += self.bias_ih
        from_state = paddle.matmul(hidden, self.weight_hh, transpose_y=True)
        if self.bias_hh is not None:
            from_state += self.bias_hh
        h = self._activation_fn(from_input + from_state)
        return h, h


class LSTMCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, weight_ih_attr=None, weight_hh_attr=None,
                 bias_ih_attr=None, bias_hh_attr=None, proj_size=0, name=None):  # fmt: skip
        super().__init__()
        self._make_weights(4 * hidden_size, input_size, proj_size or hidden_size,
                           weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)  # fmt: skip
        self.proj_size = proj_size
        if proj_size > 0:
            self.weight_ho = self.create_parameter([hidden_size, proj_size])
        self.input_size, self.hidden_size = input_size, hidden_size

    @property
    def state_shape(self):
        return ((self.hidden_size,), (self.proj_size or self.hidden_size,))

    def forward(self, inputs, states=None):
        if states is None:
            states = self.get_initial_states(inputs, self.state_shape)
        hidden, cell = states
        gates = paddle.matmul(inputs, self.weight_ih, transpose_y=True)
        if self.bias_ih is not None:
            gates = gates + self.bias_ih
        gates += paddle.matmul(hidden, self.weight_hh, transpose_y=True)
        if self.bias_hh is not None:
            gates = gates + self.bias_hh
        parts = paddle.split(gates, num_or_sections=4, axis=-1)
        i = nn.functional.sigmoid(parts[0])
        f = nn.functional.sigmoid(parts[1])
        o = nn.functional.sigmoid(parts[3])
        c = f * cell + i * paddle.tanh(parts[2])
        h = o * paddle.tanh(c)
        if self.proj_size > 0:
            h = paddle.matmul(h, self.weight_ho)
        return h, (h, c)


class GRUCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, weight_ih_attr=None, weight_hh_attr=None,
                 bias_ih_attr=None, bias_hh_attr=None, name=None):  # fmt: skip
        super().__init__()
        self._make_weights(3 * hidden_size, input_size, hidden_size,
                           weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)  # fmt: skip
        self.input_size, self.hidden_size = input_size, hidden_size

    @property
    def state_shape(self):
        return (self.hidden_size,)

    def forward(self, inputs, states=None):
        if states is None:
            states = self.get_initial_states(inputs, self.state_shape)
        hidden = states
        from_input = paddle.matmul(inputs, self.weight_ih, transpose_y=True)
        if self.bias_ih is not None:
            from_input = from_input + self.bias_ih
        from_state = paddle.matmul(hidden, self.weight_hh, transpose_y=True)
        if self.bias_hh is not None:
            from_state = from_state + self.bias_hh
        x_r, x_z, x_c = paddle.split(from_input, num_or_sections=3, axis=1)
        h_r, h_z, h_c = paddle.split(from_state, num_or_sections=3, axis=1)
        r = nn.functional.sigmoid(x_r + h_r)
        z = nn.functional.sigmoid(x_z + h_z)
        c = paddle.tanh(x_c + r * h_c)
        h = (hidden - c) * z + c
        return h, h


def _masked(old, new, mask):
    """Keep the old state where a sequence has ended."""
    if isinstance(new, (list, tuple)):
        return tuple([_masked(old[i], new[i], mask) for i in range(len(new))])
    column = paddle.unsqueeze(mask, -1)
    return new * column + old * (1 - column)


def rnn(cell, inputs, initial_states=None, sequence_length=None, time_major=False,
        is_reverse=False, **options):  # fmt: skip
    axis = 0 if time_major else 1
    steps = inputs.shape[axis]
    if initial_states is None:
        initial_states = cell.get_initial_states(inputs, batch_dim_idx=1 - axis)
    if not time_major:
        inputs = paddle.transpose(inputs, [1, 0, *range(2, len(inputs.shape))])
    if sequence_length is not None:
        mask = nn.functional.sequence_mask(sequence_length, maxlen=steps, dtype=inputs.dtype)
        mask = paddle.transpose(mask, [1, 0])
    if is_reverse:
        inputs = paddle.flip(inputs, axis=[0])
        mask = paddle.flip(mask, axis=[0]) if sequence_length is not None else None
    states = initial_states
    outputs = []
    for i in range(steps):
        step = inputs[i]
        output, new_states = cell(step, states, **options)
        if sequence_length is not None:
            new_states = _masked(states, new_states, mask[i])
        states = new_states
        outputs.append(output)
    final = paddle.stack(outputs, axis=axis)
    if is_reverse:
        final = paddle.flip(final, axis=[axis])
    return final, new_states


class RNN(nn.Layer):
    def __init__(self, cell, is_reverse=False, time_major=False):
        super().__init__()
        self.cell = cell
        self.is_reverse = is_reverse
        self.time_major = time_major

    def forward(self, inputs, initial_states=None, sequence_length=None, **options):
        final, states = rnn(self.cell, inputs, initial_states, sequence_length, self.time_major,
                            self.is_reverse, **options)  # fmt: skip
        return final, states


class BiRNN(nn.Layer):
    def __init__(self, cell_fw, cell_bw, time_major=False):
        super().__init__()
        self.cell_fw = cell_fw
        self.cell_bw = cell_bw
        self.time_major = time_major

    def forward(self, inputs, initial_states=None, sequence_length=None, **options):
        if initial_states is None:
            axis = 1 if self.time_major else 0
            forth = self.cell_fw.get_initial_states(inputs, batch_dim_idx=axis)
            back = self.cell_fw.get_initial_states(inputs, batch_dim_idx=axis)
        else:
            forth, back = initial_states
        left, forth = rnn(self.cell_fw, inputs, forth, sequence_length, self.time_major,
                          **options)  # fmt: skip
        right, back = rnn(self.cell_bw, inputs, back, sequence_length, self.time_major, True,
                          **options)  # fmt: skip
        outputs = paddle.concat([left, right], -1)
        return outputs, (forth, back)


def _flattened(states):
    found = []
    for one in states:
        found += _flattened(one) if isinstance(one, (list, tuple)) else [one]
    return found


class CellByCell(nn.LayerList):
    """`LSTM` with a projection, which the kernel cannot run."""

    def __init__(self, cell, input_size, hidden_size, num_layers, sides, time_major, dropout,
                 components, proj_size, options):  # fmt: skip
        super().__init__()
        self.hidden_size, self.proj_size, self.sides = hidden_size, proj_size, sides
        self.num_layers, self.time_major, self.dropout = num_layers, time_major, dropout
        self.components = components
        width = input_size
        for _ in range(num_layers):
            cells = [cell(width, hidden_size, **options) for _ in range(sides)]
            self.append(RNN(cells[0], False, time_major) if sides == 1 else (
                BiRNN(cells[0], cells[1], time_major)))  # fmt: skip
            width = sides * (proj_size or hidden_size)

    def forward(self, inputs, initial_states=None, sequence_length=None):
        if initial_states is None:
            rows = inputs.shape[1 if self.time_major else 0]
            widths = [self.proj_size or self.hidden_size, self.hidden_size]
            initial_states = [
                paddle.full([self.num_layers * self.sides, rows, widths[place]], 0.0)
                for place in range(self.components)
            ]
        elif self.components == 1:
            initial_states = [initial_states]
        states = [paddle.unstack(one) for one in initial_states]
        final = []
        for place, layer in enumerate(self):
            if place > 0:
                inputs = nn.functional.dropout(inputs, self.dropout, training=self.training)
            own = []
            for side in range(self.sides):
                parts = tuple(one[place * self.sides + side] for one in states)
                own.append(parts if self.components > 1 else parts[0])
            inputs, last = layer(inputs, own[0] if self.sides == 1 else own, sequence_length)
            final.append(last)
        flat = _flattened(final)
        if self.components == 1:
            return inputs, paddle.stack(flat)
        return inputs, tuple(paddle.stack(flat[place::2]) for place in range(2))
