"""Vision and language models by name: their sizes, and what scripts do with them."""

from __future__ import annotations

import pytest

from gpuconsole.preflight.interpreter.libraries.paddlenlp import find_model, known_models
from tests.preflight.interpreter.paddle.test_layers import follow, known

VISION = {
    "resnet34": 21.80, "resnet101": 44.55, "resnet152": 60.19, "resnext50_32x4d": 25.03,
    "wide_resnet50_2": 68.88, "densenet121": 7.98, "densenet161": 28.68, "densenet169": 14.15,
    "densenet201": 20.01, "squeezenet1_0": 1.248, "squeezenet1_1": 1.235,
    "shufflenet_v2_x1_0": 2.279, "inception_v3": 23.83, "vgg11": 132.86, "vgg19": 143.67,
    "alexnet": 61.10, "mobilenet_v3_small": 2.54,
}  # fmt: skip
"""Millions of trained parameters as published."""


@pytest.mark.parametrize(("name", "millions"), VISION.items())
def test_vision_models_have_their_published_size(name: str, millions: float) -> None:
    net = known(f"from paddle.vision.models import {name}\nnet = {name}(pretrained=True)")["net"]
    count = sum(one.size for _, one in net.parameters() if one.trainable)
    assert count / 1e6 == pytest.approx(millions, rel=0.005)


def published() -> list[str]:
    return [name for name, row in known_models().items() if "parameters" in row]


@pytest.mark.parametrize("name", published())
def test_language_models_have_their_published_size(name: str) -> None:
    text = (
        f"from paddlenlp.transformers import AutoModel\nnet = AutoModel.from_pretrained('{name}')"
    )
    net = known(text)["net"]
    count = sum(one.size for _, one in net.parameters())
    assert count / 1e6 == pytest.approx(known_models()[name]["parameters"], rel=0.02)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("ERNIE_Gram_zh", "ernie-gram"), ("bert-base-uncased", "bert-base"), ("ernie-base",
     "ernie-1.0-base"), ("hfl/roberta-wwm-ext", "roberta-wwm-ext"), ("gpt2-en", "gpt2"),
     ("ernie-3.0-medium-zh", "ernie-3.0-medium"), ("ernie-large", "ernie-2.0-large")],
)  # fmt: skip
def test_model_names_are_forgiven(written: str, meant: str) -> None:
    assert find_model(written) is known_models()[meant]
    assert find_model("nobody-knows-base") is None


def test_heads_are_replaced_and_features_taken() -> None:
    names = known("""
    from paddle.vision.models import resnet18, vgg11, mobilenet_v2, googlenet
    net = resnet18()
    net.fc = nn.Linear(net.fc.weight.shape[0], 7)
    for name, one in net.named_parameters():
        if not name.startswith("fc"):
            one.stop_gradient = True
    left = [name for name, one in net.named_parameters() if not one.stop_gradient]
    x = paddle.rand([2, 3, 64, 64])
    classes = net(x).shape
    body = nn.Sequential(*list(net.children())[:-2])
    features = body(x).shape
    plain = vgg11(num_classes=10)
    plain.classifier[6] = nn.Linear(4096, 3)
    three = plain(paddle.rand([2, 3, 32, 32])).shape
    bare = mobilenet_v2(scale=0.5, num_classes=0, with_pool=False)(x).shape
    many = [one.shape for one in googlenet(num_classes=4)(paddle.rand([2, 3, 224, 224]))]
    picked = paddle.vision.models.__dict__["resnet34"](num_classes=5)(x).shape
    """)
    assert names["left"] == ["fc.weight", "fc.bias"]
    assert (names["classes"], names["features"]) == ([2, 7], [2, 512, 2, 2])
    assert (names["three"], names["bare"]) == ([2, 3], [2, 1280, 2, 2])
    assert (names["many"], names["picked"]) == ([[2, 4]] * 3, [2, 5])


def test_own_nets_derive_from_blocks_of_the_library() -> None:
    names = known("""
    from paddle.vision.models.resnet import BasicBlock, ResNet

    class Quiet(BasicBlock):
        def forward(self, x):
            return super().forward(x) * 0.5

    out = ResNet(Quiet, 18, num_classes=3)(paddle.rand([1, 3, 32, 32])).shape
    """)
    assert names["out"] == [1, 3]


@pytest.mark.parametrize(
    ("head", "shape"),
    [
        ("ErnieForSequenceClassification.from_pretrained('ernie-3.0-nano-zh', num_classes=5)(ids)",
         [2, 5]),
        ("BertForTokenClassification.from_pretrained('tinybert-4l-312d', num_labels=9)(ids)",
         [2, 16, 9]),
        ("AutoModelForQuestionAnswering.from_pretrained('ernie-3.0-nano-zh')(ids)[0]", [2, 16]),
        ("ErnieForMaskedLM.from_pretrained('ernie-3.0-nano-zh')(ids)", [2, 16, 40000]),
        ("ErnieModel.from_pretrained('ernie-3.0-nano-zh')(ids)[1]", [2, 312]),
        ("T5ForConditionalGeneration.from_pretrained('t5-small')(ids)", [2, 16, 32128]),
    ],
)  # fmt: skip
def test_language_heads(head: str, shape: list[int]) -> None:
    kind = head.split(".")[0]
    names = known(f"""
    from paddlenlp.transformers import {kind}
    ids = paddle.zeros([2, 16], "int64")
    shape = {head}.shape
    """)
    assert names["shape"] == shape


def test_an_unknown_pretrained_model_is_said() -> None:
    _, run = follow("""
    from paddlenlp.transformers import AutoModel
    net = AutoModel.from_pretrained("nobody/knows-this")
    """)
    assert run.findings.blocking is not None
    assert "nobody/knows-this" in run.findings.blocking.reason


def test_tokenizers_give_the_longest_allowed() -> None:
    names, run = follow("""
    from paddlenlp.transformers import ErnieTokenizer
    tokenizer = ErnieTokenizer.from_pretrained("ernie-1.0")
    fixed = tokenizer("text", max_seq_len=48, pad_to_max_seq_len=True)["input_ids"].shape
    size = len(tokenizer)
    """)
    assert (names["fixed"], names["size"]) == ((48,), 18000)
    assert run.findings.flags == set()
    _, run = follow("""
    from paddlenlp.transformers import ErnieTokenizer
    ids = ErnieTokenizer.from_pretrained("ernie-1.0")("text", max_length=48)
    """)
    assert run.findings.flags == {"variable-shape"}
