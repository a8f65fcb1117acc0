"""What is read in logs of training scripts, and what is not.

The lines are made in the forms in which the suites write them.
"""

from __future__ import annotations

import math
import re

import pytest

from gpuconsole.core.training.log import (
    LONGEST_LINE,
    Progress,
    Reading,
    Template,
    TrainingReader,
    progress,
)


def read(*lines: str) -> Reading | None:
    """Return what the last of these lines reports."""
    reader = TrainingReader()
    return [reader.read(line) for line in lines][-1]


PLAIN = {
    "epoch 3 step 20 loss: 0.123 acc=0.9": Reading({"loss": 0.123, "acc": 0.9}, 3, 20),
    "Epoch 3/10, loss 0.123": Reading({"loss": 0.123}, 3),
    "epoch: 1, batch_id: 20, loss is: [0.5], acc is: [0.9]": Reading(
        {"loss": 0.5, "acc": 0.9}, 1, 20
    ),
    "step 10/1000: train loss 1.5e-3 lr: 0.1": Reading({"loss": 1.5e-3, "lr": 0.1}, None, 10, 1000),
    "train_loss=0.5 val_loss=0.6": Reading({"loss": 0.5, "val_loss": 0.6}),
    "Epoch 3: train loss 0.5 | val loss 0.6": Reading({"loss": 0.5, "val_loss": 0.6}, 3),
    "eval loss: 0.5, accuracy: 0.7": Reading({"val_loss": 0.5, "val_accuracy": 0.7}),
    "{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': 1.5}": Reading({"loss": 0.5, "lr": 1e-5}, 1.5),
    "Iter 100: loss = inf": Reading({"loss": math.inf}, None, 100),
    "Epoch 3/10 Loss 0.5 Acc 0.6 (best 0.7)": Reading({"loss": 0.5, "acc": 0.6}, 3),
    "epoch=1 loss=tensor(0.5) acc=[[0.25]]": Reading({"loss": 0.5, "acc": 0.25}, 1),
    "[Epoch 1, batch 300] loss: 0.5": Reading({"loss": 0.5}, 1, 300),
    "Step 100 | loss 0.5 | lr 1e-4 | 12.5 it/s": Reading({"step_s": 0.08, "loss": 0.5}, None, 100),
    "2030-01-31 10:00:00,123 - train - INFO - Epoch 3 Iter 20 loss=0.5": Reading(
        {"loss": 0.5}, 3, 20
    ),
    "loss: 0.25": Reading({"loss": 0.25}),
}


@pytest.mark.parametrize("line", PLAIN)
def test_plain_prints_are_read(line: str) -> None:
    assert read(line) == PLAIN[line]


def test_what_model_fit_prints_is_read_and_its_evaluation_told_from_its_training() -> None:
    reader = TrainingReader()
    lines = [
        "Epoch 2/3",
        "step  10/100 [=>..................] - loss: 0.7345 - acc: 0.5 - ETA: 5s - 25ms/step",
        "step 100/100 [====================] - loss: 0.3 - acc: 0.8 - 25ms/step          ",
        "Eval begin...",
        "step  5/10 [==============>...............] - loss: 0.9 - acc: 0.1 - 5ms/step",
        "step 10/10 [==============================] - loss: 0.4 - acc: 0.7 - 5ms/step",
        "Eval samples: 100",
        "step 1/100 - loss: 0.2000 - acc: 0.9000 - 1s/step",
    ]  # fmt: skip
    assert [reader.read(line) for line in lines] == [
        Reading({}, 2),
        Reading({"step_s": 0.025, "loss": 0.7345, "acc": 0.5}, 2, 10, 100),
        Reading({"step_s": 0.025, "loss": 0.3, "acc": 0.8}, 2, 100, 100),
        None,
        None,
        Reading({"val_loss": 0.4, "val_acc": 0.7}, 2),
        None,
        Reading({"step_s": 1.0, "loss": 0.2, "acc": 0.9}, 2, 1, 100),
    ]


def test_paddleclas() -> None:
    train = read(
        "[2030/01/31 10:00:00] ppcls INFO: [Train][Epoch 1/20][Iter: 5/15]lr(LinearWarmup): 0.0001,"
        " top1: 0.25000, top5: 0.50000, CELoss: 5.1, loss: 5.1, batch_cost: 0.80000s, reader_cost:"
        " 0.30000, ips: 15.00000 samples/s, eta: 0:01:00"
    )
    assert train is not None
    assert (train.epoch, train.step, train.steps) == (1, 5, 15)
    assert dict(train.values) == {
        "lr": 0.0001, "top1": 0.25, "top5": 0.5, "celoss": 5.1, "loss": 5.1, "step_s": 0.8,
        "reader_cost": 0.3, "ips": 15.0,
    }  # fmt: skip
    assert read(
        "[2030/01/31 10:00:00] ppcls INFO: [Eval][Epoch 1][Avg]CELoss: 4.2, loss: 4.2, top1: 0.2"
    ) == Reading({"val_celoss": 4.2, "val_loss": 4.2, "val_top1": 0.2}, 1)
    assert read("[2030/01/31 10:00:00] ppcls INFO: [Eval][Epoch 1][best metric: 0.2]") is None


def test_paddledetection() -> None:
    train = read(
        "[01/31 10:00:00] ppdet.engine INFO: Epoch: [3] [ 20/100] learning_rate: 0.001000 loss_xy:"
        " 1.0 loss: 3.0 eta: 1 day, 0:00:00 batch_cost: 0.5 data_cost: 0.0003 ips: 2.0000 images/s"
    )
    assert train is not None
    assert (train.epoch, train.step, train.steps) == (3, 20, 100)
    assert train.values["loss"] == 3.0
    assert train.values["loss_xy"] == 1.0
    assert train.values["step_s"] == 0.5
    ap = " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.392"
    assert read(ap) == Reading({"val_ap": 0.392})
    assert read(ap.replace("0.50:0.95", "0.50     ")) is None
    voc = read("[01/31 10:00:00] ppdet.metrics.metrics INFO: mAP(0.50, 11point) = 71.25%")
    assert voc == Reading({"val_map": 0.7125})
    assert read("[01/31 10:00:00] ppdet.engine INFO: Best test bbox ap is 0.392.") is None


def test_paddleseg() -> None:
    train = read(
        "2030-01-31 10:00:00 [INFO]\t[TRAIN] epoch: 2, iter: 310/1000, loss: 0.9, lr: 0.009,"
        " batch_cost: 0.2, reader_cost: 0.1, ips: 10.0 samples/sec | ETA 00:03:00"
    )
    assert train is not None
    assert (train.epoch, train.step, train.steps) == (2, 310, 1000)
    assert (train.values["loss"], train.values["step_s"]) == (0.9, 0.2)
    assert read(
        "2030-01-31 10:00:00 [INFO]\t[EVAL] #Images: 100 mIoU: 0.8 Acc: 0.9 Kappa: 0.7 Dice: 0.6"
    ) == Reading({"val_miou": 0.8, "val_acc": 0.9, "val_kappa": 0.7, "val_dice": 0.6})


def test_paddleocr() -> None:
    train = read(
        "[2030/01/31 10:00:00] ppocr INFO: epoch: [4/500], global_step: 1000, lr: 0.001000, acc:"
        " 0.5, norm_edit_dis: 0.6, loss: 1.2, avg_reader_cost: 0.1 s, avg_batch_cost: 0.3 s,"
        " avg_samples: 8.0, ips: 20.0 samples/s, eta: 1:00:00, max_mem_reserved: 2045 MB,"
        " max_mem_allocated: 1800 MB"
    )
    assert train is not None
    assert (train.epoch, train.step) == (4, 1000)
    assert (train.values["loss"], train.values["step_s"], train.values["acc"]) == (1.2, 0.3, 0.5)
    assert not [name for name in train.values if "mem" in name]
    now = "ppocr INFO: cur metric, precision: 0.5, recall: 0.4, hmean: 0.45, fps: 30.1"
    assert read(now) == Reading({"val_precision": 0.5, "val_recall": 0.4, "val_hmean": 0.45})
    assert read(now.replace("cur metric", "best metric") + ", best_epoch: 10") is None


def test_paddlenlp() -> None:
    train = read(
        "[2030-01-31 18:06:33,568] [    INFO] - loss: 1.25, learning_rate: 4e-08, global_step: 10,"
        " interval_runtime: 4.8704, interval_samples_per_second: 6.5, interval_steps_per_second:"
        " 0.2, progress_or_epoch: 0.5"
    )
    assert train == Reading({"loss": 1.25, "lr": 4e-08, "ips": 6.5, "step_s": 5.0}, 0.5, 10)
    assert read(
        "[2030-01-31 18:06:33,568] [    INFO] - eval_loss: 1.5, eval_accuracy: 0.7, eval_runtime:"
        " 4.8, eval_samples_per_second: 6.57, eval_steps_per_second: 0.2, progress_or_epoch: 1.0"
    ) == Reading({"val_loss": 1.5, "val_accuracy": 0.7}, 1.0)
    assert read(
        "global step 10, epoch: 1, batch: 3, loss: 0.5, accu: 0.8, speed: 4.00 step/s"
    ) == Reading({"step_s": 0.25, "loss": 0.5, "accu": 0.8}, 1, 10)


def test_bars_of_tqdm() -> None:
    assert read(
        "Epoch 1:  42%|████▏     | 42/100 [00:05<00:07,  8.00it/s, loss=0.123, acc=0.9]"
    ) == Reading({"step_s": 0.125, "loss": 0.123, "acc": 0.9}, 1, 42, 100)
    assert read(" 42%|####2     | 42/100 [00:05<00:07,  1.20s/it]") == Reading(
        {"step_s": 1.2}, None, 42, 100
    )


def test_loss_that_is_no_number_is_read_as_that() -> None:
    found = read("step 7 loss nan")
    assert found is not None
    assert math.isnan(found.values["loss"])


@pytest.mark.parametrize(
    "line",
    [
        "The loss: 0.5 was lower than the loss: 0.7 that we saw before in this run",
        "We lost 3 files in step 4: see loss 5 of the manual for more about it",
        "loss is nan, so this batch is skipped",
        "If loss: nan appears at step 5, lower the rate",
        "step 3 of the installation: install loss-prevention version: 5",
        "accuracy of 5 is required",
        "batch_size: 32",
        "lr: 0.001",
        "epochs: 120",
        "label_smooth_loss_weight: 0.1",
        "loss: info",
        "loss = 5 * x",
        "acc: 12:30:05",
        'File "train.py", line 5, in loss',
        "http://host/loss/5?acc=3",
        "W0131 10:00:00.123456 99 device_context.cc:447] device: 0, GPU Compute Capability: 8.0",
        "Downloading 10/100 files",
        "2030 loss-free transport acc. to plan: 5 trucks",
    ],
)
def test_prose_and_settings_are_no_reports(line: str) -> None:
    assert read(line) is None


def test_own_templates_come_first_and_read_what_they_name() -> None:
    reader = TrainingReader([Template("after {step} of {steps} * Energie {energy}")])
    assert reader.read("after 10  of 50 updates: Energie -1.5e2 eV") == Reading(
        {"energy": -150.0}, None, 10, 50
    )
    assert reader.read("loss: 0.5") == Reading({"loss": 0.5})
    assert reader.read("after ten of 50 updates: Energie 1") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("loss=", "names no metric"),
        ("{step} of {steps}", "names no metric"),
        ("{loss} {loss}", "twice"),
        ("{1}", "no name of a metric"),
        ("{loss", "names no metric"),
        ("{loss} }", "expected text"),
    ],
)
def test_a_text_that_is_no_template_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Template(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it names no metric: write `loss={loss}`"),
        ("{epoch} {step} {steps}", "it names no metric: write `loss={loss}`"),
        ("{loss} {loss}", "it names a metric twice"),
        ("{loss} {", "expected text with `{name}` for numbers"),
        ("{loss} }", "expected text with `{name}` for numbers"),
        ("{loss}" + "x" * (LONGEST_LINE - 5), "expected text with `{name}` for numbers"),
        ("{" + "a" * 33 + "}", "`{" + "a" * 33 + "}` is no name of a metric"),
        ("{" + "1" * 41 + "}", "`{" + "1" * 40 + "}` is no name of a metric"),
    ],
)
def test_what_is_wrong_with_a_template_is_a_sentence(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=rf"\A{re.escape(why)}\Z"):
        Template(text)


def test_a_template_may_be_as_long_as_a_line_and_a_name_as_long_as_32_letters() -> None:
    Template("{loss}" + "x" * (LONGEST_LINE - 6))
    Template("{" + "a" * 32 + "}")


@pytest.mark.parametrize(
    "line",
    [
        "loss" + "a" * 490 + "!", "a_" * 250, "loss_" * 100, "loss " * 100, "1/1 [" * 100,
        "[[[[" * 125, "epoch " * 90 + "step", "loss:" + " " * 490, "loss = " + "[" * 480,
        "9" * 499 + " loss", "1/2 [1:11" + "<" * 400 + "loss", "loss.-" * 80, "Loss" * 120,
        "loss=1 " * 70 + "x y z", "step 1 " * 60 + "is is is",
    ],
)  # fmt: skip
def test_no_line_takes_more_than_a_bounded_number_of_looks(line: str) -> None:
    """Each is a line on which an expression with two ways to match would not end in a lifetime."""
    template = Template("a* b* loss* {x} * {y} end")
    TrainingReader([template]).read(line * 3)
    assert template.read(("loss 1 " * 100)[:LONGEST_LINE]) is None


def test_progress_is_read_by_the_same_rules() -> None:
    assert progress(["epoch 2/3", "step=5/50 loss: 1"]) == Progress("step", 5, 50, 2, 3)
    assert progress(["Epoch: [3] [ 20/100] loss: 3.0"]) == Progress("step", 20, 100)
    assert progress(["nothing"]) is None
