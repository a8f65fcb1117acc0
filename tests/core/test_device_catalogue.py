"""The catalogue: reported names find their figures, written names find their devices."""

from __future__ import annotations

import pytest

from gpuconsole.core.device_catalogue import Catalogue

CATALOGUE = Catalogue.load()


@pytest.mark.parametrize(
    ("model", "memory_mib", "found"),
    [
        ("NVIDIA GeForce RTX 3090", 24576, "GeForce RTX 3090"),
        ("NVIDIA GeForce RTX 3090 Ti", 24564, "GeForce RTX 3090 Ti"),
        ("NVIDIA A100-SXM4-40GB", 40960, "A100-SXM4-40GB"),
        ("NVIDIA A100 80GB PCIe", 81920, "A100 80GB PCIe"),
        ("Tesla V100-SXM2-32GB", 32768, "Tesla V100-SXM2-32GB"),
        ("NVIDIA A30", 24576, "A30"),
        ("A30", 24576, "A30"),
        ("NVIDIA GeForce RTX 3080", 12288, "GeForce RTX 3080 12GB"),
        ("NVIDIA GeForce RTX 3080", 10240, "GeForce RTX 3080 10GB"),
        ("910B", 32768, "Ascend 910 ProB (30 cores)"),
        ("Ascend 910B2", 65536, "Ascend 910B2"),
        ("Ascend 910", 32768, "Ascend 910A"),
        ("Ascend910", 65536, "Ascend 910C (A3, per chip)"),
        ("Huawei Ascend 910A", 32768, "Ascend 910A"),
        ("P800 OAM", 98304, "P800 OAM"),
        ("AMD Instinct MI300X", 196592, "Instinct MI300X"),
    ],
)
def test_a_reported_name_finds_its_model(model: str, memory_mib: float, found: str) -> None:
    spec = CATALOGUE.lookup(model, memory_mib)
    assert spec is not None
    assert spec.model == found


def test_unknown_names_find_nothing() -> None:
    assert CATALOGUE.lookup("Voodoo 2") is None
    assert CATALOGUE.lookup("") is None
    assert CATALOGUE.lookup("NVIDIA A100-SXM4-40GB", 40960, "npu") is None


def test_figures_that_the_map_shows() -> None:
    a100 = CATALOGUE.lookup("NVIDIA A100-SXM4-40GB")
    v100 = CATALOGUE.lookup("Tesla V100-SXM2-32GB")
    ascend = CATALOGUE.lookup("Ascend 910A")
    assert a100 is not None
    assert (a100.fp16_tflops, a100.interconnect, a100.backend) == (312.0, "NVLink3 600", "gpu")
    assert v100 is not None
    assert v100.fp16_tflops == 125.0
    assert ascend is not None
    assert (ascend.domestic, ascend.backend, ascend.fp16_tflops) == (True, "npu", 256.0)


def test_a_modified_board_shows_its_own_memory() -> None:
    spec = CATALOGUE.lookup("NVIDIA GeForce RTX 4090", 49140)
    assert spec is not None
    assert (spec.memory_gib, spec.fp16_tflops) == (48.0, 165.2)


def test_a_slice_and_one_chip_of_two_have_their_share() -> None:
    slice_ = CATALOGUE.lookup("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864)
    chip = CATALOGUE.lookup("Instinct MI250X", 65520)
    assert slice_ is not None
    assert (slice_.memory_gib, slice_.fp16_tflops) == (5.0, 44.6)
    assert chip is not None
    assert (chip.memory_gib, chip.fp16_tflops) == (64.0, 191.5)


def test_cards_without_matrix_unit_rank_by_fp32() -> None:
    spec = CATALOGUE.lookup("NVIDIA GeForce GTX 1080 Ti")
    assert spec is not None
    assert spec.fp16_tflops is None
    assert spec.rate_tflops == 11.3


@pytest.mark.parametrize(
    ("wanted", "model", "memory_mib"),
    [
        ("RTX_3090", "NVIDIA GeForce RTX 3090", 24576),
        ("rtx3090", "NVIDIA GeForce RTX 3090", 24576),
        ("3090", "NVIDIA GeForce RTX 3090", 24576),
        ("RTX 3090 24GB", "NVIDIA GeForce RTX 3090", 24576),
        ("V100-32GB", "Tesla V100-SXM2-32GB", 32510),
        ("V100-32GB", "Tesla V100-PCIE-32GB", None),
        ("V100", "Tesla V100-SXM2-16GB", 16160),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", 40960),
        ("A100", "NVIDIA A100 80GB PCIe", 81920),
        ("A100-PCIE-80GB", "NVIDIA A100 80GB PCIe", 81920),
        ("H100-80GB", "NVIDIA H100 80GB HBM3", 81559),
        ("A6000", "NVIDIA RTX A6000", 49140),
        ("Ascend_910", "910A", 32768),
        ("Ascend910B2", "910B2", 65536),
        ("Ascend 910", "Ascend 910", 32768),
    ],
)
def test_a_written_name_means_the_device(wanted: str, model: str, memory_mib: float | None) -> None:
    assert CATALOGUE.matches(wanted, model, memory_mib)


@pytest.mark.parametrize(
    ("wanted", "model", "memory_mib"),
    [
        ("RTX_3090", "NVIDIA GeForce RTX 3090 Ti", 24564),
        ("RTX_3090_Ti", "NVIDIA GeForce RTX 3090", 24576),
        ("RTX 4090", "NVIDIA GeForce RTX 4090 Laptop GPU", 16384),
        ("RTX 4090", "NVIDIA GeForce RTX 4090 D", 24564),
        ("V100-32GB", "Tesla V100-SXM2-16GB", 16160),
        ("V100", "Tesla V100S-PCIE-32GB", 32510),
        ("A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", 40960),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", 81920),
        ("A10", "NVIDIA A100-SXM4-40GB", 40960),
        ("RTX 6000", "NVIDIA RTX 6000 Ada Generation", 49140),
        ("40GB", "NVIDIA A100-SXM4-40GB", 40960),
        ("nvidia", "NVIDIA A100-SXM4-40GB", 40960),
        ("", "NVIDIA A100-SXM4-40GB", 40960),
        ("Ascend 910B", "910B2", 65536),
    ],
)
def test_a_written_name_means_no_other_device(
    wanted: str, model: str, memory_mib: float | None
) -> None:
    assert not CATALOGUE.matches(wanted, model, memory_mib)


def test_every_row_has_a_source_and_finds_itself() -> None:
    assert len(CATALOGUE.specs) > 150
    for spec in CATALOGUE.specs:
        assert spec.source, spec.model
        assert spec.memory_gib is None or spec.memory_gib > 0


@pytest.mark.parametrize(
    ("model", "share"),
    [
        ("NVIDIA A30 MIG 2g.12gb", 2 / 4),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb", 1 / 4),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 3 / 7),
    ],
)
def test_a_slice_has_its_share_of_the_whole(model: str, share: float) -> None:
    whole, part = (CATALOGUE.lookup(name) for name in (model.partition(" MIG")[0], model))
    assert whole is not None
    assert part is not None
    assert part.model == whole.model
    assert part.fp32_tflops == pytest.approx((whole.fp32_tflops or 0) * share, abs=0.06)
