"""Languages: the catalogue against the code, finding texts in it, and the screens in Chinese."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from rich.cells import cell_len

import gpuconsole
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import DeviceProcess, HostState
from gpuconsole.core.jobs import JobState
from gpuconsole.core.text import clean
from gpuconsole.core.wording import Message, joined, msg, name, sentences
from gpuconsole.language import (
    CHINESE,
    ENGLISH,
    FIGURES,
    LABELS,
    Language,
    catalogue,
    language,
    spoken,
)
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.reading import records
from gpuconsole.tui.keymap.registry import AREAS, KEYS
from gpuconsole.tui.palette.commands import Settings
from gpuconsole.tui.render import device_rows, legend, queue, topology
from gpuconsole.tui.render.fleet_map import metrics
from gpuconsole.tui.render.frame import TABS
from gpuconsole.tui.render.text_cells import wrapped
from gpuconsole.tui.screens.dialogs import kill_process
from gpuconsole.tui.style.settings import Look
from gpuconsole.tui.task_form import FIELDS
from tests.tui.console import NARROW, SIZES, WIDE, Driven, opened
from tests.tui.fake import FakeSession, device, incident, job, lab

ROOT = Path(gpuconsole.__file__).parent
CHINESE_LOOK = Look(language=CHINESE)
SHORT = 4
"""A text of fewer pairs of words may be made of words that stand apart in the code."""
WIDE_LETTER = re.compile("[\u4e00-\u9fff]")
SAYING = frozenset({"say", "entitle", "name_box", "notify", "tell", "labelled", "bullets", "AskBar",
                    "ConfirmScreen", "AskScreen", "SignalScreen", "Panel"})  # fmt: skip
"""What is called with a text that a person reads."""
UNTRANSLATED = frozenset(
    {
        # Names, units, and what is typed.
        "{} TFLOPS   {} {}",
        "{} gpu {}",
        "gpu", "C", "W", "#", "FP16", "FP16 TFLOPS", "TFLOPS", "rank", "ECC", "PCI", "NUMA",
        "MIG", "NVLink", "pid", "0", "{}", "{} of {}", "{}: {}",
    }
)  # fmt: skip
COMPOSED = {
    "1 {} matches": "1 job matches",
    "{} {} match": "3 incidents match",
    "{} first": "load first",
    "{} on gpu {}": "2 processes on gpu 0",
    "{}, last 15 minutes": "cpu %, last 15 minutes",
    "{}/{} busy": "12/30 busy",
    "{} {} of {}": "step 3 of 40",
    "{}s off": "+12s off",
}  # fmt: skip
"""Texts that are put together from words and figures, with an example of each."""


# -- the catalogue against the code -------------------------------------------------------------


def normal(text: str) -> str:
    """A text with its places alike and without the blanks around it."""
    return re.sub(r"\{\w*\}", "{}", text).strip(" ")


def written(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may be, f-strings with `{}` for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    elif isinstance(node, ast.IfExp):
        yield from (*written(node.body), *written(node.orelse))
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from written(value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "msg":
            # A template that is put together is looked for when it is said.
            yield from (text for text in written(node.args[0]) if "{}" not in text)
        elif node.func.id == "sentences":
            for value in node.args:
                yield from written(value)
    elif isinstance(node, ast.Tuple | ast.List):
        for value in node.elts:
            yield from written(value)


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in modules()}


def said() -> Iterator[tuple[str, str]]:
    """Every text in the code of the screens that is handed on to be said, and where."""
    for path, tree in trees().items():
        if not path.is_relative_to(ROOT / "tui"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else (
                    node.func.id if isinstance(node.func, ast.Name) else ""
                )  # fmt: skip
                if name in SAYING:
                    titles = (each.value for each in node.keywords if each.arg == "title")
                    for given in (*node.args, *titles):
                        for text in written(given):
                            yield text, f"{path.name}:{node.lineno}"


@cache
def literals() -> frozenset[str]:
    """Every text anywhere in the code, normalised."""
    return frozenset(
        normal(text)
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.expr)
        for text in written(node)
    )


@cache
def texts() -> dict[str, str]:
    sections = catalogue(CHINESE)
    return {text: other for name, part in sections.items() if name != LABELS
            for text, other in part.items()}  # fmt: skip


@cache
def chinese() -> Language:
    return language(CHINESE)


def missing(said: Iterable[tuple[str, str]], left: Collection[str]) -> dict[str, str]:
    """Texts that the catalogue lacks, whole and sentence by sentence, and where they stand; but for
    those that are `left` as they are."""
    known = {normal(text) for text in texts()}
    found = {}
    for text, place in said:
        wanted = normal(text)
        if not re.search("[A-Za-z]{2}", wanted.replace("{}", "")) or wanted in left:
            continue
        whole = all(normal(line) in known for line in wanted.split("\n"))
        parts = re.split(r"(?<=[.?!]) (?=\S)", wanted)
        if not whole and not all(part in known for part in parts):
            found[text] = place
    return found


def test_whatever_the_screens_say_is_in_the_catalogue() -> None:
    assert not missing(said(), UNTRANSLATED | COMPOSED.keys())


@pytest.mark.parametrize("example", sorted(set(COMPOSED.values())))
def test_what_is_put_together_is_found(example: str) -> None:
    assert WIDE_LETTER.search(chinese().say(example))


def test_keys_tables_and_fields_are_in_the_catalogue() -> None:
    say, label = chinese().say, chinese().label
    tables = [
        *(key.help for key in KEYS), *AREAS.values(), *(tab.label for tab in TABS),
        *(column.title for column in queue.COLUMNS), *(one.title for one in device_rows.COLUMNS),
        *(field.label for field in FIELDS), *(metric.title for metric in metrics.METRICS),
        *legend.MEANINGS.values(), *(meaning for _, meaning in topology.MEANINGS),
        *kill_process.SIGNALS.values(), *(state.value for state in JobState),
        *(state.value for state in HostState),
    ]  # fmt: skip
    assert [text for text in tables if text not in UNTRANSLATED and say(text) == text] == []
    labels = [key.label for key in KEYS if not key.label.isdigit()]
    assert [text for text in labels if text not in UNTRANSLATED and label(text) == text] == []


def test_no_text_of_the_catalogue_is_left_from_another_time() -> None:
    """What no code writes is stale. A sentence may be put together from parts: then most words of
    it must follow each other somewhere in the code."""
    source = literals()
    words = frozenset(word for text in source for word in text.split())
    pairs = frozenset(pair for text in source for pair in words_in_pairs(text))
    labels = {key.label for key in KEYS} | {normal(key.help) for key in KEYS}
    stale = []
    for section, part in catalogue(CHINESE).items():
        for text in part:
            wanted = normal(text)
            mine = words_in_pairs(wanted)
            known = sum(pair in pairs for pair in mine)
            short = len(mine) < SHORT and words.issuperset(wanted.split())
            if wanted not in source | labels and not short and known < max(1, len(mine) / 2):
                stale.append((section, text))
    assert not stale


def words_in_pairs(text: str) -> set[tuple[str, str]]:
    """Which words follow each other in a text; what is filled in is a word too."""
    words = re.findall(r"\{\}|[\w`'-]+", text)
    return set(pairwise(words))


def test_no_text_has_blanks_around_it() -> None:
    """They are taken off before a text is looked for: it would never be found."""
    assert not [
        text for part in catalogue(CHINESE).values() for text in part if text != text.strip()
    ]


def places(text: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", text)


def test_both_sides_have_the_same_places() -> None:
    assert not [text for text, other in texts().items() if set(places(text)) != set(places(other))]


HARD = ("v1. final", "3 of 4 free", "free", "{name}", "is down. It is held.", "运行中")
"""Names that read like words or sentences of the program."""


@pytest.mark.parametrize("name", HARD)
def test_every_sentence_keeps_the_names_in_it(name: str) -> None:
    """Whatever a job, a host or a user is called: the sentence is found, and the name stays."""
    say = chinese().say
    wrong = []
    for text, other in texts().items():
        values = {
            place: "running" if place.endswith("_word") else f"{name}{number}"
            for number, place in enumerate(dict.fromkeys(places(text)))
        }
        if not values:
            continue
        filled = {
            place: say(value) if place.endswith(("_word", "_text", "_list")) else value
            for place, value in values.items()
        }
        wanted = re.sub(r"\{(\w+)\}", lambda place, filled=filled: filled[place[1]], other)
        if say(Message(text, values)) != wanted or str(Message(text, values)) == text:
            wrong.append(text)
    assert not wrong


def test_a_kill_confirmation_keeps_process_and_host() -> None:
    said = chinese().say(
        msg("SIG{signal} was sent to {pid} on {host}.", signal="KILL", pid=7, host="3 of 4 free")
    )
    assert said == "已向 3 of 4 free 上的 7 发送 SIGKILL。"


def test_figures_are_told_from_names() -> None:
    """A text that came by way of the journal has no template: only figures are looked for in it."""
    wrong = []
    for text, other in texts().items():
        names = list(dict.fromkeys(places(text)))
        if not names or not FIGURES.issuperset(names):
            continue
        found = chinese().say(text.format(**dict.fromkeys(names, "17")))
        if normal(found) != normal(other.format(**dict.fromkeys(names, "17"))):
            wrong.append((text, found))
    assert not wrong


# -- finding texts ------------------------------------------------------------------------------


def small() -> Language:
    return Language(
        CHINESE,
        {
            "free": "空闲",
            "running": "运行中",
            "It is held.": "已保留。",
            "{n} free": "{n} 空闲",
            "{n} of {all} free": "{n}/{all} 空闲",
            "{job} is {state_word}.": "{job} {state_word}。",
            "{host} is down.": "{host} 离线。",
            "because {why_text}": "因为 {why_text}",
            "{n} could: {parts_list}": "{n} 个可用：{parts_list}",
        },
        {"free": "放行"},
    )


@pytest.mark.parametrize(
    ("english", "other"),
    [
        ("free", "空闲"),
        ("  free ", "  空闲 "),
        ("3 free", "3 空闲"),
        ("3 of 1,024 free", "3/1,024 空闲"),
        ("20.7 GiB free", "20.7 GiB 空闲"),
        ("nothing here is free", "nothing here is free"),
        ("bert is running.", "bert is running."),
        ("It is held. It is held.", "已保留。已保留。"),
        ("It is held. No route.", "It is held. No route."),
        ("", ""),
        (msg("{job} is {state_word}.", job="free", state_word="running"), "free 运行中。"),
        (msg("{host} is down.", host="v1. final"), "v1. final 离线。"),
        (msg("{host} is lost.", host="free"), "free is lost."),
        (msg("{n} free", n="3 of 4 free"), "3 of 4 free 空闲"),
        (msg("because {why_text}", why_text="free"), "因为 空闲"),
        (msg("because {why_text}", why_text="of rain"), "因为 of rain"),
        (
            msg("because {why_text}", why_text=msg("{host} is down.", host="free")),
            "因为 free 离线。",
        ),
        (
            msg("{n} could: {parts_list}", n=8, parts_list="3 free, 5 busy"),
            "8 个可用：3 空闲、5 busy",
        ),
        (msg("{a}: {b}", a="free", b=msg("{n} free", n=1)), "free: 1 空闲"),
        (name("free"), "free"),
        (sentences(msg("{host} is down.", host="free"), "It is held."), "free 离线。已保留。"),
        (msg("{n} free", n=3) + "  " + name("free"), "3 空闲  free"),
        ("x " + msg("{n} free", n=3), "x 3 空闲"),
        (joined(", ", ["free", name("free")]), "空闲、free"),
        (clean(msg("{host} is down.", host="a\x1b[31mb")), "ab 离线。"),
    ],
)
def test_a_message_is_found_by_its_template_and_a_text_as_a_whole(english: str, other: str) -> None:
    assert small().say(english) == other


@pytest.mark.parametrize(
    "message",
    [
        msg("{host} is {state_word}.", host="a", state_word="down"),
        sentences(msg("{n} free", n=3), "It is held."),
    ],
)
def test_a_message_goes_through_pickle_copy_and_the_records_of_a_process(message: str) -> None:
    ways = (
        pickle.loads(pickle.dumps(message)),
        copy.deepcopy(message),
        records.read(str, json.loads(json.dumps(records.plain(message)))),
    )
    for way in ways:
        assert way == message
        assert repr(vars(way)) == repr(vars(message))
    assert json.dumps(message) == f'"{message}"'


def test_what_is_no_message_is_refused() -> None:
    for wrong in ({"message": 3, "values": {}}, {"message": "x"}, {"joined": " ", "parts": 3}, {}):
        with pytest.raises(ValueError, match="no "):
            records.read(str, wrong)


def test_a_key_is_called_otherwise_than_a_state() -> None:
    assert small().label("free") == "放行"
    assert small().label("other") == "other"
    assert Language().label("free") == "free"


def test_what_is_long_is_no_sentence_of_ours() -> None:
    assert small().say("3 free " * 200) == "3 free " * 200


@pytest.mark.parametrize(
    ("wanted", "environment", "code"),
    [
        ("auto", {"LANG": "zh_CN.UTF-8"}, CHINESE),
        ("auto", {"LANG": "de_DE.UTF-8"}, ENGLISH),
        ("auto", {"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, ENGLISH),
        ("auto", {"LC_MESSAGES": "zh_TW", "LANG": "en_US"}, CHINESE),
        ("auto", {}, ENGLISH),
        ("zh", {"LANG": "en_US.UTF-8"}, CHINESE),
        ("en", {"LANG": "zh_CN.UTF-8"}, ENGLISH),
    ],
)
def test_who_asks_decides_else_the_environment(
    wanted: str, environment: dict[str, str], code: str
) -> None:
    assert spoken(wanted, environment) == code


def test_chinese_is_broken_between_its_characters_and_not_before_a_full_stop() -> None:
    lines = wrapped("每个设备最多需要 20.7 GiB；可用 34.0 GiB（最多为 40.0 GiB 的 85%）。", 20)
    assert all(cell_len(line) <= 20 for line in lines)
    assert not any(line.startswith(tuple("，。；：）")) for line in lines)
    assert "".join(lines).replace(" ", "").startswith("每个设备最多需要20.7GiB；")


# -- the screens --------------------------------------------------------------------------------


def session() -> FakeSession:
    """A lab in which people, hosts and jobs have Chinese names too."""
    their = DeviceProcess(7, "张伟", 900.0, "python 训练.py")
    hosts = (
        *lab(),
        replace(
            lab()[2], name="训练机一号", labels={"rack": "北京"},
            devices=(device("GPU-z", 0, processes=(their,)),),
        ),
    )  # fmt: skip
    jobs = (
        job("图像分类", JobState.RUNNING, 1),
        job("bert", JobState.QUEUED, 2),
        job("语音识别-very-long-name", JobState.FAILED, 3, cause="Exit code 1."),
        job("held-job", JobState.HELD, 4),
    )
    made = FakeSession(hosts_now=hosts, jobs_now=jobs)
    made.triage.now = (incident(), incident("xid", "GPU-b0", title="GPU lost", index=0))
    return made


def cells(line: str) -> list[str]:
    """A line cell by cell; a wide character has two."""
    found: list[str] = []
    for letter in line:
        width = cell_len(letter)
        if width:
            found += [letter, *[""] * (width - 1)]
    return found


def aligned(screen: str, width: int) -> None:
    """Every line is as wide as the terminal, and each box has its sides under its corners."""
    rows = [cells(line) for line in screen.split("\n")]
    assert {len(row) for row in rows} == {width}, screen
    for at, row in enumerate(rows):
        for left in (column for column, letter in enumerate(row) if letter == "╭"):
            right = row.index("╮", left)
            for below in rows[at + 1 :]:
                assert below[left] in "│╰", screen
                assert below[right] in "│╯", screen
                if below[left] == "╰":
                    break
            else:
                raise AssertionError(f"the box is not closed\n{screen}")


SCREENS = {
    "1": ("集群: 利用率", "在线", "离线", "筛选"),
    "2": ("队列", "作业", "状态", "运行中", "排队", "为何"),
    "3": ("日志", "显存", "跟随"),
    "5": ("巡检", "级别", "过热降频", "处理"),
    "4": ("提交", "脚本", "批大小", "重估"),
}


async def test_every_screen_is_chinese_and_aligned() -> None:
    async with opened(session(), look=CHINESE_LOOK) as console:
        async for size in console.at_sizes(SIZES):
            for key, words in SCREENS.items():
                await console.press(key)
                await console.shows(*words)
                aligned(console.text, size[0])
            await console.press("escape")


@pytest.mark.parametrize("size", SIZES)
async def test_what_opens_over_a_screen_is_chinese_and_aligned(size: tuple[int, int]) -> None:
    async with opened(session(), size, CHINESE_LOOK) as console:
        if size == NARROW:
            await console.press("i")
        await console.shows("i 隐藏")
        aligned(console.text, size[0])
        await console.press("enter")
        await console.shows("进程", "占用者")
        aligned(console.text, size[0])
        await console.press("enter")
        await console.shows("温度", "功率", "利用率 %")
        aligned(console.text, size[0])
        await console.press("question_mark")
        await console.shows("帮助: 设备", "上一个设备")
        await console.press("escape", "colon")
        await console.shows("命令", "此处")


@pytest.mark.parametrize("size", SIZES)
async def test_a_form_and_its_answer_are_chinese(size: tuple[int, int]) -> None:
    async with opened(session(), size, CHINESE_LOOK) as console:
        await console.press("4")
        await console.type("train.py")
        await console.shows("放得下")
        if size == NARROW:
            await console.press("f6")
        await console.shows("结论", "余量", "激活", "合计")
        aligned(console.text, size[0])


async def test_a_question_before_harm_is_chinese() -> None:
    fake = session()
    async with opened(fake, WIDE, CHINESE_LOOK) as console:
        await console.press("2", "c")
        await console.shows("取消 图像分类？", "取消作业", "保留", "SIGTERM")
        await console.press("y")
        await console.until(lambda: [call for call in fake.calls if call[0] == "cancel"])
        await console.toast("图像分类 正在取消。")


async def test_toasts_of_what_the_journal_tells_are_chinese() -> None:
    """The journal carries plain English; the name of a job or a host is set apart from words."""
    fake = FakeSession(hosts_now=lab(), jobs_now=(job("free", JobState.FAILED, 1),))
    async with opened(fake, WIDE, CHINESE_LOOK) as console:
        number = fake.jobs_now[0].id
        for event in (
            Event("job", number, "free: failed. Exit code 2.", 1.0, "error"),
            Event("host", "v100-02", "v100-02 is down. No route.", 1.0, "error"),
        ):
            console.app._event(event)
        await console.toast("free: 失败。退出码 2。")
        await console.toast("v100-02 离线。No route.")


async def test_names_are_nobodys_language() -> None:
    """A host, a user and a job that are called as something of the catalogue keep their names."""
    hosts = (replace(lab()[0], name="memory"),)
    waiting = replace(job("free", JobState.QUEUED), user="owner")
    fake = FakeSession(hosts_now=hosts, jobs_now=(waiting,))
    async with opened(fake, WIDE, CHINESE_LOOK) as console:
        await console.shows("memory")
        await console.press("2")
        await console.shows(" free ", "owner", "free 为何排队")


async def test_the_language_is_changed_live_on_every_screen() -> None:
    async with opened(session()) as console:
        for key in SCREENS:
            await console.press(key)
        await console.press("escape", "1")
        await console.shows("Fleet: utilisation")
        await speak(console, "language zh")
        await console.shows("集群: 利用率")
        for key, words in SCREENS.items():
            await console.press(key)
            await console.shows(*words)
            aligned(console.text, WIDE[0])
        await console.press("escape", "1")
        await speak(console, "language en")
        await console.shows("Fleet: utilisation")
        for key in SCREENS:
            await console.press(key)
            await console.until(lambda: not frame_is_chinese(console.text), "English again")


async def speak(console: Driven, words: str) -> None:
    await console.press("colon")
    await console.type(words)
    await console.shows("中文" if words.endswith("zh") else "English")
    await console.press("enter")


def frame_is_chinese(text: str) -> bool:
    """Whether anything but the names of the lab is Chinese."""
    for each in ("训练机一号", "北京", "图像分类", "语音识别", "张伟", "训练", "中文"):
        text = text.replace(each, "")
    return bool(WIDE_LETTER.search(text))


async def test_where_only_ascii_may_be_seen_english_is_spoken() -> None:
    look = Look(symbols="ascii", language=CHINESE)
    async with opened(FakeSession(), WIDE, look) as console:
        for key in SCREENS:
            await console.press(key)
            assert console.text.isascii()


async def test_a_language_can_be_found_by_its_own_name() -> None:
    async with opened(session(), WIDE, CHINESE_LOOK) as console:
        items = list(Settings(console.app).items())
        assert any("中文" in item.text and "zh" in item.text for item in items)


SENTENCE = re.compile(r"(?:\b[a-z]{2,}[,;]? ){3,}[a-z]{2,}\b")
"""Four words of small letters and more."""


@pytest.mark.parametrize("size", SIZES)
async def test_no_english_sentence_stands_on_the_screens_of_the_demo(
    size: tuple[int, int], tmp_path: Path
) -> None:
    demo = DemoOptions(hosts=6, speed=40.0)
    async with (
        open_session(None, tmp_path / "state", demo=demo) as lab_session,
        # A toast that comes while one looks would lie over a box.
        opened(lab_session, size, CHINESE_LOOK, toasts=False) as console,
    ):
        await console.shows("模拟", "A100-SXM4-40GB")
        for key in ("1", "2", "5", "4"):
            await console.press(key)
            await console.shows(SCREENS[key][0])
            left = SENTENCE.findall(console.text)
            assert not left, f"{left}\n{console.text}"
            aligned(console.text, size[0])
