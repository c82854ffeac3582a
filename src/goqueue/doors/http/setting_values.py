"""Settings in request bodies: text, as Kafka's tools have them, or JSON's own values."""

from collections.abc import Iterable, Mapping
from typing import Any

from goqueue.model.configs import ConfigChange, ConfigOp
from goqueue.model.settings import Setting

SettingValue = str | int | float | bool


def settings_schema(settings: Iterable[Setting], *types: str) -> dict[str, Any]:
    """For the API document; `types` are taken besides."""
    table = {setting.name: setting for setting in settings}
    return {
        "propertyNames": {"enum": list(table)},
        "properties": {
            name: {
                "type": ["string", "number", "boolean", *types],
                "description": f"{setting.doc} Default: {setting.format(setting.default)}.",
            }
            for name, setting in table.items()
        },
    }


def setting_text(value: SettingValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def setting_changes(values: Mapping[str, SettingValue | None]) -> list[ConfigChange]:
    """null goes back to the default."""
    return [
        ConfigChange(name=name, op=ConfigOp.DELETE)
        if value is None
        else ConfigChange(name=name, op=ConfigOp.SET, value=setting_text(value))
        for name, value in values.items()
    ]
