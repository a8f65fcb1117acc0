"""Shapes of what tokenizers and raw files give."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.preflight.interpreter.domain.values import Unknown
from tests.preflight.modelled import modelled

TOKENIZER = """
from paddlenlp.transformers import BertTokenizer
tokenizer = BertTokenizer.from_pretrained("bert-base-uncased")
how = dict(max_length=16, padding="max_length", truncation=True)
x = {written}
"""


@pytest.mark.parametrize(
    ("written", "shape"),
    [
        ("tokenizer('a', **how)['input_ids']", (16,)),
        ("tokenizer('a', return_tensors='pd', **how)['input_ids']", (1, 16)),
        ("tokenizer('a', return_tensors='pd', **how)['input_ids'].squeeze(0)", (16,)),
        ("tokenizer(['a', 'b'], return_tensors='pd', **how)['input_ids']", (2, 16)),
        ("tokenizer(['a', 'b'], return_tensors='np', **how)['input_ids']", (2, 16)),
        ("tokenizer(['a', 'b'], **how)['input_ids']", (2, 16)),
    ],
)
def test_ids_have_a_row_for_each_text(written: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    names = modelled(tmp_path / "script.py", TOKENIZER.format(written=written))
    assert tuple(names["x"].shape) == shape


def test_parts_of_a_text_are_filled_up_to_a_length(tmp_path: Path) -> None:
    written = "tokenizer.convert_tokens_to_ids(tokenizer.tokenize('a b'))"
    text = TOKENIZER.format(written=written) + "y = len(x + [0] * (16 - len(x)))\n"
    assert modelled(tmp_path / "script.py", text)["y"] == 16


@pytest.mark.parametrize(
    ("written", "shape"), [("np.fromfile('x.data', sep=' ')", (6,)),
                           ("np.fromfile('x.bin', dtype='float32')", (3,)),
                           ("np.fromfile('none.bin', 'float32', 5)", (5,))],
)  # fmt: skip
def test_a_raw_file_is_a_row_of_its_numbers(
    written: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "x.data").write_text("1 2 3\n4 5 6\n")
    (tmp_path / "x.bin").write_bytes(bytes(12))
    names = modelled(tmp_path / "script.py", f"import numpy as np\nx = {written}\n")
    assert tuple(names["x"].shape) == shape


def test_transforms_that_are_added_later_are_applied(tmp_path: Path) -> None:
    text = """
from PIL import Image
from paddle.vision import transforms as T
change = T.Compose([])
change.transforms.append(T.Resize((16, 8)))
change.transforms.append(T.ToTensor())
x = change(Image.new("RGB", (32, 32)))
"""
    assert tuple(modelled(tmp_path / "script.py", text)["x"].shape) == (3, 16, 8)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("ErnieModel", "ernie-1.0"), ("ErnieGramModel", "ernie-gram-zh"),
        ("BertForSequenceClassification", "bert-base-chinese"), ("GPTLMHeadModel", "gpt2-en"),
    ],
)  # fmt: skip
def test_a_pretrained_model_s_configuration_has_its_sizes_and_the_rest_is_not_known(
    tmp_path: Path, model: str, name: str
) -> None:
    text = f"""
from paddlenlp.transformers import {model}
config = {model}.from_pretrained({name!r}).config
by_key, by_name = config["hidden_size"], config.num_attention_heads
has, padding, default = "vocab_size" in config, config["pad_token_id"], config.get("rate", 1)
"""
    names = modelled(tmp_path / "script.py", text)
    assert (names["by_key"], names["by_name"], names["has"]) == (768, 12, True)
    assert isinstance(names["padding"], Unknown)
    assert isinstance(names["default"], Unknown)
    assert "'pad_token_id' of a pretrained model's configuration" in names["padding"].reason
