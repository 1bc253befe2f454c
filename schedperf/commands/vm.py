# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf vm``: boot kernels in virtual machines and record a command in each."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from schedperf.commands._given_words import KeepsWords, given_words
from schedperf.commands._recorder import parameters, system_python
from schedperf.model.errors import InputError
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.options import RUNS, make_parser

if TYPE_CHECKING:
    from schedperf.lab.vm.guest import Hypervisor
    from schedperf.lab.vm.images import Kernel
    from schedperf.lab.vm.machine import Acceleration
    from schedperf.lab.vm.session import Request
    from schedperf_collectors.recorder.source import Source

# Options of `record` that mean the same in every boot.
_FORWARDED = (
    "instrumented", "warmup", "point", "collectors", "left_out", "vary", "metric", "set",
    "pelt_loader", "timeout", "seed", "machine", "load", "shareable",
)  # fmt: skip
# Counts of calls are valid in a guest, even though timings, which the probes slow down, are not.
GUEST_COLLECTORS = ("default", "bpf_account", "bpf_pelt", "bpf_placement")
# Boots are the independent replicates, so one instrumented run per boot is enough.
GUEST_INSTRUMENTED = 1
# Collector that is not used under emulation: its samples would come from a timer that never
# interrupts the scheduler, and it takes most of a boot's time.
NOT_EMULATED = "perf_profile"
_NO_PROFILE = (
    f"{NOT_EMULATED} is not recorded, because an emulated x86 CPU has no PMU and the samples "
    f"would miss most scheduler code; use --with default,{NOT_EMULATED} to record a profile anyway"
)
# Help of options whose defaults differ in a guest.
_GUEST_HELP = {
    "_instrumented": (
        "Add N runs per point with intrusive collectors in each boot.  "
        f"[default: {GUEST_INSTRUMENTED}]"
    ),
    "_collectors": (
        f"Select collectors; under emulation, default does not include {NOT_EMULATED}.  [default: "
        f"{','.join(GUEST_COLLECTORS)}]"
    ),
}
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}\Z", re.ASCII)
_QEMU = "qemu-system-x86_64"
_MACHINE = "x86_64"
_MODULES = Path("/lib/modules")
_FEWEST_KERNELS = 2

# A running guest reports after each run and each capture; collectors may take two minutes.
_SILENCE_S = 600.0

EPILOG = """\b
Examples:
  schedperf vm --check
  cd ~/linux && schedperf vm --kernel tip=../tip/arch/x86/boot/bzImage \\
     --kernel new=arch/x86/boot/bzImage --boots 4 -n 2 \\
     -- hackbench -l 100 -g 2
\b
Guests can read this machine's file system; their writes to it are discarded.
"""


@click.command(cls=KeepsWords, epilog=EPILOG)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="NAME=IMAGE",
    help="Boot this kernel; the first is the base.",
)
@click.option(
    "--kernel-files",
    multiple=True,
    metavar="NAME=DIRECTORY",
    help="Read System.map and config of the kernel from this directory.  [default: beside IMAGE]",
)
@click.option("--source", "sources", multiple=True, metavar="NAME=FILE",
              help="Store the commit of the kernel NAME, as this JSON file describes it (see "
                   "docs/bundle.md).")  # fmt: skip
@click.option("--boots", metavar="N", type=click.IntRange(1, 1000), default=4, show_default=True,
              help="Boot each kernel N times.")  # fmt: skip
@click.option("-n", "--runs", metavar="N", type=click.IntRange(min=1), default=RUNS,
              show_default=True, help="Record N runs per point in each boot.")  # fmt: skip
@click.option("--output", metavar="FOLDER", default=".", type=click.Path(path_type=Path),
              help="Write NAME.tar of each kernel to this directory.  [default: .]")  # fmt: skip
@click.option("--add-boots", is_flag=True, help="Add boots to existing bundles.")
@click.option("--cpus", metavar="N", type=int, default=4, show_default=True,
              help="Give each guest N CPUs.")  # fmt: skip
@click.option("--nodes", metavar="N", type=int, default=2, show_default=True,
              help="Give each guest N NUMA nodes of one socket each.")  # fmt: skip
@click.option("--threads", metavar="N", type=int, default=1, show_default=True,
              help="Give each core N hardware threads.")  # fmt: skip
@click.option("--memory", metavar="SIZE", default="4G", show_default=True,
              help="Give each guest this much memory, summed over its nodes.")  # fmt: skip
@click.option("--kernel-args", metavar="WORDS", default="",
              help="Add arguments to the kernel command line.")  # fmt: skip
@click.option("--setup", metavar="CMD", default="",
              help="Run this shell command in each guest before recording.")  # fmt: skip
@click.option(
    "--accel",
    type=click.Choice(["auto", "kvm", "tcg"]),
    default="auto",
    show_default=True,
    help="Use KVM or QEMU's emulation (TCG); auto: KVM if it works.",
)
@click.option(
    "--hung-after",
    metavar="S",
    type=click.FloatRange(min=1),
    default=_SILENCE_S,
    show_default=True,
    help="Kill a guest whose recorder is silent for S seconds plus --timeout.",
)
@click.option(
    "--check", is_flag=True, help="Only print whether guests work on this machine and use KVM."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Boot kernels in virtual machines and record a command in each.

    Boots of the kernels are interleaved. Each kernel is recorded in its own bundle, for schedperf
    compare.
    """
    accelerated = _try_acceleration(options["accel"])
    if options["check"]:
        click.echo(_describe_acceleration(accelerated))
        return 0
    # Imported here so that --help of all commands stays fast; so are the imports below.
    from schedperf.lab.vm.guest import KvmFailed  # noqa: PLC0415
    from schedperf.lab.vm.machine import Acceleration  # noqa: PLC0415

    def read_kernels() -> "list[Kernel]":
        return _kernels(options)

    try:
        return _record_with(accelerated, ctx, options, read_kernels)
    except KvmFailed as error:
        if options["accel"] == "kvm":
            raise InputError(f"--accel kvm: {error.reason}; use --accel tcg") from error
        emulated = Acceleration(is_kvm=False, reason=error.reason)
        return _record_with(emulated, ctx, options, read_kernels)


def _record_with(
    accelerated: "Acceleration",
    ctx: click.Context,
    options: Mapping[str, Any],
    read_kernels: "Callable[[], list[Kernel]]",
) -> int:
    """Record with KVM or under emulation; return the exit status.

    :raises KvmFailed: KVM cannot run the first boot; nothing is recorded
    :raises InputError: an option is wrong, or a recording failed
    """
    hypervisor = _hypervisor(options, is_kvm=accelerated.is_kvm)
    request = _request(ctx, options, read_kernels, is_kvm=accelerated.is_kvm)
    if not options["quiet"]:
        click.echo(f"schedperf: {_describe_acceleration(accelerated)}", err=True)
        names = _collectors(ctx)
        if not accelerated.is_kvm and "default" in names and NOT_EMULATED not in names:
            click.echo(f"schedperf: {_NO_PROFILE}", err=True)
    return _record(request, hypervisor, options)


def shared_parameters() -> list[click.Parameter]:
    """Return the options of guests and of recordings in them, for other commands that boot."""
    own = {
        "kernels",
        "kernel_files",
        "sources",
        "output",
        "add_boots",
        "check",
        "quiet",
        "command_line",
    }
    return [parameter for parameter in command.params if parameter.name not in own]


class GuestRecorder:
    """Records kernels in guests, with the options of ``schedperf vm`` in a context of click.

    :param ctx: context of a command that has :func:`shared_parameters`
    :param options: the values of these options, with ``output``, ``quiet`` and ``command_line``
    :raises InputError: guests cannot run here, or the options are wrong
    """

    def __init__(self, ctx: click.Context, options: Mapping[str, Any]) -> None:
        self._ctx = ctx
        self._options = options
        self._accelerated = _try_acceleration(options["accel"])
        _check_work(
            [
                *_recorder_options(ctx, options, is_kvm=self._accelerated.is_kvm),
                "--",
                *options["command_line"],
            ],
            options["command_line"],
        )
        _hypervisor(options, is_kvm=self._accelerated.is_kvm)
        if not options["quiet"]:
            click.echo(f"schedperf: {_describe_acceleration(self._accelerated)}", err=True)

    def record(
        self,
        kernels: "Sequence[Kernel]",
        boots: int,
        *,
        setup: str = "",
        vary: Sequence[str] = (),
    ) -> None:
        """Boot each kernel ``boots`` times, interleaved; add the runs to existing or new bundles.

        If KVM cannot run the first boot, the guests are emulated from then on.

        :param setup: shell command to run in each guest after that of ``--setup``
        :param vary: fields of host.json that it changes on purpose
        :raises KernelFailed: a kernel does not boot
        :raises InputError: a recording failed, or ``--accel kvm`` is given and KVM fails
        """
        from schedperf.lab.vm.guest import KvmFailed  # noqa: PLC0415
        from schedperf.lab.vm.machine import Acceleration  # noqa: PLC0415

        given = self._options["setup"]
        both = f"{{ {given}\n}} && {setup}" if given and setup else given or setup
        options = {**self._options, "boots": boots, "add_boots": True, "setup": both}
        words = [f"--vary={field}" for field in vary]
        try:
            self._record(kernels, options, words)
        except KvmFailed as error:
            if self._options["accel"] == "kvm":
                raise InputError(f"--accel kvm: {error.reason}; use --accel tcg") from error
            self._accelerated = Acceleration(is_kvm=False, reason=error.reason)
            click.echo(f"schedperf: {_describe_acceleration(self._accelerated)}", err=True)
            self._record(kernels, options, words)

    def _record(
        self, kernels: "Sequence[Kernel]", options: Mapping[str, Any], words: Sequence[str]
    ) -> None:
        from schedperf.commands._vm_progress import telling  # noqa: PLC0415
        from schedperf.lab.vm.session import record_in_guests  # noqa: PLC0415

        is_kvm = self._accelerated.is_kvm
        request = _request(self._ctx, options, lambda: list(kernels), is_kvm=is_kvm, words=words)
        with telling(quiet=options["quiet"]) as tell:
            record_in_guests(request, _hypervisor(options, is_kvm=is_kvm), tell)


def _record(request: "Request", hypervisor: "Hypervisor", options: Mapping[str, Any]) -> int:
    from schedperf.commands._vm_progress import telling  # noqa: PLC0415
    from schedperf.lab.vm.session import bundle_path, record_in_guests  # noqa: PLC0415
    from schedperf_collectors.recorder.progress import format_duration  # noqa: PLC0415

    paths = [bundle_path(request.output, kernel) for kernel in request.kernels]
    began_s = time.monotonic()
    try:
        with interruptible(), telling(quiet=options["quiet"]) as tell:
            record_in_guests(request, hypervisor, tell)
    except Interrupted as error:
        kept = ", ".join(str(path) for path in paths if path.exists()) or "none"
        click.echo(f"schedperf: interrupted; bundles with finished boots: {kept}", err=True)
        return 128 + error.signum
    if not options["quiet"]:
        boots = request.boots * len(request.kernels)
        click.echo(f"{boots} boots in {format_duration(time.monotonic() - began_s)}", err=True)
    for path in paths:
        click.echo(path)
    click.echo(f"schedperf compare {shlex.join(map(str, paths))}")
    return 0


class Interrupted(KeyboardInterrupt):
    """The user ended the session by a signal."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.signum = signum


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Raise Interrupted in the block on SIGINT, SIGTERM or SIGHUP, which ends a guest.

    Signals that are ignored already stay ignored. After the first signal, all are ignored, so that
    finished boots are kept.

    :return: function that raises Interrupted if a signal has arrived; Python ignores exceptions
        of handlers at some places, e.g. while it starts a program
    """
    arrived: list[int] = []
    signums = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # nohup ignores SIGHUP on purpose.
    before = {
        signum: handler
        for signum in signums
        if (handler := signal.getsignal(signum)) != signal.SIG_IGN
    }

    def interrupt(signum: int, _frame: FrameType | None) -> None:
        # A second signal would leave a guest running or a bundle partly written.
        for signal_number in before:
            signal.signal(signal_number, signal.SIG_IGN)
        arrived.append(signum)
        check()

    def check() -> None:
        if arrived:
            raise Interrupted(arrived[0])

    for signum in before:
        signal.signal(signum, interrupt)
    try:
        yield check
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _request(
    ctx: click.Context,
    options: Mapping[str, Any],
    read_kernels: "Callable[[], list[Kernel]]",
    *,
    is_kvm: bool,
    words: Sequence[str] = (),
) -> "Request":
    from schedperf.commands._zipapp import build_zipapp  # noqa: PLC0415
    from schedperf.lab.vm.script import Work  # noqa: PLC0415
    from schedperf.lab.vm.session import (  # noqa: PLC0415
        Request,
        bundle_path,
        check_bundles,
    )

    chosen = [*words, *_recorder_options(ctx, options, is_kvm=is_kvm)]
    arguments = [*chosen, "--", *options["command_line"]]
    _check_work(arguments, options["command_line"])
    kernels = read_kernels()
    output: Path = options["output"]
    if not output.is_dir():
        problem = (
            "not a directory; give another path"
            if output.exists()
            else "no such directory; create it, or give an existing directory"
        )
        raise InputError(f"--output {output}: {problem}")
    paths = [bundle_path(output, kernel) for kernel in kernels]
    check_bundles(paths, may_exist=options["add_boots"])
    return Request(
        kernels=kernels,
        boots=options["boots"],
        work=Work(
            python=system_python(),
            recorder=build_zipapp(),
            arguments=arguments,
            setup=options["setup"],
            folder=_working_folder(),
        ),
        output=output,
    )


def _recorder_options(ctx: click.Context, options: Mapping[str, Any], *, is_kvm: bool) -> list[str]:
    """Return the options for ``record`` in a guest, with the defaults of guests."""
    arguments = ["-n", str(options["runs"]), *_choice(ctx, is_kvm=is_kvm)]
    if ctx.params["_instrumented"] is None:
        arguments.append(f"--instrumented={GUEST_INSTRUMENTED}")
    return [*arguments, *recorder_words(ctx), f"--recorded-as={json.dumps(given_words(ctx))}"]


def recorder_words(ctx: click.Context) -> Iterator[str]:
    """Yield the given options of ``record``, except those that choose collectors."""
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name.startswith("_") and name != "_collectors":
            value = ctx.params[name]
            values = value if parameter.multiple else [value]
            for given in values:
                if given is not None and given is not False:
                    yield _word(parameter, given)


def _word(parameter: click.Parameter, value: object) -> str:
    """Return an option with its value, or without one if it is a flag."""
    return parameter.opts[0] if value is True else f"{parameter.opts[0]}={value}"


def _collectors(ctx: click.Context) -> list[str]:
    given = ctx.params["_collectors"]
    # If an option is repeated, the last one counts, as in `record`.
    return given[-1].split(",") if given else list(GUEST_COLLECTORS)


def _choice(ctx: click.Context, *, is_kvm: bool) -> Iterator[str]:
    """Yield the options that choose the collectors.

    A guest may lack what a collector needs, so collectors that the user did not name may fail.
    Under emulation, "default" excludes the collector that is useless there, unless it is also
    named.
    """
    from schedperf_collectors.plugin import all_collectors  # noqa: PLC0415

    names = _collectors(ctx)
    by_default = [
        name
        for name, collector in all_collectors().items()
        if collector.default and collector.scope == "run" and (is_kvm or name != NOT_EMULATED)
    ]
    attempted = by_default if "default" in names else []
    named = [name for name in names if name != "default"]
    if not ctx.params["_collectors"]:
        attempted, named = [*attempted, *named], []
    yield f"--with={','.join(named)}"
    if attempted:
        yield f"--try={','.join(attempted)}"


def _check_work(arguments: Sequence[str], command_line: Sequence[str]) -> None:
    """Check in advance for errors that the recorder would report in the guest.

    :param arguments: arguments of ``record``
    :raises InputError: no command is given, its program is missing, or an option is wrong
    """
    from schedperf_collectors.recorder.captures import (  # noqa: PLC0415
        check_options,
        check_reachable,
        check_set,
        choose,
    )
    from schedperf_collectors.recorder.options import collectors_of_options  # noqa: PLC0415
    from schedperf_collectors.recorder.plan import check_placeholders, cross_points, fill  # noqa: PLC0415

    if not command_line:
        raise InputError("no command given; put it at the end, after --")
    parser = _record_parser()
    try:
        given = parser.parse_args(["-o", "guest.tar", *arguments[: arguments.index("--")]])
        load = shlex.split(given.load or "")
        chosen = choose(
            given.collectors,
            given.attempted,
            beside=collectors_of_options(given),
            without=given.left_out,
        )
        check_reachable(chosen, given.instrumented)
        for name, key, value in given.set:
            check_options({name: {key: value}})
            check_set([name], chosen)
        points = cross_points(given.point)
        check_placeholders([*command_line, *load], [name for name, _ in given.point])
    except RecordError as error:
        raise InputError(str(error)) from error
    for point in points:
        program = fill(command_line[:1], point)[0]
        if shutil.which(program) is None:
            raise InputError(f"{program}: no such program; install it or give its path")


def _record_parser() -> Any:
    parser = make_parser("record", "schedperf")
    # Its errors refer to the --help of this command.
    parser.prog = "schedperf vm"
    return parser


def _kernels(options: Mapping[str, Any]) -> "list[Kernel]":
    from schedperf.lab.vm.images import read_kernel  # noqa: PLC0415

    images = _named("--kernel", options["kernels"], "bzImage")
    folders = _named("--kernel-files", options["kernel_files"], "DIRECTORY")
    if len(images) < _FEWEST_KERNELS:
        raise InputError(
            f"--kernel: {len(images)} kernel(s) given (expected at least two, e.g. --kernel "
            "base=IMAGE "
            "--kernel new=IMAGE)"
        )
    for name in folders:
        if name not in images:
            raise InputError(
                f"--kernel-files {name}: no --kernel with this name; add --kernel {name}=IMAGE"
            )
    sources = _sources(options["sources"], list(images))
    kernels = [
        read_kernel(name, image, folders.get(name), _MODULES) for name, image in images.items()
    ]
    return [replace(kernel, source=sources.get(kernel.name)) for kernel in kernels]


def _sources(given: Sequence[str], kernels: Sequence[str]) -> "Mapping[str, Source]":
    from schedperf_collectors.recorder.source import named_sources, read_source  # noqa: PLC0415

    named = []
    for text in given:
        name, equals, path = text.partition("=")
        # JSON without a name may contain an equals sign, too.
        if not equals or not _NAME.match(name):
            name, path = "", text
        try:
            named.append((name, read_source(path)))
        except ValueError as error:
            raise InputError(f"--source: {error}") from error
    try:
        return named_sources(named, kernels)
    except RecordError as error:
        raise InputError(str(error)) from error


def _named(option: str, given: Sequence[str], what: str) -> dict[str, Path]:
    # what: the kind of path, as in an example.
    named: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals:
            raise InputError(f"{option} {text}: name missing (expected NAME=PATH, e.g. tip={text})")
        if not _NAME.match(name):
            raise InputError(
                f"{option} {text}: invalid name (expected at most 64 letters, digits and _ . "
                f"+ -, starting with a letter or digit, e.g. tip={path or what}); choose "
                "a name that is valid as a file name"
            )
        if not path:
            raise InputError(
                f"{option} {text}: path missing (expected NAME=PATH, e.g. {name}={what})"
            )
        if name in named:
            raise InputError(f"{option} {name}: name given twice; use different names")
        named[name] = Path(path)
    return named


def _working_folder() -> Path:
    from schedperf.lab.vm.script import HIDDEN  # noqa: PLC0415

    folder = Path.cwd()
    for hidden in HIDDEN:
        if folder.is_relative_to(hidden):
            raise InputError(
                f"{folder}: not visible in the guest, which mounts its own file system at "
                f"{hidden}; start from another directory"
            )
    return folder


def _hypervisor(options: Mapping[str, Any], *, is_kvm: bool) -> "Hypervisor":
    from schedperf.lab.vm.guest import Hypervisor  # noqa: PLC0415
    from schedperf.lab.vm.machine import make_machine, total_memory  # noqa: PLC0415

    machine = make_machine(
        options["cpus"], options["nodes"], options["threads"], options["memory"], total_memory()
    )
    return Hypervisor(
        vng=_find("vng", "pip install 'schedperf[vm]'"),
        machine=machine,
        is_kvm=is_kvm,
        kernel_arguments=options["kernel_args"],
        # A run may take as long as its timeout allows.
        silence_s=options["hung_after"] + float(options["_timeout"] or 0),
    )


def _find(program: str, remedy: str) -> str:
    # Programs of this environment are installed beside its Python, which may not be on the PATH.
    path = f"{os.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}"
    program_path = shutil.which(program, path=path)
    if program_path is None:
        raise InputError(f"{program}: not found; run: {remedy}")
    return program_path


def _try_acceleration(acceleration: str) -> "Acceleration":
    from schedperf.lab.vm.machine import Acceleration, try_kvm  # noqa: PLC0415

    machine = os.uname().machine
    if machine != _MACHINE:
        raise InputError(
            f"unsupported machine {machine} (expected {_MACHINE}); record on another machine"
        )
    _find("vng", "pip install 'schedperf[vm]'")
    qemu = _find(_QEMU, "apt-get install -y qemu-system-x86")
    if acceleration == "tcg":
        return Acceleration(is_kvm=False, reason="--accel tcg")
    tried = try_kvm(qemu)
    if acceleration == "kvm" and not tried.is_kvm:
        raise InputError(f"--accel kvm: {tried.reason}; use --accel tcg")
    return tried


def _describe_acceleration(accelerated: "Acceleration") -> str:
    if accelerated.is_kvm:
        return "guests run on KVM, so timings are valid"
    return (
        f"guests are emulated ({accelerated.reason}), so timings are informational and not used "
        "for the verdict; counts and layouts are valid"
    )


# Options of ``record`` are defined in the recorder.
command.params.extend(
    parameters(
        [option for option in _record_parser().options() if option.dest in _FORWARDED],
        takes_command=False,
    )
)
for _option in command.params:
    if isinstance(_option, click.Option) and _option.name in _GUEST_HELP:
        _option.help = _GUEST_HELP[_option.name]
