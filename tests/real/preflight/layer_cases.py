"""The layers and models that are held against real Paddle, by subject."""

from __future__ import annotations

from typing import NamedTuple


class LayerCase(NamedTuple):
    """`net` makes the layer; `call` uses it on the inputs; backward starts at `loss`."""

    net: str
    inputs: str = "x=f(N,6,20,24)"
    call: str = "net(x)"
    loss: str = "y"


ROWS = "x=f(N,17,64)"
FLAT = "x=f(N,64)"
LINE = "x=f(N,6,40)"
IMAGE = "x=f(N,6,20,24)"
CUBE = "x=f(N,6,8,10,12)"


def _words(text: str) -> list[str]:
    return text.split()


def _each(inputs: str, *nets: str) -> list[LayerCase]:
    return [LayerCase(net, inputs) for net in nets]


WEIGHTED = [
    *_each(ROWS, "nn.Linear(64, 48)", "nn.Linear(64, 48, bias_attr=False)", "nn.Linear(64, 3)"),
    *_each(FLAT, "nn.Linear(64, 48)", "nn.Linear(64, 48, weight_attr=paddle.ParamAttr())"),
    LayerCase("nn.Bilinear(24, 30, 16)", "x=f(N,24) z=f(N,30)", "net(x, z)"),
    LayerCase("nn.Embedding(300, 48)", "x=i(N,17,<300)"),
    LayerCase("nn.Embedding(300, 48, padding_idx=0)", "x=i(N,17,<300)"),
    *_each(LINE, "nn.Conv1D(6, 16, 5, padding=2)", "nn.Conv1D(6, 16, 3, stride=2)",
           "nn.Conv1DTranspose(6, 16, 4, stride=2, padding=1)"),
    *_each(IMAGE, "nn.Conv2D(6, 16, 3)", "nn.Conv2D(6, 16, 3, padding=1, bias_attr=False)",
           "nn.Conv2D(6, 16, 3, padding='SAME')", "nn.Conv2D(6, 12, 3, padding=1, groups=3)",
           "nn.Conv2D(6, 6, 3, padding=1, groups=6)", "nn.Conv2D(6, 16, 3, dilation=2)",
           "nn.Conv2D(6, 16, 1)", "nn.Conv2D(6, 16, 1, stride=2)",
           "nn.Conv2D(6, 16, (3, 5), (2, 1), padding=[1, 2])",
           "nn.Conv2D(6, 16, 3, padding=1, padding_mode='reflect')",
           "nn.Conv2DTranspose(6, 16, 4, 2, 1)", "nn.Conv2DTranspose(6, 16, 2, 2)",
           "nn.Conv2DTranspose(6, 12, 3, 2, 1, output_padding=1, groups=3)"),
    LayerCase("nn.Conv2D(6, 16, 3, data_format='NHWC')", "x=f(N,20,24,6)"),
    *_each(CUBE, "nn.Conv3D(6, 8, 3, padding=1)", "nn.Conv3DTranspose(6, 8, 2, 2)"),
    *_each(ROWS, "nn.PReLU()"), *_each(IMAGE, "nn.PReLU(6)"),
]  # fmt: skip
NORMS = [
    *_each(FLAT, "nn.BatchNorm1D(64)", "nn.BatchNorm(64)"),
    *_each(LINE, "nn.BatchNorm1D(6)", "nn.InstanceNorm1D(6)"),
    *_each(IMAGE, "nn.BatchNorm2D(6)", "nn.BatchNorm2D(6, weight_attr=False, bias_attr=False)",
           "nn.BatchNorm2D(6, use_global_stats=True)", "nn.BatchNorm(6, act='relu')",
           "nn.InstanceNorm2D(6)", "nn.InstanceNorm2D(6, weight_attr=False, bias_attr=False)",
           "nn.GroupNorm(3, 6)", "nn.GroupNorm(3, 6, weight_attr=False, bias_attr=False)",
           "nn.LayerNorm([6, 20, 24])", "nn.LocalResponseNorm(5)"),
    LayerCase("nn.BatchNorm2D(6, data_format='NHWC')", "x=f(N,20,24,6)"),
    *_each(CUBE, "nn.BatchNorm3D(6)", "nn.InstanceNorm3D(6)"),
    *_each(ROWS, "nn.LayerNorm(64)", "nn.LayerNorm(64, weight_attr=False, bias_attr=False)",
           "nn.LayerNorm(64, bias_attr=False)"),
    LayerCase("nn.SpectralNorm([16, 54], 0, 2)", "x=f(16,54)"),
    LayerCase("nn.utils.spectral_norm(nn.Linear(64, 48))", ROWS),
    LayerCase("nn.utils.weight_norm(nn.Linear(64, 48))", ROWS),
    LayerCase("nn.utils.weight_norm(nn.Conv2D(6, 16, 3))", IMAGE),
]  # fmt: skip
POOLS = [
    *_each(LINE, "nn.MaxPool1D(2, 2)", "nn.AvgPool1D(3, 2, 1)", "nn.AdaptiveAvgPool1D(5)",
           "nn.AdaptiveMaxPool1D(5)"),
    *_each(IMAGE, "nn.MaxPool2D(2)", "nn.MaxPool2D(3, 2, 1, ceil_mode=True)", "nn.AvgPool2D(2, 2)",
           "nn.AvgPool2D(3, 2, 1, exclusive=False)", "nn.AdaptiveAvgPool2D(1)",
           "nn.AdaptiveAvgPool2D((5, None))", "nn.AdaptiveMaxPool2D(4)",
           "nn.LPPool2D(2, 2)", "nn.Pad2D(2)", "nn.Pad2D([1, 2, 3, 4], mode='reflect')",
           "nn.ZeroPad2D([1, 0, 1, 0])", "nn.Upsample(scale_factor=2)",
           "nn.Upsample(size=[40, 50], mode='bilinear')", "nn.UpsamplingBilinear2D(scale_factor=2)",
           "nn.UpsamplingNearest2D(size=[30, 30])", "nn.PixelUnshuffle(2)", "nn.ChannelShuffle(3)",
           "nn.Unfold([3, 3], 2, 1)", "nn.Flatten()", "nn.Flatten(2)", "nn.Identity()",
           "nn.Dropout(0.3)", "nn.Dropout2D(0.3)", "nn.AlphaDropout(0.3)", "nn.Softmax2D()",
           "nn.Dropout(0)", "nn.Maxout(3)", "nn.GLU(1)"),
    LayerCase("nn.PixelShuffle(2)", "x=f(N,8,10,12)"),
    LayerCase("nn.Fold([20, 24], [2, 2], strides=2)", "x=f(N,24,120)"),
    LayerCase("nn.Unflatten(1, [2, 3])", IMAGE),
    *_each(LINE, "nn.Pad1D([1, 2])",
           "nn.Upsample(scale_factor=2, mode='linear', data_format='NCW')",
           "nn.ZeroPad1D(2)"),
    *_each(CUBE, "nn.MaxPool3D(2)", "nn.AvgPool3D(2)", "nn.AdaptiveAvgPool3D(2)", "nn.Pad3D(1)",
           "nn.Dropout3D(0.3)"),
    LayerCase("nn.MaxPool2D(2, return_mask=True)", IMAGE, loss="y[0]"),
    LayerCase("nn.MaxUnPool2D(2)", "x=f(N,6,20,24)", "net(*F.max_pool2d(x, 2, return_mask=True))"),
]  # fmt: skip
ACTIVATIONS = _each(
    ROWS,
    *(f"nn.{name}()" for name in _words(
        "ReLU ReLU6 Sigmoid Tanh GELU Silu Swish Mish Hardswish Hardsigmoid "
        "Hardtanh LeakyReLU ELU SELU CELU Softplus Softsign Softshrink Hardshrink "
        "Tanhshrink ThresholdedReLU LogSigmoid Softmax LogSoftmax RReLU"
    )),
    "nn.GELU(approximate=True)", "nn.Softmax(axis=1)", "nn.LeakyReLU(0.2)",
)  # fmt: skip
PAIR = "x=f(N,64) z=f(N,64)"
LOSSES = [
    *(LayerCase(f"nn.{name}()", "x=f(N,64) z=c(N,64)", "net(x, z)") for name in _words(
        "MSELoss L1Loss SmoothL1Loss BCEWithLogitsLoss KLDivLoss PoissonNLLLoss "
        "SoftMarginLoss MultiLabelSoftMarginLoss HingeEmbeddingLoss"
    )),
    LayerCase("nn.BCELoss()", "x=f(N,64) z=c(N,64)", "net(F.sigmoid(x), z)"),
    *(LayerCase(f"nn.{name}()", "x=f(N,64) z=i(N,<64)", "net(x, z)") for name in _words(
        "CrossEntropyLoss NLLLoss MultiMarginLoss"
    )),
    LayerCase("nn.CrossEntropyLoss(reduction='none')", "x=f(N,64) z=i(N,<64)", "net(x, z)"),
    LayerCase("nn.CrossEntropyLoss(ignore_index=0)", "x=f(N,17,64) z=i(N,17,<64)", "net(x, z)"),
    LayerCase("nn.CrossEntropyLoss(weight=paddle.ones([64]))", "x=f(N,64) z=i(N,<64)", "net(x, z)"),
    LayerCase("nn.CrossEntropyLoss(soft_label=True)", "x=f(N,64) z=c(N,64)", "net(x, z)"),
    LayerCase("nn.CrossEntropyLoss(axis=1)", "x=f(N,9,8,8) z=i(N,8,8,<9)", "net(x, z)"),
    LayerCase("nn.MSELoss(reduction='sum')", "x=f(N,64) z=c(N,64)", "net(x, z)"),
    LayerCase("nn.MarginRankingLoss()", "x=f(N,64) z=f(N,64) t=c(N,64)", "net(x, z, t)"),
    LayerCase("nn.CosineEmbeddingLoss()", "x=f(N,64) z=f(N,64) t=i(N,<2)", "net(x, z, t * 2 - 1)"),
    LayerCase("nn.TripletMarginLoss()", "x=f(N,64) z=f(N,64) t=f(N,64)", "net(x, z, t)"),
    LayerCase("nn.GaussianNLLLoss()", "x=f(N,64) z=c(N,64) t=c(N,64)", "net(x, z, t + 0.1)"),
    LayerCase("nn.CTCLoss()", "x=f(30,N,20) z=i(N,8,<19)",
              "net(x, z.astype('int32'), paddle.full([N], 30, 'int64'), "
              "paddle.full([N], 8, 'int64'))"),
    LayerCase("nn.CosineSimilarity(axis=1)", PAIR, "net(x, z)"),
    LayerCase("nn.PairwiseDistance()", PAIR, "net(x, z)"),
]  # fmt: skip
CONTAINERS = [
    LayerCase("nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64))", ROWS),
    LayerCase("nn.Sequential(('a', nn.Linear(64, 32)), ('b', nn.ReLU()))", ROWS, "net[0](x)"),
    LayerCase("nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))", ROWS, "net[:2](x)"),
    LayerCase("nn.LayerList([nn.Linear(64, 64) for _ in range(3)])", ROWS, "net[-1](net[0](x))"),
    LayerCase("nn.LayerDict({'a': nn.Linear(64, 64), 'b': nn.ReLU()})", ROWS,
              "net['b'](net['a'](x))"),
    LayerCase("nn.ParameterList([paddle.create_parameter([64, 9], 'float32')])", ROWS,
              "paddle.matmul(x, net[0])"),
]  # fmt: skip
STEPS = "x=f(N,17,24)"
RECURRENT = [
    *(LayerCase(f"nn.{kind}(24, 32{more})", STEPS, loss="y[0]")
      for kind in ("LSTM", "GRU", "SimpleRNN")
      for more in ("", ", num_layers=2", ", direction='bidirect'",
                   ", num_layers=2, direction='bidirect', dropout=0.2", ", time_major=True",
                   ", num_layers=3")),
    *(LayerCase(f"nn.{kind}Cell(24, 32)", "x=f(N,24)", loss="y[0]")
      for kind in ("LSTM", "GRU", "SimpleRNN")),
    *(LayerCase(f"nn.RNN(nn.{kind}Cell(24, 32))", STEPS, loss="y[0]")
      for kind in ("LSTM", "GRU", "SimpleRNN")),
    LayerCase("nn.BiRNN(nn.GRUCell(24, 32), nn.GRUCell(24, 32))", STEPS, loss="y[0]"),
    LayerCase("nn.LSTM(24, 32)", STEPS, "net(x)[1][0]"),
    LayerCase("nn.LSTM(24, 32, num_layers=2, proj_size=8)", STEPS, "net(x)[0]"),
    LayerCase("nn.LSTM(24, 32, direction='bidirect', proj_size=8)", STEPS, "net(x)[0]"),
    LayerCase("nn.LSTM(24, 32)", "x=f(N,17,24) n=i(N,<17)",
              "net(x, sequence_length=n + 1)", "y[0]"),
    LayerCase("nn.GRU(24, 32)", "x=f(N,17,24) h=f(1,N,32)", "net(x, h)", "y[0]"),
    *(LayerCase(f"nn.{kind}(300, 32{more})", f"x={letter}(N,17,300)", loss="y[0]")
      for kind in ("LSTM", "GRU", "SimpleRNN") for letter in "fc"
      for more in ("", ", num_layers=2", ", direction='bidirect'", ", num_layers=4")),
    *(LayerCase(f"nn.{kind}Cell(24, 32, bias_ih_attr=False)", "x=f(N,24)", loss="y[0]")
      for kind in ("LSTM", "GRU", "SimpleRNN")),
]  # fmt: skip
SEQUENCE = "x=f(N,17,32)"
TRANSFORMERS = [
    LayerCase("nn.MultiHeadAttention(32, 4)", SEQUENCE),
    LayerCase("nn.MultiHeadAttention(32, 4, dropout=0.1)", "x=f(N,17,32) z=f(N,9,32)",
              "net(x, z, z)"),
    LayerCase("nn.MultiHeadAttention(32, 4, kdim=24, vdim=24, need_weights=True)",
              "x=f(N,17,32) z=f(N,9,24)", "net(x, z, z)", "y[0]"),
    LayerCase("nn.MultiHeadAttention(32, 4)", "x=f(N,17,32) m=c(N,1,17,17)",
              "net(x, x, x, attn_mask=m)"),
    LayerCase("nn.MultiHeadAttention(32, 4)", "x=f(N,17,32) m=b(N,1,17,17)",
              "net(x, x, x, attn_mask=m)"),
    *(LayerCase(f"nn.TransformerEncoderLayer(32, 4, 64{more})", SEQUENCE) for more in (
        "", ", dropout=0.0", ", activation='gelu'", ", normalize_before=True",
        ", attn_dropout=0.0, act_dropout=0.0")),
    LayerCase("nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64), 3)", SEQUENCE),
    LayerCase("nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64), 2, nn.LayerNorm(32))",
              "x=f(N,17,32) m=c(17,17)", "net(x, m)"),
    LayerCase("nn.TransformerDecoderLayer(32, 4, 64)", "x=f(N,17,32) z=f(N,9,32)", "net(x, z)"),
    LayerCase("nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 64), 2)",
              "x=f(N,17,32) z=f(N,9,32)",
              "net(x, z, nn.Transformer(32, 4, 1, 1, 64).generate_square_subsequent_mask(17))"),
    LayerCase("nn.Transformer(32, 4, 2, 2, 64)", "x=f(N,17,32) z=f(N,9,32)", "net(x, z)"),
]  # fmt: skip
FAMILIES = {
    "weighted": WEIGHTED, "norms": NORMS, "pools": POOLS, "activations": ACTIVATIONS,
    "losses": LOSSES, "containers": CONTAINERS, "recurrent": RECURRENT,
    "transformers": TRANSFORMERS,
}  # fmt: skip
MODELS = {
    "LeNet()": (1, 28), "alexnet(num_classes=10)": (3, 224), "vgg11(num_classes=10)": (3, 32),
    "vgg13(num_classes=0)": (3, 64),
    "vgg19(num_classes=0, with_pool=False)": (3, 64), "resnet18()": (3, 64), "resnet34()": (3, 64),
    "resnet50(num_classes=7)": (3, 64), "resnet101(with_pool=False, num_classes=0)": (3, 64),
    "resnext50_32x4d()": (3, 64),
    "wide_resnet50_2()": (3, 64), "densenet121()": (3, 64),
    "densenet201()": (3, 64), "mobilenet_v1(scale=0.5)": (3, 64), "mobilenet_v2()": (3, 64),
    "mobilenet_v2(scale=0.75, num_classes=0)": (3, 64), "mobilenet_v3_small()": (3, 64),
    "mobilenet_v3_large(scale=1.25)": (3, 64), "shufflenet_v2_x0_25()": (3, 64),
    "shufflenet_v2_x1_0()": (3, 64), "shufflenet_v2_swish()": (3, 64),
    "squeezenet1_0(num_classes=10)": (3, 64), "squeezenet1_1()": (3, 64),
    "googlenet()": (3, 224), "inception_v3()": (3, 96),
}  # fmt: skip
