"""A unit with its drop-ins and environment files. Reads files below a root; what can't be read is remarked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.plan.migrate import unit_text, words
from dsv4_pd.plan.migrate.unit_text import Assignment

# In this order: the first folder that has a file of that name decides, for units as for drop-ins.
FOLDERS = ("etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system",
           "lib/systemd/system")  # fmt: skip
_LISTS = ("ExecStart", "Environment", "EnvironmentFile", "ExecStartPre", "ExecStartPost", "UnsetEnvironment")
_PREFIXES = "@-:+!|"


@dataclass(frozen=True, slots=True)
class Unit:
    """One service as systemd would see it. Secrets may stand in `environment` and `commands`: never print those."""

    name: str
    path: Path
    commands: tuple[tuple[str, ...], ...] = ()  # of ExecStart, variables in place
    environment: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)  # variable -> the file that sets it
    directives: tuple[Assignment, ...] = ()  # every other assignment
    remarks: tuple[str, ...] = ()  # what could not be read, in words without values


def find(argument: str, root: Path) -> Path:
    """The file of a unit that is given by path or by name.

    Raises:
        SettingsError: there is none.
    """
    path = Path(argument)
    if path.is_file():
        return path
    name = argument if "." in argument else f"{argument}.service"
    for folder in FOLDERS:
        if (root / folder / name).is_file():
            return root / folder / name
    looked = ", ".join(f"/{folder}" for folder in FOLDERS)
    remedy = "give the unit's file: `systemctl show -p FragmentPath UNIT` names it"
    raise SettingsError([Problem(argument, "no such unit", f"a file, or a unit below {looked}", remedy)])


def read(argument: str, root: Path) -> Unit:
    """The unit with everything that it names."""
    path = find(argument, root)
    texts = [(path, _text(path)), *((drop_in, _text(drop_in)) for drop_in in drop_ins(path, root))]
    assignments: list[tuple[Path, Assignment]] = []
    remarks: list[str] = []
    for file, text in texts:
        for item in unit_text.read(text):
            if not item.key:
                remarks.append(f"{file.name}, line {item.line}: no assignment; systemd ignores it")
            elif item.key in _LISTS and not item.value:
                assignments = [pair for pair in assignments if pair[1].key != item.key]
            else:
                assignments.append((file, item))
    return _made(path, assignments, remarks, root)


def drop_ins(path: Path, root: Path) -> list[Path]:
    """`*.conf` of the unit's drop-in folders by file name; of one name the folder that comes first has it."""
    found: dict[str, Path] = {}
    folders = [path.parent, *(root / folder for folder in FOLDERS)]
    for folder in dict.fromkeys(folders):
        for name in _folders_of(path.name):
            for file in sorted((folder / name).glob("*.conf")):
                found.setdefault(file.name, file)
    return [found[name] for name in sorted(found)]


def _folders_of(unit: str) -> Iterator[str]:
    """The unit's own, its template's, those of its name cut at each dash, and all services'."""
    yield f"{unit}.d"
    stem, _, suffix = unit.rpartition(".")
    template, at, _ = stem.partition("@")
    if at:
        yield f"{template}@.{suffix}.d"
    parts = template.split("-")
    for count in range(len(parts) - 1, 0, -1):
        yield f"{'-'.join(parts[:count])}-.{suffix}.d"
    yield f"{suffix}.d"


def _made(path: Path, assignments: Sequence[tuple[Path, Assignment]], remarks: list[str], root: Path) -> Unit:
    user = next((item.value for _, item in reversed(assignments) if item.key == "User"), "")

    def plain(text: str) -> str:
        found, unknown = words.specified(text, path.name, user)
        remarks.extend(f"{path.name}: the specifier {name} is not known here" for name in unknown)
        return found

    variables, origins = _environment(assignments, remarks, plain, root)
    commands: list[tuple[str, ...]] = []
    for file, item in assignments:
        if item.key != "ExecStart":
            continue
        try:
            commands += _commands(plain(item.value), variables, remarks, path.name)
        except words.Unreadable as error:
            remarks.append(f"{file.name}, line {item.line}: ExecStart with {error}; systemd refuses it")
    others = tuple(item for _, item in assignments if item.key not in ("ExecStart", "Environment", "EnvironmentFile"))
    return Unit(path.name, path, tuple(commands), variables, origins, others, tuple(remarks))


def _environment(
    assignments: Sequence[tuple[Path, Assignment]], remarks: list[str], plain: Callable[[str], str], root: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Variable -> value and -> file. Files override `Environment=`, wherever the two stand."""
    found: dict[str, str] = {}
    origins: dict[str, str] = {}
    for file, item in assignments:
        if item.key == "Environment":
            _assign(item, file, plain, found, origins, remarks)
    for _, item in assignments:
        if item.key == "EnvironmentFile":
            _from_files(plain(item.value), root, found, origins, remarks)
    for _, item in assignments:
        if item.key == "UnsetEnvironment":
            for word in words.split(plain(item.value)):
                name, sign, value = word.partition("=")
                if not sign or found.get(name) == value:
                    found.pop(name, None)
    return found, origins


def _assign(
    item: Assignment, file: Path, plain: Callable[[str], str], found: dict[str, str], origins: dict[str, str],
    remarks: list[str],
) -> None:  # fmt: skip
    try:
        pairs = words.split(plain(item.value))
    except words.Unreadable as error:
        remarks.append(f"{file.name}, line {item.line}: Environment with {error}; systemd ignores it")
        return
    for word in pairs:
        name, sign, value = word.partition("=")
        if sign and name.isidentifier():
            found[name], origins[name] = value, str(file)
        else:
            remarks.append(f"{file.name}, line {item.line}: a word of Environment= that is no assignment")


def _from_files(value: str, root: Path, found: dict[str, str], origins: dict[str, str], remarks: list[str]) -> None:
    """One EnvironmentFile=: an absolute path, `-` in front where it may be missing, or a pattern of several."""
    optional, name = value.startswith("-"), value.removeprefix("-")
    base = root / name.lstrip("/")
    files = sorted(base.parent.glob(base.name)) if any(sign in name for sign in "*?[") else [base]
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            word = "it may be missing" if optional else "the unit would not start"
            remarks.append(f"{name}: can't be read ({error.strerror}); {word}")
            continue
        variables, ignored = unit_text.environment(text)
        found |= variables
        origins |= dict.fromkeys(variables, name)
        remarks.extend(f"{name}: {len(ignored)} lines that systemd ignores" for _ in ignored[:1])


def _commands(value: str, variables: dict[str, str], remarks: list[str], unit: str) -> Iterator[tuple[str, ...]]:
    """The command lines of one ExecStart=: a semicolon of its own separates several."""
    command: list[str] = []
    for word in [*words.split(value), ";"]:
        if word != ";":
            command.append(";" if word == "\\;" else word)
        elif command:
            literal = ":" in command[0][: len(command[0]) - len(command[0].lstrip(_PREFIXES))]
            named = command[1:] if command[0].startswith("@") else command  # `@`: the second word is argv[0]
            command = [command[0].lstrip(_PREFIXES), *named[1:]]
            made, missing = (command, []) if literal else words.expand(command, variables)
            remarks.extend(f"{unit}: ${name} has no value; systemd puts nothing there" for name in missing)
            yield tuple(made)
            command = []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        found = f"can't be read ({error.strerror})"
        raise SettingsError([Problem(str(path), found, "a unit's file", "use sudo")]) from error
