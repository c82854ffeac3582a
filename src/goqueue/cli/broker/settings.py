"""`goqueue settings`: everything a broker can be told, from the one table of settings."""

from typing import Annotated

import typer

from goqueue.cli.options import Output, OutputOption
from goqueue.cli.output import print_rows


def settings(
    match: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]", help="Only names with this text in them.", show_default=False
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the settings of a broker, with defaults.

    Names with topic. in front are the broker's defaults for its topics; a topic takes the same
    setting without that prefix. Those with canChange (-o json) can be changed while a broker runs,
    with `goqueue cluster settings`.
    """
    from goqueue.model.runtime_config import DYNAMIC_BROKER_SETTINGS
    from goqueue.server.setting_sources import all_setting_names, find_setting, variable_name

    rows = []
    for name in all_setting_names():
        setting = find_setting(name)
        if setting is None or (match and match.lower() not in name):
            continue
        rows.append(
            {
                "name": name,
                "variable": variable_name(name),
                "type": setting.type.name.lower(),
                "default": setting.format(setting.default),
                "choices": list(setting.choices),
                "canChange": name in DYNAMIC_BROKER_SETTINGS,
                "doc": setting.doc,
            }
        )
    print_rows(rows, output, columns={"name": "Setting", "default": "Default", "doc": "Meaning"})
