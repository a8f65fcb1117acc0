"""`paddlenlp`: pretrained language models by name, tokenizers, collation, data sets."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, TypedDict

from gpuconsole.preflight.interpreter.domain import exposed, lengths
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Bound,
    Length,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    SomeInt,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.io.dataset import Library
from gpuconsole.preflight.interpreter.paddle.source_modules import Written
from gpuconsole.preflight.interpreter.paddle.training.metrics import Quiet

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

_CLASS = re.compile(
    r"(?:AutoModel|(?:Auto|Bert|Ernie\w*?|Roberta|Electra|Albert|DistilBert|PPMiniLM|TinyBert|UIE"
    r"|GPT|T5|Llama|Skep))(Model|PretrainedModel|For\w+|LMHeadModel)?"
)
_HEADS = {
    "LMHeadModel": "ForMaskedLM", "ForCausalLM": "ForMaskedLM", "ForPretraining": "ForMaskedLM",
    "ForConditionalGeneration": "ForMaskedLM", "ForGeneration": "ForMaskedLM",
}  # fmt: skip
"""Classes that delegate their work to another."""
CLASSES = {
    "chnsenticorp": 2, "lcqmc": 2, "bq_corpus": 2, "paws-x": 2, "afqmc": 2, "csl": 2,
    "cluewsc2020": 2, "tnews": 15, "iflytek": 119, "ocnli": 3, "cmnli": 3, "xnli": 3, "xnli_cn": 3,
    "nlpcc14-sc": 2, "imdb": 2, "sst-2": 2, "cola": 2, "mrpc": 2, "qqp": 2, "qnli": 2, "rte": 2,
    "wnli": 2, "mnli": 3, "msra_ner": 7, "peoples_daily_ner": 7, "thucnews": 14,
}  # fmt: skip
"""Classes of data sets that are loaded by name, as their publishers say."""
_SUFFIXES = ("-zh", "-en", "-cn", "-uncased", "-chinese", "-discriminator", "-v1", "-v2")


class Model(TypedDict, total=False):
    """A language model: its sizes, and what its layers are made of."""

    kind: str
    prefix: str
    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    types: int
    tasks: int
    embedding: int
    groups: int
    parameters: float
    """In millions."""
    activation: str
    pooler: bool
    shared: bool
    source: str


@lru_cache(maxsize=1)
def known_models() -> dict[str, Model]:
    """Return the sizes of language models by name."""
    text = resources.files("gpuconsole").joinpath("data/models.json").read_text("utf-8")
    rows: dict[str, Model] = json.loads(text)["models"]
    return {name: row for names, row in rows.items() for name in names.split()}


def find_model(name: str) -> Model | None:
    """Return a model's row; case, `_`, an owner before `/`, and usual endings are forgiven."""
    key = name.strip().lower().replace("_", "-").rsplit("/", 1)[-1]
    table = known_models()
    for candidate in (key, f"{key}-base"):
        if candidate in table:
            return table[candidate]
    for suffix in _SUFFIXES:
        if key.endswith(suffix):
            return find_model(key.removesuffix(suffix))
    parts = key.rsplit("-", 1)
    if len(parts) == 2 and parts[1] in ("base", "large"):
        # `ernie-base` is the first of its size.
        return next((table[candidate] for candidate in table if candidate.startswith(f"{parts[0]}-")
                     and candidate.endswith(f"-{parts[1]}")), None)  # fmt: skip
    return None


def _facts(run: Run, name: Value) -> Value:
    facts = find_model(name) if isinstance(name, str) else None
    if facts is not None:
        return dict(facts)
    reason = f"the pretrained model {name!r}" if isinstance(name, str) else "a pretrained model"
    unknown = first_unknown(name) or run.unknown(f"{reason} is not in the table of models")
    run.block(unknown)
    return unknown


def _unknown_setting(run: Run, name: Value) -> Value:
    which = f"{name!r}" if isinstance(name, str) else "a part"
    return run.unknown(f"{which} of a pretrained model's configuration", first_unknown(name))


class Transformers(Written):
    """`paddlenlp.transformers`: a class of every family by the kind of its head."""

    __slots__ = ()

    def find(self, name: str) -> Value:
        """Return a class, made of the common ones where it is a family's."""
        member = super().find(name)
        if member is not MISSING:
            return member
        if name.endswith(("Tokenizer", "TokenizerFast")):
            return NativeClass(Tokenizer, name)
        match = _CLASS.fullmatch(name)
        if match is None:
            return MISSING
        kind = match[1] or "Model"
        return super().find(_HEADS.get(kind, kind))


class Tokenizer(Native):
    """A tokenizer: ids of at most the asked length; how many there are is in the data."""

    label = "Tokenizer"

    def __init__(self) -> None:
        super().__init__()
        self.model = ""

    @staticmethod
    @exposed.static("from_pretrained")
    def static_from_pretrained(run: Run, name: Value = "", *_: Value, **__: Value) -> Value:
        """Make the tokenizer of a model."""
        tokenizer = Tokenizer()
        tokenizer.model = name if isinstance(name, str) else ""
        return tokenizer

    @exposed.prop("vocab_size")
    def get_vocab_size(self, run: Run) -> Value:
        """Give the size of the vocabulary."""
        row = find_model(self.model)
        return row["vocabulary"] if row else run.unknown(f"the vocabulary of {self.model}")

    @exposed.prop(
        "pad_token_id", "pad_token_type_id", "cls_token_id", "sep_token_id", "mask_token_id",
    )  # fmt: skip
    def get_pad_token_id(self, run: Run) -> Value:
        """Give the id of padding."""
        return 0

    def count(self, interp: Interpreter) -> Value:
        """Return the size of the vocabulary."""
        return self.get_vocab_size(interp.run)

    def call(self, interp: Interpreter, text: Value = None, text_pair: Value = None,
             max_length: Value = None, *_: Value, max_seq_len: Value = None, padding: Value = False,
             pad_to_max_seq_len: Value = False, return_attention_mask: Value = False,
             return_length: Value = False, return_tensors: Value = None,
             **__: Value) -> Value:  # fmt: skip
        """Give the ids of a text; texts are as long as is allowed, for a safe bound."""
        run: Run = interp.run
        length = max_length if max_length is not None else max_seq_len
        if not isinstance(length, int):
            return run.unknown("the longest text: the tokenizer is given no max_seq_len", length)
        if padding != "max_length" and pad_to_max_seq_len is not True:
            run.findings.flags.add("variable-shape")
        names = ["input_ids", "token_type_ids"]
        names += ["attention_mask"] if return_attention_mask is True else []
        rows = _rows(text)
        if isinstance(rows, int) and rows < 0:
            return run.unknown("how many texts a tokenizer is given", text)
        shape = (length,) if rows is None else (rows, length)
        if isinstance(return_tensors, str):
            batch: dict[str, Value] = {
                name: _returned(run, return_tensors, shape if rows is not None else (1, length))
                for name in names
            }
        else:
            batch = {name: Array(shape, "int64") for name in names}
        if return_length is True:
            batch["seq_len"] = length
        return batch

    @exposed.method("tokenize")
    def do_tokenize(self, run: Run, text: Value = None, *_: Value, **__: Value) -> Value:
        """Give the parts of a text: how many is in the data."""
        part = run.unknown("a part of a text", text)
        return lengths.opened(part, lengths.some(run, "how many parts a text has"))

    @exposed.method("convert_tokens_to_ids")
    def do_convert_tokens_to_ids(self, run: Run, tokens: Value = None, *_: Value) -> Value:
        """Give a number for each part of a text."""
        token = SomeInt(run.file, run.line, "a part of a text")
        if isinstance(tokens, (list, tuple)):
            return lengths.opened(token, lengths.length_of(tokens))
        return token if isinstance(tokens, str) else run.unknown("the parts of a text", tokens)

    @exposed.method("encode", "batch_encode")
    def do_encode(self, run: Run, *args: Value, **kwargs: Value) -> Value:
        """Give the ids of a text."""
        return self.call(run.interp, *args, **kwargs)

    @exposed.method("save_pretrained")
    def do_save_pretrained(self, run: Run, *_: Value) -> None:
        """Write nothing."""


def _rows(text: Value) -> int | None:
    """Return how many texts a tokenizer is given: None for a single one, -1 where not known.

    What an unknown item of data holds is taken to be one text.
    """
    if not isinstance(text, (list, tuple)):
        return None
    count = lengths.length_of(text)
    return Bound.of(count) if isinstance(count, Length) else count if isinstance(count, int) else -1


def _returned(run: Run, kind: str, shape: tuple[int, ...]) -> Value:
    """Return ids as the tensors of Paddle, or the arrays, that `return_tensors` asks for."""
    return run.tensor(shape, "int64", "inputs") if kind == "pd" else Array(shape, "int64")


class TextData(Library):
    """A data set of texts: unknown rows, of columns the script knows."""

    label = "data set of texts"

    def __init__(self) -> None:
        super().__init__()
        self.maps: list[Value] = []
        self.names: tuple[str, ...] = ()

    @exposed.method("map")
    def do_map(self, run: Run, function: Value, *_: Value, **__: Value) -> Value:
        """Keep what is done to each row."""
        self.maps.append(function)
        return self

    @exposed.prop("label_list")
    def get_label_list(self, run: Run) -> Value:
        """Give the classes."""
        count = next((CLASSES[name] for name in self.names if name in CLASSES), None)
        if count is None:
            return run.unknown("the classes of the data set")
        return [str(place) for place in range(count)]

    def sample(self, interp: Interpreter) -> Value:
        """Return one row after the script's changes."""
        value: Value = Row()
        for function in self.maps:
            value = interp.call(function, [value], {})
        return value


class Row(Native):
    """One row of a data set: every column is there, none is known."""

    label = "row"

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give a column: labels are whole numbers."""
        run: Run = interp.run
        if isinstance(key, str) and "label" in key:
            return SomeInt(run.file, run.line, "a label of the data set")
        return run.unknown(f"the column {key} of the data set")

    def contains(self, key: Value) -> bool:
        """Tell whether there is such a column: assumed."""
        return True


def _load_dataset(run: Run, *names: Value, name: Value = None, splits: Value = None,
                  **__: Value) -> Value:  # fmt: skip
    columns = tuple(word.lower() for word in (*names, name) if isinstance(word, str))

    def made() -> TextData:
        data = TextData()
        data.names = columns
        return data

    return [made() for _ in splits] if isinstance(splits, (list, tuple)) else made()


def paddlenlp(run: Run) -> Namespace:
    """Return `paddlenlp` for a run."""
    schedules = run.interp.imports.library("paddle.optimizer.lr")
    schedule = None if schedules is None else schedules.find("LRScheduler")
    names = {
        "_facts": NativeFunction(_facts, "_facts"),
        "_unknown_setting": NativeFunction(_unknown_setting, "_unknown_setting"),
        "LinearDecayWithWarmup": schedule, "CosineDecayWithWarmup": schedule,
    }  # fmt: skip
    return Namespace("paddlenlp", {
        "transformers": Transformers(run, "paddlenlp.transformers", "nlp", names),
        "data": Written(run, "paddlenlp.data", "nlp_data"),
        "datasets": Namespace("paddlenlp.datasets", {
            "load_dataset": NativeFunction(_load_dataset, "load_dataset"),
            "MapDataset": NativeClass(TextData, "MapDataset"),
        }),
        "metrics": Namespace("paddlenlp.metrics", {
            name: NativeClass(Quiet, name) for name in ("ChunkEvaluator", "AccuracyAndF1", "Mcc",
                                                        "PearsonAndSpearman", "Perplexity")
        }),
        "__version__": "2.6.0",
    })  # fmt: skip
