# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the recorder's command line and run the commands."""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from schedperf_collectors import __version__
from schedperf_collectors.boots import commands as boots
from schedperf_collectors.boots.agent import VERB
from schedperf_collectors.boots.doctor import Asked, doctor_boot
from schedperf_collectors.boots.retest import check_retest
from schedperf_collectors.contract import LOAD, MOST_BUDGETED, format_template
from schedperf_collectors.machine.errors import RecordError, printable
from schedperf_collectors.machine.orphans import adopt_orphans
from schedperf_collectors.machine.task_attributes import set_latency_nice, set_nice, set_slice
from schedperf_collectors.machine.temporary import remove_abandoned
from schedperf_collectors.recorder.ab import ab
from schedperf_collectors.recorder.analysis import Analysis
from schedperf_collectors.recorder.boot_options import OF_BOOTS
from schedperf_collectors.recorder.captures import (
    Chosen,
    check_options,
    check_reachable,
    check_set,
    choose,
)
from schedperf_collectors.recorder.doctor import Paper, examine_all, format_text, to_json
from schedperf_collectors.recorder.jobs import Job, read_jobs, without_jobs
from schedperf_collectors.recorder.journal import describe_left_over
from schedperf_collectors.recorder.journal_folder import journal_folder
from schedperf_collectors.recorder.looks import Looks
from schedperf_collectors.recorder.options import (
    AB_ACTIONS,
    COMMANDS,
    RUNS,
    Parser,
    collectors_of_options,
    make_parser,
    without_added,
)
from schedperf_collectors.recorder.places import find_session_places
from schedperf_collectors.recorder.plan import (
    FIRST_LOOK,
    MAX_RUNS,
    PAIR,
    ROUNDS,
    balanced_rounds,
    check_placeholders,
    cross_points,
    fill,
    williams,
)
from schedperf_collectors.recorder.progress import Progress
from schedperf_collectors.recorder.record import Target, record
from schedperf_collectors.recorder.request import Request
from schedperf_collectors.recorder.servers import FoundServer, find_server
from schedperf_collectors.recorder.service import read_service
from schedperf_collectors.recorder.sides import check_feature, of_kernel, read_settings
from schedperf_collectors.recorder.source import only_source
from schedperf_collectors.recorder.stop import status_lines, stop
from schedperf_collectors.registry import PluginError

# A shell reports a program killed by a signal with 128 added.
_BY_SIGNAL = 128


def main(argv: Sequence[str] | None = None) -> int:
    """Run the recorder; return its exit status.

    :param argv: arguments without the program's name; None for those of this process
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == [VERB]:
            return boots.resume()
        _run(arguments)
        sys.stdout.flush()
    except (RecordError, PluginError) as error:
        kind = "" if error.exit_status > _BY_SIGNAL else "error: "
        sys.stderr.write(f"schedperf: {kind}{printable(str(error))}\n")
        return error.exit_status
    except BrokenPipeError:
        # The reader of stdout has closed it; that is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BY_SIGNAL + signal.SIGPIPE
    return 0


def _run(arguments: Sequence[str]) -> None:
    prog = Path(sys.argv[0]).name
    prog = prog if prog.endswith(".pyz") else "schedperf"
    name = _parse_name(arguments[:1], prog)
    if name == "ab" and arguments[1:2] and arguments[1] in AB_ACTIONS:
        _act(arguments[1], arguments[2:])
        return
    before, command = _split(arguments[1:])
    options, unknown = make_parser(name, prog).parse_known_args(before)
    if unknown:
        raise RecordError(
            f"{unknown[0]}: unknown option; see --help, and put the command at the end, after --"
        )
    if name == "exec":
        _exec(options, command)
    if name == "doctor":
        _warn_of_left_over(Progress())
        _run_doctor(options)
        return
    words = [prog, name, *without_added(before), "--", *command]
    options.recorded_as = options.recorded_as or words
    if name == "ab" and _boots_kernels(options):
        names = _check_boots(options)
        boots.start(options, before, _planned_jobs(options, before, command), names)
        return
    adopt_orphans()
    if name == "ab":
        options.source = only_source(options.source)
    progress = Progress(options.events, quiet=options.quiet)
    _warn_of_left_over(progress)
    chosen = _choose(options)
    server = find_server(options)
    if name == "record":
        looks = _looks(options, progress)
        # The interim analyses ask their own questions.
        analysis = None if options.until_decided else _analysis(options, progress)
        request = _request(options, command, looks, server)
        _check_command(request)
        record(request, _target(options), chosen, progress, looks, analysis=analysis)
    else:
        _ab(options, command, chosen, progress, server)


def _ab(
    options: argparse.Namespace,
    command: Sequence[str],
    chosen: Chosen,
    progress: Progress,
    server: FoundServer | None,
) -> None:
    settings = of_kernel(read_settings(options), dict(options.factor).get("kernel"))
    check_feature(options.feature)
    if options.probe is not None:
        for line in find_session_places().not_tried:
            progress.note(f"not tried: {line}")
    looks = _looks_at_pairs(options, len(settings), progress)
    if looks is None:
        options.runs = _rounds(options.runs, len(settings), progress)
    request = _request(options, command, looks, server)
    ab(
        request,
        settings,
        chosen,
        progress,
        looks,
        force=options.force,
        append=options.append,
        analysis=_analysis(options, progress),
    )
    if not options.quiet:
        paths = [str(setting.path) for setting in settings]
        sys.stdout.write(f"schedperf compare {format_template(paths)}\n")


def _act(action: str, rest: Sequence[str]) -> None:
    """Print the status of ``ab`` recordings, stop and undo them, or continue one.

    :raises RecordError: the action failed, or no recording is left to continue
    """
    options = boots.parse_action(action, rest)
    if boots.act(action, options):
        return
    if action == "continue":
        raise RecordError(
            "ab continue: no recording of `ab --kernel --resume` on this machine; give -o PREFIX "
            "for one of --on"
        )
    folder = journal_folder()
    is_any = False
    for line in stop(folder, options.output) if action == "stop" else status_lines(folder):
        is_any = True
        sys.stdout.write(f"{printable(line)}\n")
        # A teardown is printed before it runs.
        sys.stdout.flush()
    if not is_any:
        sys.stdout.write("no recording is running, and nothing is left of a killed one\n")


def _boots_kernels(options: argparse.Namespace) -> bool:
    """Return whether ``ab`` boots kernels.

    :raises RecordError: it does not, but an option is only valid with --kernel
    """
    if options.kernel:
        return True
    for name in OF_BOOTS:
        if getattr(options, name) not in (None, False, []):
            option = name.replace("_", "-")
            raise RecordError(
                f"--{option}: only valid with --kernel; add --kernel NAME=REL for each kernel"
            )
    return False


def _check_boots(options: argparse.Namespace) -> list[str]:
    """Check the options of each boot's recording; return the names of its settings, [] if none.

    :raises RecordError: an option is invalid, or cannot be combined with --kernel
    """
    pair = ("base", "new")
    parts = ("", "_setup", "_teardown", "_label")
    for name in (f"{side}{part}" for side in pair for part in parts):
        if getattr(options, name):
            option = name.replace("_", "-")
            raise RecordError(
                f"--{option}: cannot be combined with --kernel; use -o PREFIX, and --setup "
                "NAME=CMD for settings"
            )
    for name in ("until_decided", "max_runs"):
        if getattr(options, name):
            option = name.replace("_", "-")
            raise RecordError(
                f"--{option}: cannot be combined with --kernel; set the number of boots with "
                "--boots and of runs with -n"
            )
    if options.probe:
        raise RecordError(
            "--probe: cannot be combined with --kernel, because no user's shell starts the "
            "command there; run it on the booted machine"
        )
    if options.workload_pid:
        raise RecordError(
            "--workload-pid: cannot be combined with --kernel, because each boot has other pids; "
            "use --workload-unit"
        )
    check_retest(options)
    _choose(options)
    options.runs = options.runs or RUNS
    if not (options.setup or options.service or options.feature or options.teardown):
        return []
    return [str(setting.name) for setting in read_settings(options)]


def _planned_jobs(
    options: argparse.Namespace, before: Sequence[str], command: Sequence[str]
) -> Sequence[boots.PlannedJob]:
    """Return what each boot records: the command, or the jobs of a file.

    :raises RecordError: there is neither or both, or a job is invalid
    """
    if options.jobs is None:
        return [boots.PlannedJob("", [], options.recorded_as, _request_of_boot(options, command))]
    if command or options.point:
        other, instead = ("--point", "points") if options.point else ("a command after --", "run")
        raise RecordError(f"--jobs: cannot be combined with {other}; write {instead} in the file")
    return [_planned_job(job, options, before) for job in read_jobs(options.jobs)[1]]


def _planned_job(job: Job, options: argparse.Namespace, before: Sequence[str]) -> boots.PlannedJob:
    parser = make_parser("ab", "schedperf")
    own = parser.parse_args([*before, *job.options])
    own.runs = own.runs or RUNS
    try:
        _choose(own)
        request = _request_of_boot(own, job.command)
    except RecordError as error:
        raise RecordError(f"--jobs: job {job.name}: {error}", error.exit_status) from error
    name = options.recorded_as[:2]
    words = [*name, *without_jobs(without_added(before)), *job.options, "--", *job.command]
    return boots.PlannedJob(job.name, job.options, words, request)


def _request_of_boot(options: argparse.Namespace, command: Sequence[str]) -> Request:
    # The commit of each kernel is checked when that kernel is booted.
    return _request(argparse.Namespace(**{**vars(options), "source": None}), command)


def _warn_of_left_over(progress: Progress) -> None:
    remove_abandoned()
    for line in describe_left_over(journal_folder()):
        progress.warn(line)


def _parse_name(arguments: Sequence[str], prog: str) -> str:
    parser = Parser(
        prog=prog,
        description="Record runs of a benchmark on this machine.",
        epilog="\n".join(f"  {name:<10}{command.summary}" for name, command in COMMANDS.items()),
        usage=f"{prog} COMMAND [OPTIONS]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"schedperf {__version__}")
    parser.add_argument(
        "name", choices=COMMANDS, metavar="COMMAND", help="one of the commands below"
    )
    return str(parser.parse_args(arguments).name)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before and after the first ``--``."""
    before = list(arguments)
    if "--" not in before:
        return before, []
    index = before.index("--")
    return before[:index], before[index + 1 :]


def _looks(options: argparse.Namespace, progress: Progress) -> Looks | None:
    """Return the settings of interim analyses; None without --until-decided.

    Set ``options.runs`` to its default if it was not given.

    :raises RecordError: the options cannot be combined, or a number is out of range
    """
    if not options.until_decided:
        _refuse_without_looks(options, ("against", "max_runs"))
        options.runs = options.runs or RUNS
        return None
    _check_looks(options)
    return _begin_looks(options, options.against, progress)


def _looks_at_pairs(options: argparse.Namespace, sides: int, progress: Progress) -> Looks | None:
    """Return the settings of interim analyses of ``ab``; None without --until-decided.

    With --until-decided, set ``options.runs`` to its default if it was not given.

    :raises RecordError: the options cannot be combined, a number is out of range, or there are not
        two sides
    """
    if not options.until_decided:
        _refuse_without_looks(options, ("max_runs",))
        return None
    if options.append:
        raise RecordError(
            "--append: cannot be combined with --until-decided, because interim tests are "
            "planned before the first run; use -o PREFIX, or --append with a fixed -n"
        )
    if sides != PAIR:
        raise RecordError(
            f"--until-decided: {sides} sides (expected two); set the number of rounds with -n"
        )
    _check_has_analysis(options, "ab")
    return _begin_looks(options, None, progress)


def _refuse_without_looks(options: argparse.Namespace, names: Sequence[str]) -> None:
    for name in names:
        if getattr(options, name) is not None:
            option = name.replace("_", "-")
            raise RecordError(f"--{option}: only valid with --until-decided; add --until-decided")


def _begin_looks(options: argparse.Namespace, against: Path | None, progress: Progress) -> Looks:
    options.runs = first = options.runs or FIRST_LOOK
    max_runs = options.max_runs or MAX_RUNS
    if not FIRST_LOOK <= first <= max_runs <= MOST_BUDGETED:
        raise RecordError(
            f"-n {first} --max-runs {max_runs}: out of range (expected {FIRST_LOOK} <= n <= "
            f"max-runs <= {MOST_BUDGETED}, e.g. -n {FIRST_LOOK} --max-runs {MAX_RUNS})"
        )
    return Looks(Analysis(options.ask_fd, progress), against, first, max_runs, progress)


def _analysis(options: argparse.Namespace, progress: Progress) -> Analysis | None:
    return None if options.ask_fd is None else Analysis(options.ask_fd, progress)


def _check_looks(options: argparse.Namespace) -> None:
    if options.append is not None:
        raise RecordError(
            "--append: cannot be combined with --until-decided, because interim tests are "
            "planned before the first run; use -o FILE, or --append with a fixed -n"
        )
    if options.against is None:
        raise RecordError("--until-decided: no bundle to compare with; add --against base.tar")
    if options.against.resolve() == options.output.resolve():
        raise RecordError(f"{options.output}: given to both -o and --against; give another -o FILE")
    _check_has_analysis(options, "record")


def _check_has_analysis(options: argparse.Namespace, name: str) -> None:
    if options.ask_fd is None:
        raise RecordError(
            "--until-decided: not available in the recorder of `schedperf pack`, which does not "
            f"include the analysis; set the number of runs with -n, or use `schedperf {name}`"
        )


def _rounds(given: int | None, sides: int, progress: Progress) -> int:
    """Return the number of rounds; warn if it makes the order of the sides unbalanced.

    :param given: number that the user gave; None for the default
    """
    if sides <= PAIR:
        return given or ROUNDS
    rounds = given or balanced_rounds(sides, ROUNDS)
    balanced = balanced_rounds(sides, rounds)
    if balanced != rounds:
        progress.warn(
            f"-n {rounds}: the order of {sides} sides is not balanced (expected a multiple of "
            f"{len(williams(sides))}); use -n {balanced}"
        )
    return rounds


def _request(
    options: argparse.Namespace,
    command: Sequence[str],
    looks: Looks | None = None,
    server: FoundServer | None = None,
) -> Request:
    if not command:
        raise RecordError("no command given; put it at the end, after --")
    points = cross_points(options.point)
    load = shlex.split(options.load or "")
    check_placeholders([*command, *load], [name for name, _ in options.point])
    seed = options.seed
    return Request(
        template=tuple(command),
        points=tuple(points),
        runs=options.runs if looks is None else looks.max_runs,
        at_least=options.runs,
        instrumented=options.instrumented,
        warmup=options.warmup,
        seed=random.SystemRandom().getrandbits(32) if seed is None else seed,
        metrics=tuple(options.metric),
        vary=tuple(options.vary),
        options=_collector_options(options, server),
        turn=options.turn,
        stop_file=options.stop_file,
        factors=dict(options.factor),
        recorded_as=tuple(options.recorded_as or ()),
        source=options.source,
        machine=options.machine,
        facts=dict(options.fact),
        load=format_template(load) or None,
        server=server.text if server else None,
        shareable=options.shareable,
        retest=options.retest_plan,
    )


def _collector_options(
    options: argparse.Namespace, server: FoundServer | None
) -> Mapping[str, Mapping[str, str]]:
    settings = list(options.set)
    if server is not None:
        settings += server.settings
    # Common settings have their own options.
    if options.kernel_files is not None:
        folder = str(Path(options.kernel_files).absolute())
        settings += [(name, "kernel_files", folder) for name in ("host", "layout", "perf_c2c")]
    if options.load:
        settings.append((LOAD, "command", options.load))
    if options.pelt_loader is not None:
        settings.append(("bpf_pelt", "loader", options.pelt_loader))
    if options.shareable:
        settings.append(("layout", "addresses", "no"))
    if options.timeout is not None:
        settings.append(("workload", "timeout_s", str(options.timeout)))
    return _group(settings)


def _choose(options: argparse.Namespace) -> Chosen:
    chosen = choose(
        options.collectors,
        options.attempted,
        beside=collectors_of_options(options),
        without=options.left_out,
        shareable=options.shareable,
    )
    check_reachable(chosen, options.instrumented)
    check_set(_group(options.set), chosen)
    return chosen


def _group(settings: Sequence[tuple[str, str, str]]) -> Mapping[str, Mapping[str, str]]:
    grouped: dict[str, dict[str, str]] = {}
    for collector, name, value in settings:
        grouped.setdefault(collector, {})[name] = value
    check_options(grouped)
    return grouped


def _check_command(request: Request) -> None:
    """Check before anything is recorded that the program of each point exists.

    :raises RecordError: a program does not exist
    """
    for point in request.points:
        program = fill(request.template[:1], point)[0]
        if shutil.which(program) is None:
            raise RecordError(f"{program}: no such program; install it or give its path")


def _target(options: argparse.Namespace) -> Target:
    if options.append is not None and options.label is not None:
        raise RecordError("--label: the bundle given to --append already has a label; omit --label")
    return Target(
        path=options.append or options.output,
        append=options.append is not None,
        force=options.force,
        label=options.label,
        setup=options.setup,
        teardown=options.teardown,
        service=read_service("", options.service),
    )


def _exec(options: argparse.Namespace, command: Sequence[str]) -> NoReturn:
    """Replace this process by the command, with the attributes of the options.

    :raises RecordError: no command is given, an attribute cannot be set, or the command cannot be
        executed
    """
    if not command:
        raise RecordError("no command given; put it at the end, after --")
    if options.nice is not None:
        set_nice(options.nice)
    if options.slice is not None:
        set_slice(options.slice)
    if options.latency_nice is not None:
        set_latency_nice(options.latency_nice)
    try:
        os.execvp(command[0], list(command))  # noqa: S606 # what the user asked for
    except OSError as error:
        raise RecordError(
            f"{command[0]}: {(error.strerror or str(error)).lower()}; give another command"
        ) from error


def _run_doctor(options: argparse.Namespace) -> None:
    if options.boot is not None:
        asked = Asked(options.boot, options.kernel, options.prove, options.json)
        for text in doctor_boot(asked):
            sys.stdout.write(text)
        return
    if options.prove or options.kernel:
        raise RecordError("--prove and --kernel: only valid with --boot; add --boot")
    examined = examine_all(_group(options.set))
    if options.json:
        sys.stdout.write(to_json(examined))
        return
    is_terminal = sys.stdout.isatty()
    # Output for programs is not shortened.
    columns = shutil.get_terminal_size().columns if is_terminal or "COLUMNS" in os.environ else None
    coloured = is_terminal and not os.environ.get("NO_COLOR")
    sys.stdout.write(format_text(examined, Paper(columns, coloured), verbose=options.verbose))
