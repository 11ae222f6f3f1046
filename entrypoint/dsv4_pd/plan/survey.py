"""`survey(environ, machine) -> Situation`: everything that a start depends on is read here, once, and frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from dsv4_pd.errors import ApplianceError, SettingsError
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import Machine
from dsv4_pd.host.read import facts_of
from dsv4_pd.plan.around import surroundings, tuned
from dsv4_pd.plan.around.ahead import Ahead
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.disk.paths import share_dir
from dsv4_pd.plan.front import files as door_files
from dsv4_pd.plan.model import speculative
from dsv4_pd.plan.placement.members import Port
from dsv4_pd.plan.placement.place import choose_profile
from dsv4_pd.plan.plan import Plan, complete, make_plan
from dsv4_pd.plan.programs import engine_rules, owned_flags
from dsv4_pd.plan.programs.build import router_python
from dsv4_pd.plan.shipped import catalogue, presets, profiles
from dsv4_pd.plan.shipped import data as shipped
from dsv4_pd.plan.shipped.data import Shipped
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.plan.situation import Situation
from dsv4_pd.settings import load
from dsv4_pd.settings.schema import PREFIX, Settings

AroundOf = Callable[[Settings], Surroundings]


def survey(environ: Mapping[str, str], machine: Machine, ahead: Ahead | None = None) -> Situation:
    """The situation on a machine, or on a captured one, whose surroundings are then assumed to be in order. `ahead`:
    what the Hub tells of a model that is not here.

    Raises:
        SettingsError: with every setting that is wrong; what the hardware refuses is in the situation instead.
    """
    given = MappingProxyType(dict(environ) if machine.here else only_settings(environ))
    known = shipped.read()
    settings, facts = read_settings(given, known.profiles), facts_of(machine)
    measured = None
    if machine.here:  # a receipt of this machine says nothing about a captured one
        overlaid, measured = tuned.follow(settings, facts, given)
        if measured and measured.layout:
            given = MappingProxyType(overlaid)
            settings = read_settings(given, known.profiles)

    def around(complete_: Settings) -> Surroundings:
        if not machine.here:
            return surroundings.assume(complete_, given, facts, known.models, machine)
        interpreters = (complete_.engine_python, router_python(complete_))
        found = surroundings.read(complete_, given, facts, known.models, machine, interpreters)
        return ahead.seen_in(found) if ahead else found

    situation = replace(consider(settings, facts, known, around), tuned=measured)
    if not machine.here:
        return situation
    ports = busy_ports(situation.plan) if situation.plan else ()
    return replace(situation, busy_ports=ports, door_files=door_files.refusals(situation.settings))


def survey_facts(environ: Mapping[str, str], facts: HostFacts, ahead: Ahead | None = None) -> Situation:
    """The same for a machine of which only the facts are known.

    Raises:
        SettingsError: with every setting that is wrong.
    """
    given = MappingProxyType(only_settings(environ))
    known = shipped.read()
    settings = read_settings(given, known.profiles)

    def around(complete_: Settings) -> Surroundings:
        found = surroundings.assume(complete_, given, facts, known.models)
        return ahead.seen_in(found) if ahead else found

    return consider(settings, facts, known, around)


def consider(settings: Settings, facts: HostFacts, known: Shipped, around_of: AroundOf) -> Situation:
    """From what was read to a plan, or to the reason why there is none: the other checks then still speak."""
    profile, plan, refusal = None, None, None
    own = frozenset(settings.model_fields_set)
    try:
        profile = profiles.pick(known.profiles, choose_profile(settings, facts, known.profiles))
        settings = complete(settings, profile, known.presets, share_dir())
        settings = catalogue.resolve(settings, known.models)
    except ApplianceError as error:
        refusal = error
    around = around_of(settings)
    if profile is not None and refusal is None:
        try:
            settings = _fitting(settings, profile, around)
            plan = make_plan(settings, profile, facts, around)
        except ApplianceError as error:
            refusal = error
    preset = presets.chosen(settings, known.presets)
    return Situation(settings, facts, profile, around, plan, refusal, own, preset)


def _fitting(settings: Settings, profile: Profile, around: Surroundings) -> Settings:
    """`auto` decided, so that from here on the settings name what is used.

    Raises:
        SettingsError: with every rule of the engine that is broken, and an algorithm that can't work.
    """
    problems = engine_rules.problems(settings, profile, around)
    algorithm = settings.speculative
    try:
        algorithm, _ = speculative.decide(settings.speculative, around.config, settings.model, profile.device)
    except SettingsError as error:
        problems += error.problems
    if problems:
        raise SettingsError(problems)
    return settings.model_copy(update={"speculative": algorithm})


def read_settings(environ: Mapping[str, str], known: Mapping[str, Profile]) -> Settings:
    """The settings, with the extra arguments held against the flags that the plan sets.

    Raises:
        SettingsError: with every problem at once.
    """
    taken = owned_flags.problems(environ, known)
    try:
        settings = load.load(environ)
    except SettingsError as error:
        raise SettingsError([*error.problems, *taken]) from error
    if taken:
        raise SettingsError(taken)
    return owned_flags.spelled_out(settings)


def only_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Our own settings: the rest of this environment says nothing about another machine."""
    return {name: value for name, value in environ.items() if name.upper().startswith(PREFIX)}


def busy_ports(plan: Plan) -> tuple[tuple[Port, int], ...]:
    """Ports of the plan that can't be bound now, and why (errno)."""
    ports = (port for program in plan.programs for port in program.ports)
    return tuple((port, why) for port in ports if (why := surroundings.bind_refusal(port.host, port.number)))
