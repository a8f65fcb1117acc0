"""What NVML tells beside the figures of every frame: MIG instances, links, memory, energy, XIDs."""

from __future__ import annotations

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.fleet import Host
from tests.real.hosts.test_agent import is_up, polling, until
from tests.real.rig.hosts import Lab

MIG = {"0.mig": 1, "0.slices": "3g.20gb,1g.5gb"}


def read_once(host: Host) -> bool:
    """Whether the readings that are seldom taken have come."""
    return bool(is_up(host)) and host.devices[0].energy_j is not None


async def test_health_links_energy_and_clock_notes_come_as_the_driver_tells(lab: Lab) -> None:
    machine = lab.add(devices=2)
    machine.driver.set({
        "0.remap_corrected": 1, "0.remap_uncorrected": 2, "0.remap_pending": 1,
        "1.remap_failure": 1, "0.ecc_corrected": 41, "0.ecc_uncorrected": 3,
        "0.energy_mj": 7_654_321, "0.throttle": 0x02 | 0x20, "nvlink_errors.0": 2,
        "0.nvlinks": 4, "0.nvlink_peers": 1, "0.nvlinks_down": 1, "nvlink_errors.1": 1,
    })  # fmt: skip
    async with polling(lab) as hosts:
        host = await until(hosts, 0, lambda h: read_once(h) and h.devices[0].nvlinks_up is not None)
        first, second = host.devices
        assert first.vendor == "nvidia"
        assert (first.retired_pages, first.remap_pending, first.remap_failed) == (3, True, False)
        assert (second.remap_pending, second.remap_failed) == (False, True)
        assert (first.ecc_corrected, first.ecc_uncorrected) == (41, 3)
        assert first.energy_j == 7654
        assert (first.throttle, first.clock_notes) == (("sw-thermal",), ("application-clocks",))
        assert (first.nvlinks_up, first.nvlinks_down, first.nvlink_errors) == (3, 1, 9)
        assert (second.nvlinks_up, second.nvlinks_down, second.nvlink_errors) == (None,) * 3


async def test_an_older_card_retires_pages(lab: Lab) -> None:
    machine = lab.add(devices=1)
    machine.driver.set({
        "call.GetRemappedRows": 3, "retired_single": 2, "retired_double": 1, "retired_pending": 1,
    })  # fmt: skip
    async with polling(lab) as hosts:
        host = await until(hosts, 0, lambda h: read_once(h) and h.devices[0].retired_pages)
        device = host.devices[0]
        assert (device.retired_pages, device.remap_pending, device.remap_failed) == (3, True, None)


async def test_what_a_driver_does_not_have_is_unknown_field_by_field(lab: Lab) -> None:
    machine = lab.add(devices=1)
    missing = ("GetTotalEnergyConsumption", "GetRemappedRows", "GetRetiredPages",
               "GetTotalEccErrors", "GetNvLinkState", "GetMigMode")  # fmt: skip
    machine.driver.set({f"call.{name}": 13 for name in missing})
    async with polling(lab) as hosts:
        device = (await until(hosts, 0, is_up)).devices[0]
        assert device.error == ""
        assert device.memory_total_mib == 40960
        unknown = (device.energy_j, device.retired_pages, device.remap_pending,
                   device.ecc_corrected, device.ecc_uncorrected, device.nvlinks_up)  # fmt: skip
        assert unknown == (None,) * 6
        assert not device.mig


async def test_mig_instances_are_devices_of_their_own(lab: Lab) -> None:
    machine = lab.add(devices=2)
    child = machine.popen(["sleep", "1000"])
    machine.driver.set({**MIG, "1000.used_mib": 9000, "1000.procs": f"{child.pid}:8800"})
    try:
        async with polling(lab) as hosts:
            host = await until(hosts, 0, lambda h: is_up(h) and h.devices[0].mig)
            whole, other, big, small = host.devices
            assert [device.divided for device in host.devices] == [True, False, False, False]
            assert [device.index for device in host.devices] == [0, 1, 2, 3]
            assert big.uuid.startswith("MIG-")
            assert big.uuid != small.uuid
            assert (big.parent_uuid, big.mig_profile) == (whole.uuid, "3g.20gb")
            assert (small.memory_total_mib, small.mig_profile) == (5120, "1g.5gb")
            assert (big.memory_used_mib, big.processes[0].pid) == (9000, child.pid)
            # NVML has these of the whole device alone.
            assert (big.temperature_c, big.power_w, big.utilization) == (None, None, None)
            spec = Catalogue.load().lookup(small.model, small.memory_total_mib, "gpu")
            assert spec is not None
            assert spec.memory_gib == 5
            assert other.processes == ()
    finally:
        child.kill()
        child.wait()


async def test_instances_that_come_or_go_are_seen(lab: Lab) -> None:
    machine = lab.add(devices=1)
    async with polling(lab) as hosts:
        await until(hosts, 0, is_up)
        machine.driver.set(MIG)
        # The driver is asked every ten seconds.
        host = await until(hosts, 0, lambda h: len(h.devices) == 3 and h.devices[0].mig)
        assert host.devices[2].mig_profile == "1g.5gb"


async def test_an_xid_names_the_instance_that_it_is_about(lab: Lab) -> None:
    machine = lab.add(devices=1)
    machine.driver.set(MIG)
    async with polling(lab) as hosts:
        await until(hosts, 0, lambda h: is_up(h) and len(h.devices) == 3)
        machine.driver.set({"0.xid_instance": 2, "0.xid": 31})
        host = await until(hosts, 0, lambda h: h.devices[0].xid == 31 and h.devices[2].xid)
        assert host.devices[1].xid is None
        machine.driver.set({"0.xid_instance": -1, "0.xid": 79})
        host = await until(hosts, 0, lambda h: h.devices[1].xid == 79)
        assert [device.xid for device in host.devices] == [79, 79, 79]


async def test_an_instance_without_a_name_is_known_by_its_uuid(lab: Lab) -> None:
    machine = lab.add(devices=1)
    machine.driver.set({**MIG, "1000.call.GetName": 3})
    async with polling(lab) as hosts:
        host = await until(hosts, 0, lambda h: is_up(h) and len(h.devices) == 3)
        _, nameless, named = host.devices
        assert nameless.mig_profile == "3g.20gb"
        assert nameless.model == f"{host.devices[0].model} MIG 3g.20gb"
        assert nameless.parent_uuid == named.parent_uuid
