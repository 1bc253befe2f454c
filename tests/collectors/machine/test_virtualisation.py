# SPDX-License-Identifier: GPL-2.0-or-later
"""A hypervisor, and whether it emulates, is told from what the machine shows, with the ground."""

from collections.abc import Callable

import pytest

from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.virtualisation import detect_virtualisation

MakeSystem = Callable[..., System]

KMSG = "6,1,0,-;{}\n"
FLAGS = "flags\t\t: fpu hypervisor lm\n"
QEMU_FLAGS = "model name\t: AMD EPYC Processor\n" + FLAGS
# The registers EAX, EBX, ECX and EDX of CPUID leaf 0x40000000.
TCG_LEAF = b"\x01\0\0\x40TCGTCGTCGTCG"
KVM_LEAF = b"\x01\0\0\x40KVMKVMKVM\0\0\0"
CLOCKS = "sys/devices/system/clocksource/clocksource0/available_clocksource"
PSCI = "6,22,0,-;psci: SMC Calling Convention v1.{}\n"
DUMMY_VIRT = {"sys/firmware/devicetree/base/model": "linux,dummy-virt\0"}
FW_CFG = {"sys/firmware/devicetree/base/fw-cfg@9020000/compatible": "qemu,fw-cfg-mmio\0"}
DMI_QEMU = {
    "sys/class/dmi/id/sys_vendor": "QEMU\n",
    "sys/class/dmi/id/product_name": "Standard PC\n",
}


@pytest.mark.parametrize(
    ("machine", "files", "expected"),
    [
        ("x86_64", {"proc/cpuinfo": "flags : fpu\n"}, ("none", False, "no hypervisor flag")),
        ("x86_64", {"proc/cpuinfo": "model name\t: QEMU TCG CPU version 2.5+\n" + FLAGS},
         ("qemu", True, "QEMU TCG CPU version 2.5+")),
        ("x86_64", {"proc/cpuinfo": QEMU_FLAGS, **DMI_QEMU}, ("qemu", None, "QEMU Standard PC")),
        ("x86_64", {"proc/cpuinfo": FLAGS}, (None, None, "but the hypervisor is unknown")),
        ("x86_64", {"proc/cpuinfo": FLAGS, "dev/kmsg": KMSG.format("Hypervisor detected: KVM")},
         ("kvm", False, "Hypervisor detected: KVM")),
        ("x86_64", {"proc/cpuinfo": FLAGS, CLOCKS: "tsc kvm-clock\n"}, ("kvm", False, "kvm-clock")),
        ("x86_64", {"proc/cpuinfo": FLAGS,
                    "dev/kmsg": KMSG.format("Hypervisor detected: Microsoft Hyper-V")},
         ("hyperv", False, "Hyper-V")),
        ("x86_64", {"proc/cpuinfo": FLAGS, "sys/class/dmi/id/sys_vendor": "Amazon EC2\n"},
         ("amazon", False, "Amazon EC2")),
        ("x86_64", {"sys/hypervisor/type": "xen\n"}, ("xen", False, "/sys/hypervisor/type")),
        ("aarch64", {"dev/kmsg": PSCI.format(0), **DUMMY_VIRT, **FW_CFG},
         ("qemu", True, "SMC Calling Convention v1.0")),
        ("aarch64", {"dev/kmsg": PSCI.format(1), **DUMMY_VIRT, **FW_CFG},
         ("virt", None, "linux,dummy-virt")),
        ("aarch64", {"dev/kmsg": PSCI.format(0), **DUMMY_VIRT}, ("virt", None, "linux,dummy-virt")),
        ("aarch64", {"dev/kmsg": PSCI.format(1)
                     + KMSG.format("smccc: KVM: hypervisor services detected (0x0 0x0 0x0 0x3)"),
                     **DUMMY_VIRT}, ("kvm", False, "hypervisor services detected")),
        ("aarch64", {"proc/cpuinfo": "CPU implementer\t: 0x00\nCPU part\t: 0x051\n", **DUMMY_VIRT},
         ("qemu", True, "implementer 0x00")),
        ("aarch64", {"sys/class/dmi/id/sys_vendor": "GIGABYTE\n"}, ("none", False, "GIGABYTE")),
        ("riscv64", {}, (None, None, "riscv64")),
        ("riscv64", {"sys/firmware/devicetree/base/model": "riscv-virtio,qemu\0"},
         ("qemu", None, "riscv-virtio,qemu")),
    ],
)  # fmt: skip
def test_emulation_is_told_from_named_grounds(
    make_system: MakeSystem,
    machine: str,
    files: dict[str, str],
    expected: tuple[str | None, bool | None, str],
) -> None:
    kind, emulated, ground = expected
    found = detect_virtualisation(make_system(files, machine))
    assert (found.kind, found.emulated) == (kind, emulated)
    assert ground in found.grounds


@pytest.mark.parametrize(
    ("leaf", "kind", "emulated"), [(TCG_LEAF, "qemu", True), (KVM_LEAF, "kvm", False)]
)
def test_the_hypervisors_own_signature_decides(
    make_system: MakeSystem,
    leaf: bytes,
    kind: str,
    emulated: bool,  # noqa: FBT001
) -> None:
    system = make_system({"proc/cpuinfo": QEMU_FLAGS, **DMI_QEMU, "dev/cpu/0/cpuid": ""})
    with system.path("/dev/cpu/0/cpuid").open("wb") as device:
        device.seek(0x40000000)
        device.write(leaf)
    found = detect_virtualisation(system)
    assert (found.kind, found.emulated) == (kind, emulated)
