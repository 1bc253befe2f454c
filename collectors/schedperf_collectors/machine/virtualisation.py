# SPDX-License-Identifier: GPL-2.0-or-later
"""Detect virtual machines, and whether the CPU is emulated.

Timings under emulation are meaningless, so the result names its evidence; ``kind`` and
``emulated`` are None if it is not sufficient. Evidence, in the order of its use:

* all architectures: /sys/hypervisor/type (Xen).
* x86: the signature of the hypervisor's CPUID leaf, where /dev/cpu/0/cpuid can be read; QEMU's
  emulated CPU models name themselves; what the kernel found ("Hypervisor detected: KVM",
  kvm-clock). A hypervisor flag alone shows that there is one, but not whether it emulates. Without
  the flag, the machine is not virtual.
* arm64: "KVM: hypervisor services detected" in the kernel log; CPU implementer 0, that of QEMU's
  ``max`` CPU; on a QEMU machine, QEMU's own PSCI firmware, which uses SMC calling convention 1.0
  where KVM uses 1.1 or later.
* all architectures: vendor and product in the firmware (DMI, device tree). The names of some
  virtual machines show that the CPU is not emulated; those of QEMU and KVM leave it unknown. On
  arm64, any other name means hardware.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from schedperf_collectors.machine.system import X86_MACHINES, System, or_none, unavailable

CLOCKSOURCES = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
DEVICE_TREE = "/sys/firmware/devicetree/base"
DMI = "/sys/class/dmi/id"
CPUID_DEVICE = "/dev/cpu/0/cpuid"
# CPUID leaf 0x40000000 holds the hypervisor's signature in EBX, ECX and EDX; only KVM and TCG are
# met with QEMU (Documentation/virt/kvm/x86/cpuid.rst; target/i386/cpu.c in QEMU).
HYPERVISOR_LEAF = 0x40000000
SIGNATURES = {
    b"KVMKVMKVM\0\0\0": ("kvm", False),
    b"TCGTCGTCGTCG": ("qemu", True),
    b"Microsoft Hv": ("hyperv", False),
    b"VMwareVMware": ("vmware", False),
    b"XenVMMXenVMM": ("xen", False),
    b"bhyve bhyve ": ("bhyve", False),
}
# The names in "Hypervisor detected: …" of arch/x86/kernel/cpu/hypervisor.c.
DETECTED = {
    "KVM": "kvm",
    "Microsoft Hyper-V": "hyperv",
    "VMware": "vmware",
    "Xen HVM": "xen",
    "Xen PV": "xen",
    "ACRN": "acrn",
    "Jailhouse": "jailhouse",
}
# Words in DMI and device trees that identify a virtual machine. Machines of the first group may use
# hardware virtualisation or emulate (dummy-virt is used by QEMU, kvmtool and Firecracker); those of
# the second never emulate.
MAY_EMULATE = {"qemu": "qemu", "dummy-virt": "virt", "kvm": "kvm"}
NEVER_EMULATE = {
    "amazon ec2": "amazon",
    "google compute engine": "google",
    "vmware": "vmware",
    "virtualbox": "virtualbox",
    "microsoft corporation virtual": "hyperv",
    "xen": "xen",
}


@dataclass(frozen=True)
class Virtualisation:
    """The detected virtualisation.

    :param kind: "none", "kvm", "qemu", …; None if unknown
    :param emulated: whether the CPU is emulated; None if unknown
    :param grounds: the evidence, or why a value is unknown; one line
    """

    kind: str | None
    emulated: bool | None
    grounds: str


def detect_virtualisation(system: System) -> Virtualisation:
    """Return the kind of machine, whether its CPU is emulated, and the evidence."""
    xen = or_none(lambda: system.text("/sys/hypervisor/type"))
    if xen:
        return Virtualisation(xen, emulated=False, grounds=f"/sys/hypervisor/type is {xen}")
    if system.machine in X86_MACHINES:
        return _detect_x86(system)
    if system.machine == "aarch64":
        return _detect_arm64(system)
    return _by_maker(system, f"emulation cannot be detected on {system.machine}")


def dmi_text(system: System) -> str:
    """Return vendor and product as the firmware names them, or the vendor if it names no product.

    :raises Unavailable: the machine has no DMI, or DMI names no vendor
    """
    vendor = system.text(f"{DMI}/sys_vendor")
    product = or_none(lambda: system.text(f"{DMI}/product_name"))
    return f"{vendor} {product}" if product else vendor


def _detect_x86(system: System) -> Virtualisation:
    cpuinfo = or_none(lambda: system.text("/proc/cpuinfo")) or ""
    signature = or_none(lambda: _hypervisor_signature(system))
    if signature in SIGNATURES:
        kind, emulated = SIGNATURES[signature]
        text = signature.rstrip(b"\0").decode("ascii")
        return Virtualisation(kind, emulated, f"CPUID leaf 0x40000000 is {text}")
    model = re.search(r"^model name\s*: (QEMU TCG .*)$", cpuinfo, re.MULTILINE)
    if model:
        return Virtualisation("qemu", emulated=True, grounds=f"the CPU model is {model.group(1)}")
    detected = _found_by_kernel(system)
    if detected:
        return detected
    if re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE):
        return _by_maker(system, "the CPU has the hypervisor flag, but the hypervisor is unknown")
    if not cpuinfo:
        return Virtualisation(None, None, "/proc/cpuinfo cannot be read")
    return Virtualisation("none", emulated=False, grounds="the CPU has no hypervisor flag")


def _found_by_kernel(system: System) -> Virtualisation | None:
    # All hypervisors that the x86 kernel detects use hardware virtualisation.
    log = or_none(system.kernel_log) or ""
    detected = re.search(r"^Hypervisor detected: (.+)$", log, re.MULTILINE)
    if detected:
        kind = DETECTED.get(detected.group(1), detected.group(1).lower())
        ground = f"the kernel log reports {detected.group(0)}"
        return Virtualisation(kind, emulated=False, grounds=ground)
    if "kvm-clock" in (or_none(lambda: system.text(CLOCKSOURCES)) or ""):
        ground = "kvm-clock is an available clocksource"
        return Virtualisation("kvm", emulated=False, grounds=ground)
    return None


def _hypervisor_signature(system: System) -> bytes:
    # The device's offset is the leaf; one read gives EAX, EBX, ECX and EDX.
    try:
        with system.path(CPUID_DEVICE).open("rb", buffering=0) as device:
            device.seek(HYPERVISOR_LEAF)
            registers = device.read(16)
    except OSError as error:
        raise unavailable(CPUID_DEVICE, error) from error
    return registers[4:16]


def _detect_arm64(system: System) -> Virtualisation:
    log = or_none(system.kernel_log) or ""
    if "KVM: hypervisor services detected" in log:
        ground = "the kernel log reports KVM: hypervisor services detected"
        return Virtualisation("kvm", emulated=False, grounds=ground)
    cpuinfo = or_none(lambda: system.text("/proc/cpuinfo")) or ""
    if re.search(r"^CPU implementer\s*: 0x00$", cpuinfo, re.MULTILINE):
        ground = "CPU implementer 0x00 is that of QEMU's emulated CPU model 'max'"
        return Virtualisation("qemu", emulated=True, grounds=ground)
    firmware = re.search(r"^psci: SMC Calling Convention v1\.0$", log, re.MULTILINE)
    if firmware and _is_made_by_qemu(system):
        ground = (
            f"the kernel log reports QEMU's PSCI firmware ({firmware.group(0)}) instead of KVM's "
            "on a QEMU machine"
        )
        return Virtualisation("qemu", emulated=True, grounds=ground)
    return _by_maker(system, "the kernel log does not mention a hypervisor")


def _is_made_by_qemu(system: System) -> bool:
    # Of the machines called "linux,dummy-virt", only QEMU's has the fw-cfg device.
    nodes = or_none(lambda: system.names(DEVICE_TREE, r"fw-cfg@.*"))
    return bool(nodes) or "qemu" in _maker(system).lower()


def _maker(system: System) -> str:
    model = or_none(lambda: system.text(f"{DEVICE_TREE}/model"))
    return or_none(lambda: dmi_text(system)) or model or ""


def _by_maker(system: System, doubt: str) -> Virtualisation:
    # The machine name in the firmware comes last, because hardware machines have one, too.
    maker = _maker(system)
    for word, kind in NEVER_EMULATE.items():
        if word in maker.lower():
            return Virtualisation(kind, emulated=False, grounds=f"the firmware reports {maker}")
    for word, kind in MAY_EMULATE.items():
        if word in maker.lower():
            return Virtualisation(kind, None, f"the firmware reports {maker}, but {doubt}")
    if maker and system.machine == "aarch64":
        return Virtualisation("none", emulated=False, grounds=f"the firmware reports {maker}")
    return Virtualisation(None, None, doubt)
