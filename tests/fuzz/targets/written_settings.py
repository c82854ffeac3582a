"""Settings as people and clients write them: `name=value` in each line, with units."""

from typing import Final

from goqueue.model.broker_config import broker_config
from goqueue.model.errors import InvalidConfig
from goqueue.model.topic_config import TOPIC_SETTINGS, topic_config
from goqueue.model.units import duration_ms, in_plain_units, size_bytes
from tests.fuzz.target import Finding, Target, Verdict

_LINES_MAX: Final = 200


def run(data: bytes) -> Verdict:
    texts = {}
    verdicts: list[Verdict] = []
    for line in data.decode("utf-8", "surrogateescape").split("\n")[:_LINES_MAX]:
        name, _, value = line.partition("=")
        verdicts += [duration_ms(value), size_bytes(value), in_plain_units(name, value)]
        texts[name] = in_plain_units(name, value)
    try:
        config = topic_config(texts)
        verdicts.append(config)
    except InvalidConfig as error:
        verdicts.append(str(error))
    else:
        again = {
            name: TOPIC_SETTINGS[name].format(TOPIC_SETTINGS[name].parse(text))
            for name, text in texts.items()
        }
        if topic_config(again) != config:
            raise Finding(f"{texts} is written as {again}, which is read otherwise")
    try:
        verdicts.append(broker_config(texts))
    except InvalidConfig as error:
        verdicts.append(str(error))
    return verdicts


TARGET: Final = Target(
    name="written_settings",
    promise="a setting is read or refused by name; written again, it is read the same",
    run=run,
)
