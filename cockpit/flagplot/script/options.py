"""The one table of submit options: `#SBATCH` lines, `#FLAGPLOT` lines and the command line all read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from flagplot_wire import constraint, values
from flagplot_wire.errors import Refused
from flagplot_wire.hostlist import expand_hosts
from flagplot_wire.job import Transfer
from flagplot_wire.mail import check_mail_user, parse_mail_type
from flagplot_wire.units import parse_begin, parse_count, parse_memory, parse_time_limit


@dataclass(frozen=True, slots=True)
class When:
    """The moment and zone that `--begin` is read in."""

    now: int
    utc_offset_s: int = 0


Draft = dict[str, Any]
"""Fields of `JobSpec` and `Request` by name, and `export`, as the options set them."""

Setter = Callable[[Draft, str, When], str | None]
"""Reads a value into the draft; returns what part of it has no effect yet, if any."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `argument` says whether it takes a value: `none`, `required`, or `optional` (only by `=`)."""

    long: str
    short: str
    argument: Literal["none", "required", "optional"]
    metavar: str
    help: str
    set: Setter
    effective: bool = True


def _text(field: str) -> Setter:
    def set_text(draft: Draft, value: str, when: When) -> None:
        draft[field] = value

    return set_text


def _whole(field: str, least: int = 1) -> Setter:
    def set_whole(draft: Draft, value: str, when: When) -> None:
        number = parse_count(value)
        if number < least:
            raise Refused("bad_count", f"{value!r} must be at least {least}")
        draft[field] = number

    return set_whole


def _value(field: str, read: Callable[[str], Any]) -> Setter:
    def set_value(draft: Draft, value: str, when: When) -> None:
        draft[field] = read(value)

    return set_value


def _fixed(field: str, fixed: Any) -> Setter:
    def set_fixed(draft: Draft, value: str, when: When) -> None:
        draft[field] = fixed

    return set_fixed


def _nodes(draft: Draft, value: str, when: When) -> None:
    draft["nodes_min"], draft["nodes_max"] = values.parse_node_count(value)


def _gres(draft: Draft, value: str, when: When) -> None:
    draft["gpus_per_node"], draft["shards"], draft["share_type"] = values.parse_gres(value)


def _gres_flags(draft: Draft, value: str, when: When) -> str | None:
    flags = values.parse_gres_flags(value)
    draft["near_gpus"] = "enforce-binding" in flags
    return ",".join(flag for flag in flags if flag != "enforce-binding") or None


def _switches(draft: Draft, value: str, when: When) -> None:
    draft["switches"], draft["switches_wait_s"] = values.parse_switches(value)


def _constraint(draft: Draft, value: str, when: When) -> None:
    constraint.parse(value)
    draft["constraint"] = value.strip()


def _mail_type(draft: Draft, value: str, when: When) -> str | None:
    draft["mail_type"], idle = parse_mail_type(value)
    return ",".join(idle) or None


def _begin(draft: Draft, value: str, when: When) -> None:
    draft["begin"] = parse_begin(value, when.now, when.utc_offset_s)


MAX_NICE = 2**31 - 3
"""As sbatch(1) takes it."""


def _nice(draft: Draft, value: str, when: When) -> None:
    try:
        nice = int(value) if value else 100
    except ValueError as wrong:
        raise Refused("bad_count", f"{value!r} is no whole number") from wrong
    if abs(nice) > MAX_NICE:
        raise Refused("bad_count", f"a nice value of {value} is out of range: it is -{MAX_NICE} to {MAX_NICE}")
    draft["nice"] = nice


def _transfer(field: str, read: Callable[[str], Transfer]) -> Setter:
    def add(draft: Draft, value: str, when: When) -> None:
        draft[field] = (*draft.get(field, ()), read(value))

    return add


def _choice(field: str, *words: str) -> Setter:
    def set_choice(draft: Draft, value: str, when: When) -> None:
        if value not in words:
            raise Refused("bad_value", f"{value!r} is none of {', '.join(words)}")
        draft[field] = value

    return set_choice


def _exclusive(draft: Draft, value: str, when: When) -> None:
    if value not in ("", "user"):
        raise Refused("bad_value", f"{value!r}: --exclusive takes nothing or =user")
    draft["exclusive"], draft["oversubscribe"] = True, False


def _oversubscribe(draft: Draft, value: str, when: When) -> None:
    draft["exclusive"], draft["oversubscribe"] = False, True


def _nothing(draft: Draft, value: str, when: When) -> None:
    """An option that is read and has no effect yet."""


def _hosts(field: str) -> Setter:
    return _value(field, lambda text: tuple(expand_hosts(text)))


_Argument = Literal["none", "required", "optional"]
_WITHOUT_EFFECT: tuple[tuple[str, str, _Argument], ...] = (
    ("acctg-freq", "", "required"),
    ("core-spec", "S", "required"),
    ("cores-per-socket", "", "required"),
    ("cpu-freq", "", "required"),
    ("delay-boot", "", "required"),
    ("distribution", "m", "required"),
    ("export-file", "", "required"),
    ("extra-node-info", "B", "required"),
    ("gpu-bind", "", "required"),
    ("gpu-freq", "", "required"),
    ("hint", "", "required"),
    ("ignore-pbs", "", "none"),
    ("kill-on-invalid-dep", "", "required"),
    ("mem-bind", "", "required"),
    ("mincpus", "", "required"),
    ("no-kill", "k", "optional"),
    ("ntasks-per-core", "", "required"),
    ("ntasks-per-gpu", "", "required"),
    ("ntasks-per-socket", "", "required"),
    ("overcommit", "O", "none"),
    ("prefer", "", "required"),
    ("profile", "", "required"),
    ("propagate", "", "optional"),
    ("quiet", "Q", "none"),
    ("signal", "", "required"),
    ("sockets-per-node", "", "required"),
    ("spread-job", "", "none"),
    ("threads-per-core", "", "required"),
    ("time-min", "", "required"),
    ("tmp", "", "required"),
    ("verbose", "v", "none"),
    ("wait-all-nodes", "", "required"),
    ("wckey", "", "required"),
)
"""Options of sbatch that are read, warned of, and do nothing yet: (long, short, argument)."""

OPTIONS: tuple[Option, ...] = (
    Option("account", "A", "required", "NAME", "Account that the job belongs to.", _text("account")),
    Option(
        "array", "a", "required", "INDICES", "Run an array: 0-9, 1,3,5, 0-15:4; %N after it runs at most N at once.",
        _value("array", values.parse_array),
    ),
    Option("begin", "b", "required", "TIME", "Start not before: now+1hour, 16:00, 2026-12-24T18:00.", _begin),
    Option("chdir", "D", "required", "DIR", "Folder that the job works in.", _text("work_dir")),
    Option("comment", "", "required", "TEXT", "A comment, shown with the job.", _text("comment")),
    Option(
        "constraint", "C", "required", "FEATURES",
        "Node features: a100, nvlink&ssd, a|b, (a|b)&!c, [a|b] one for all nodes, a*2 for two nodes.", _constraint,
    ),
    Option("container-image", "", "required", "IMAGE", "Run the script in a container of this image.", _text("container_image")),
    Option(
        "container-mounts", "", "required", "MOUNTS", "More folders in the container: SRC[:DST[:ro]],...",
        _text("container_mounts"),
    ),
    Option("container-workdir", "", "required", "DIR", "Folder to work in within the container.", _text("container_workdir")),
    Option("contiguous", "", "none", "", "Nodes that follow one another by name.", _fixed("contiguous", True)),
    Option("cpus-per-gpu", "", "required", "N", "CPUs for each whole GPU, instead of --cpus-per-task.", _whole("cpus_per_gpu")),
    Option("cpus-per-task", "c", "required", "N", "CPUs for each task.", _whole("cpus_per_task")),
    Option(
        "dependency", "d", "required", "LIST", "Wait for jobs: afterok:41, afterany:41:42, after:41+10, singleton.",
        _value("dependency", values.parse_dependency),
    ),
    Option("error", "e", "required", "PATTERN", "File for standard error; joined to the output without it.", _text("stderr")),
    Option("exclude", "x", "required", "HOSTS", "Nodes not to use.", _hosts("exclude")),
    Option("exclusive", "", "optional", "user", "Share no node with other jobs.", _exclusive),
    Option("export", "", "required", "VARS", "Environment to take along: ALL (default), NONE, or NAME,NAME=VALUE.", _text("export")),
    Option("gpus", "G", "required", "[TYPE:]N", "Whole GPUs for the job in all.", _value("gpus", values.parse_gpus)),
    Option(
        "gpus-per-node", "", "required", "[TYPE:]N", "Whole GPUs on each node.", _value("gpus_per_node", values.parse_gpus)
    ),
    Option(
        "gpus-per-task", "", "required", "[TYPE:]N", "Whole GPUs for each task.", _value("gpus_per_task", values.parse_gpus)
    ),
    Option("gres", "", "required", "LIST", "gpu[:TYPE][:N] on each node, or shard:N of one GPU.", _gres),
    Option(
        "gres-flags", "", "required", "LIST",
        "enforce-binding: start only with CPUs on the NUMA nodes of the job's GPUs.", _gres_flags,
    ),
    Option("hold", "H", "none", "", "Submit held; `flagplot release` lets it go.", _fixed("hold", "user")),
    Option("input", "i", "required", "PATTERN", "File for standard input.", _text("stdin")),
    Option("job-name", "J", "required", "NAME", "Name of the job; the script's name without it.", _text("name")),
    Option(
        "launch", "", "required", "batch|tasks",
        "batch: the script runs once, on the first node; tasks: once for each task, with its rank.",
        _choice("launch", "batch", "tasks"),
    ),
    Option("licenses", "L", "required", "NAME[:N],...", "Licenses of the cluster to take while running: matlab:2,ansys.",
           _value("licenses", values.parse_licenses)),
    Option("mail-type", "", "required", "TYPES",
           "Send mail: NONE, BEGIN, END, FAIL, REQUEUE, ALL, TIME_LIMIT, TIME_LIMIT_90, _80, _50, ARRAY_TASKS.", _mail_type),
    Option("mail-user", "", "required", "ADDRESSES", "Whom to send mail to: users or addresses; the submitter without it.",
           _value("mail_user", check_mail_user)),
    Option("mem", "", "required", "SIZE", "Memory on each node; 0 is all of it.", _value("mem_per_node_mib", parse_memory)),
    Option("mem-per-cpu", "", "required", "SIZE", "Memory for each CPU.", _value("mem_per_cpu_mib", parse_memory)),
    Option("mem-per-gpu", "", "required", "SIZE", "Memory for each GPU.", _value("mem_per_gpu_mib", parse_memory)),
    Option("nice", "", "optional", "N", "Lower (or, for operators, raise) the priority.", _nice),
    Option("no-requeue", "", "none", "", "Do not start the job again when its node fails.", _fixed("requeue", False)),
    Option("nodelist", "w", "required", "HOSTS", "Nodes that the job must have.", _hosts("nodelist")),
    Option("nodes", "N", "required", "N[-M]", "Number of nodes.", _nodes),
    Option("ntasks", "n", "required", "N", "Number of tasks in all: of one node, unless -N says more.", _whole("tasks")),
    Option("ntasks-per-node", "", "required", "N", "Tasks on each node.", _whole("tasks_per_node")),
    Option("open-mode", "", "required", "append|truncate", "What happens to an output file that exists.",
           _choice("open_mode", "append", "truncate")),
    Option("output", "o", "required", "PATTERN", "File for standard output: %j job, %A array, %a index, %x name, %N node.",
           _text("stdout")),
    Option("oversubscribe", "s", "none", "", "Accept other jobs on its nodes where a partition gives whole nodes.",
           _oversubscribe, effective=False),
    Option("partition", "p", "required", "NAME", "Partition to run in.", _text("partition")),
    Option("qos", "q", "required", "NAME", "Quality of service.", _text("qos")),
    Option("requeue", "", "none", "", "Start the job again when its node fails (the default).", _fixed("requeue", True)),
    Option("reservation", "", "required", "NAME", "Run in this reservation.", _text("reservation")),
    Option("stage-in", "", "required", "SRC:DEST", "Copy from here to the job's nodes before it starts; may be given again.",
           _transfer("stage_in", values.parse_stage_in)),
    Option("stage-out", "", "required", "SRC[:DEST]", "Keep from its first node after it ended, for flagplot fetch.",
           _transfer("stage_out", values.parse_stage_out)),
    Option("switches", "", "required", "N[@TIME]",
           "At most so many leaf switches; after waiting TIME (as --time) any number will do.", _switches),
    Option("time", "t", "required", "LIMIT", "Time limit: minutes, 2:00:00, 1-12 (days-hours); 0 for none.",
           _value("time_limit_s", parse_time_limit)),
    Option("vram", "", "required", "SIZE", "A share of one GPU with this much memory, rounded up to shards.",
           _value("vram_mib", parse_memory)),
    *(
        Option(long, short, argument, "", "Read for Slurm's sake; has no effect yet.", _nothing, False)
        for long, short, argument in _WITHOUT_EFFECT
    ),
)  # fmt: skip

BY_LONG = {option.long: option for option in OPTIONS}
BY_SHORT = {option.short: option for option in OPTIONS if option.short}


@dataclass(frozen=True, slots=True)
class Given:
    """An option as somebody gave it, and where (`train.sh line 4`, `command line`)."""

    option: Option
    value: str
    where: str
    written: str


def read_words(words: tuple[str, ...] | list[str], where: str) -> tuple[list[Given], list[str]]:
    """Read options by the rules of getopt_long(3), up to the first word that is none (or `--`).

    Long options may be abbreviated; an optional value comes only with `=`; a short option's value follows at
    once or as the next word. Returns the options and the words left over.
    """
    given: list[Given] = []
    rest = list(words)
    while rest:
        word = rest[0]
        if word == "--":
            return given, rest[1:]
        if word == "-" or not word.startswith("-"):
            break
        rest.pop(0)
        if word.startswith("--"):
            given.append(_read_long(word, rest, where))
        else:
            given.extend(_read_short(word, rest, where))
    return given, rest


def _read_long(word: str, rest: list[str], where: str) -> Given:
    name, equals, value = word[2:].partition("=")
    option = BY_LONG.get(name) or _abbreviated(name, where)
    if option.argument == "none" and equals:
        raise Refused("bad_option", f"{where}: --{option.long} takes no value")
    if option.argument == "required" and not equals:
        if not rest:
            raise Refused("bad_option", f"{where}: --{option.long} needs a value ({option.metavar})")
        value = rest.pop(0)
    return Given(option, value, where, f"--{option.long}={value}" if value else f"--{option.long}")


def _abbreviated(name: str, where: str) -> Option:
    fitting = [option for option in OPTIONS if option.long.startswith(name)] if name else []
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        several = ", ".join(f"--{option.long}" for option in fitting)
        raise Refused("bad_option", f"{where}: --{name} could be {several}")
    raise Refused("bad_option", f"{where}: there is no option --{name}", "flagplot-script(7) lists the options")


def _read_short(word: str, rest: list[str], where: str) -> list[Given]:
    given = []
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        option = BY_SHORT.get(letter)
        if option is None:
            raise Refused(
                "bad_option", f"{where}: there is no option -{letter}", "flagplot-script(7) lists the options"
            )
        value = ""
        if option.argument != "none":
            value, letters = letters, ""
            if not value and option.argument == "required":
                if not rest:
                    raise Refused("bad_option", f"{where}: -{letter} needs a value ({option.metavar})")
                value = rest.pop(0)
        given.append(Given(option, value, where, f"-{letter} {value}".rstrip()))
    return given
