from __future__ import annotations
import os, shutil, subprocess, time
from pathlib import Path
import pytest
from gpuconsole.tui.widgets.form import Form
from tests.real.rig.hosts import Lab
from tests.real.rig.sessions import Desk
from tests.tui.console import opened
from benchmarks.wild.data import vision
pytestmark = pytest.mark.real
async def test_paddleclas(docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.tui import console as c
    c.DEADLINE_S = 900
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path, "lab:\n  measure: auto\n")
    shutil.rmtree(desk.project)
    shutil.copytree("/tmp/wild/corpus/PaddlePaddle+PaddleClas", desk.project, ignore=shutil.ignore_patterns(".git"))
    data = tmp_path / "data"
    vision.image_list(data, count=1024)
    subprocess.run(["chown", "-R", f"{host.uid}:{host.uid}", str(data)], check=True)
    data.chmod(0o700)
    monkeypatch.chdir(desk.project)
    D = "DataLoader.Train.dataset."
    V = "DataLoader.Eval.dataset."
    args = ("-c ppcls/configs/ImageNet/ResNet/ResNet50.yaml "
        f"-o {D}image_root=/data/ -o {D}cls_label_path=/data/train_list.txt -o {V}image_root=/data/ -o {V}cls_label_path=/data/val_list.txt")
    async with desk.session() as session:
        await session.first_frames(30)
        async with opened(session, size=(160, 48)) as console:
            await console.press("4")
            await console.shows("preflight")
            t = time.time()
            console.app.screen.query_one(Form).fill({"script": "tools/train.py", "args": args, "mounts": f"{data}:/data"})
            await console.shows("measuring")
            print("measuring after", time.time() - t)
            try:
                await console.until(lambda: "measuring" not in console.text)
            finally:
                print(time.time() - t); print(console.text)
            await console.shows(f"meta {host.name}", "answered")
