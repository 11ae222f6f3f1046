"""The command line: subcommands are imported when they are used, so that `--help` needs no engine and no GPU."""

from __future__ import annotations

import difflib
import errno
import importlib
import sys

import click

from dsv4_pd import __version__
from dsv4_pd.errors import ApplianceError, SettingsError

# name -> (module, one line of help); the module's `command` is a click command
COMMANDS = {
    "serve": ("dsv4_pd.cli.serve", "Run the appliance in the foreground (the default)."),
    "demo": ("dsv4_pd.cli.demo", "Run it with a tiny model on the CPU (profile demo-cpu)."),
    "plan": ("dsv4_pd.cli.plan", "Print what `serve` would start, without starting anything."),
    "doctor": ("dsv4_pd.cli.doctor", "Diagnose this machine and suggest fixes."),
    "migrate": ("dsv4_pd.cli.migrate", "Print the settings equivalent to old systemd units."),
    "models": ("dsv4_pd.cli.models", "List the known models and how each fits this machine."),
    "download": ("dsv4_pd.cli.download", "Download the model before the first start, or verify it."),
    "support-bundle": ("dsv4_pd.cli.support_bundle", "Collect report, plan and logs in a redacted archive."),
    "status": ("dsv4_pd.cli.status", "Show the status of a running appliance."),
    "verify": ("dsv4_pd.cli.verify", "Certify a running appliance and write a receipt."),
    "bench": ("dsv4_pd.cli.bench", "Measure a running appliance; compare runs; write reports."),
    "cache": ("dsv4_pd.cli.cache", "Show, export, import and warm up compiled kernels."),
    "tune": ("dsv4_pd.cli.tune", "Choose layout and engine switches by measuring them."),
    "health": ("dsv4_pd.cli.health", "Exit 0 while the appliance serves, 1 otherwise."),
    "version": ("dsv4_pd.cli.version", "Print versions."),
}


# A file that a command was given, or writes where it stands: the operator's to change, and no fault of ours.
_FILES = frozenset(
    (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOSPC,
     errno.ELOOP, errno.ENAMETOOLONG, errno.EDQUOT)
)  # fmt: skip
_ELSE = "name another one (--help says how), or mount a volume there"
_WATCHED = ("serve", "demo")  # what they fail on is told with its traceback: nobody gave it on the command line


class LazyGroup(click.Group):
    """Knows its commands by name and loads one only when asked for it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None so that click suggests a close one."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the closest command named when there is none."""
        close = difflib.get_close_matches(args[0], COMMANDS, n=1)
        if args[0] not in COMMANDS and close:
            ctx.fail(f"no such command: {args[0]!r}; did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Help from the table, so that listing imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dsv4-pd")
def app() -> None:
    """DeepSeek-V4-Flash with prefill and decode on separate GPUs. Settings are DSV4_* variables: docs/env.md."""


def main(argv: list[str]) -> int:
    """Run a command; errors become one line each on standard error and the exit code of their kind."""
    try:
        result = app.main(args=argv or ["serve"], prog_name="dsv4-pd", standalone_mode=False)
    except ApplianceError as error:
        for line in str(error).splitlines():
            print(f"dsv4-pd: {line}", file=sys.stderr)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OSError as error:
        if not argv or argv[0] in _WATCHED or error.filename is None or error.errno not in _FILES:
            raise
        reason = (error.strerror or "unreadable").lower()
        print(
            f"dsv4-pd: {error.filename}: found {reason}, expected a file that this user can use; {_ELSE}",
            file=sys.stderr,
        )
        return SettingsError.exit_code
    except click.exceptions.Abort:
        return 130
    return result if isinstance(result, int) else 0
