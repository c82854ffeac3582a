"""/openapi.json and /docs. The page is one file: it works on a machine without the internet."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler

from goqueue.doors.http.openapi import errors, openapi_document
from goqueue.service.needs import OPEN

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 small { font-weight: normal; font-size: 1rem; opacity: .7; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; }
summary { cursor: pointer; padding: .5rem .75rem; }
.operation { padding: 0 .75rem .75rem; }
.method { display: inline-block; width: 4.5rem; font-weight: bold; }
code, pre, textarea, input { font-family: ui-monospace, monospace; font-size: .875rem; }
pre { background: var(--soft); padding: .5rem; overflow: auto; border-radius: 4px; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid var(--line); padding: .25rem .5rem; text-align: left; }
textarea { width: 100%; min-height: 6rem; box-sizing: border-box; }
button { padding: .25rem 1rem; margin: .5rem 0; }
"""

_SCRIPT: Final = """
"use strict";
const el = (tag, props = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
};
const typeOf = (schema, doc) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  const many = schema.oneOf || schema.anyOf;
  if (many) return many.map((each) => typeOf(each, doc)).join(" | ");
  if (schema.type === "array") return typeOf(schema.items, doc) + "[]";
  if (schema.type === "object" && schema.additionalProperties)
    return "{name: " + typeOf(schema.additionalProperties, doc) + "}";
  return [].concat(schema.type || "any").join(" | ");
};
const limits = (schema) => ["minimum", "maximum", "minLength", "maxLength", "minItems",
  "maxItems", "pattern", "default"].filter((name) => schema && name in schema)
  .map((name) => name + " " + JSON.stringify(schema[name])).join(", ");
const row = (...cells) => el("tr", {}, ...cells.map((cell) => el("td", {}, cell)));
const table = (heads, rows) => el("table", {},
  el("tr", {}, ...heads.map((head) => el("th", {textContent: head}))), ...rows);
const contentOf = (holder) => {
  const [kind, media] = Object.entries((holder && holder.content) || {})[0] || [];
  return kind ? {kind, schema: media.schema} : null;
};
const fieldTable = (name, schema, doc) => {
  const required = new Set(schema.required || []);
  return table(["field", "type", "meaning"], Object.entries(schema.properties || {}).map(
    ([field, inner]) => row(el("code", {textContent: field + (required.has(field) ? " *" : "")}),
      el("code", {textContent: typeOf(inner, doc)}),
      [inner.description, limits(inner)].filter(Boolean).join(" "))));
};
const tryIt = (path, method, operation) => {
  const form = el("form");
  const inputs = (operation.parameters || []).map((parameter) => {
    const input = el("input", {required: parameter.required, placeholder: parameter.name});
    form.append(input, " ");
    return [parameter, input];
  });
  const body = operation.requestBody ? el("textarea", {value: "{}"}) : null;
  if (body) form.append(body);
  const output = el("pre", {hidden: true});
  form.append(el("button", {textContent: "Send"}), output);
  form.onsubmit = async (event) => {
    event.preventDefault();
    let url = path;
    const query = new URLSearchParams();
    for (const [parameter, input] of inputs) {
      if (parameter.in === "path")
        url = url.replace("{" + parameter.name + "}", encodeURIComponent(input.value));
      else if (input.value) query.set(parameter.name, input.value);
    }
    if ([...query].length) url += "?" + query;
    const answer = await fetch(url, {method: method.toUpperCase(),
      ...(body ? {body: body.value, headers: {"content-type": "application/json"}} : {})});
    const text = await answer.text();
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: as it is */ }
    output.hidden = false;
    output.textContent = answer.status + " " + answer.statusText + "\\n" + shown;
  };
  return form;
};
const render = (doc) => {
  const main = document.querySelector("main");
  main.replaceChildren(el("h1", {}, doc.info.title + " ",
    el("small", {textContent: doc.info.version})), el("p", {textContent: doc.info.description}));
  const groups = new Map();
  for (const [path, item] of Object.entries(doc.paths))
    for (const [method, operation] of Object.entries(item)) {
      const tag = (operation.tags || ["Other"])[0];
      groups.set(tag, [...(groups.get(tag) || []), [path, method, operation]]);
    }
  for (const [tag, operations] of groups) {
    main.append(el("h2", {textContent: tag}));
    for (const [path, method, operation] of operations) {
      const inside = el("div", {className: "operation"},
        el("p", {textContent: operation.description || operation.summary || ""}));
      if (operation.parameters) inside.append(el("h4", {textContent: "Parameters"}),
        table(["name", "in", "type", "meaning"], operation.parameters.map((parameter) => row(
          el("code", {textContent: parameter.name + (parameter.required ? " *" : "")}),
          parameter.in, el("code", {textContent: typeOf(parameter.schema, doc)}),
          [parameter.description, limits(parameter.schema)].filter(Boolean).join(" ")))));
      const body = contentOf(operation.requestBody);
      if (body) inside.append(el("h4", {textContent: "Body"}),
        el("code", {textContent: body.kind + ": " + typeOf(body.schema, doc)}));
      inside.append(el("h4", {textContent: "Answers"}), table(["status", "type", "meaning"],
        Object.entries(operation.responses).map(([status, response]) => {
          const content = contentOf(response);
          return row(status, el("code", {textContent: content ? typeOf(content.schema, doc) : ""}),
            response.description || "");
        })));
      inside.append(el("h4", {textContent: "Try it"}), tryIt(path, method, operation));
      main.append(el("details", {}, el("summary", {},
        el("span", {className: "method", textContent: method.toUpperCase()}),
        el("code", {textContent: path})), inside));
    }
  }
  main.append(el("h2", {textContent: "Types"}));
  for (const [name, schema] of Object.entries(doc.components.schemas))
    main.append(el("details", {}, el("summary", {}, el("code", {textContent: name})),
      el("div", {className: "operation"}, el("p", {textContent: schema.description || ""}),
        fieldTable(name, schema, doc))));
};
fetch("/openapi.json").then((answer) => answer.json()).then(render).catch((error) => {
  document.querySelector("main").textContent = "The API document could not be read: " + error;
});
"""

_PAGE: Final = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>GoQueue API</title>
<style>{_STYLE}</style>
<main>Reading <a href="/openapi.json">openapi.json</a> …</main>
<script>{_SCRIPT}</script>
</html>
"""


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


# Nothing runs or loads but what is in the page itself, and it talks to this broker only.
_POLICY: Final = (
    f"default-src 'none'; script-src {_digest(_SCRIPT)}; style-src {_digest(_STYLE)}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@get("/openapi.json", tags=["Operations"], responses=errors(400), opt={"needs": OPEN})
async def openapi(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
    """This document."""
    # To make it takes a tenth of a second, once.
    document = await asyncio.to_thread(openapi_document, request.app)
    return Response(document, media_type="application/json")  # type: ignore[arg-type]


@get(
    "/docs",
    tags=["Operations"],
    media_type="text/html",
    responses=errors(400),
    opt={"needs": OPEN},
)
async def docs() -> Response[str]:
    """The document as a page, with a form for each operation."""
    return Response(_PAGE, media_type="text/html", headers={"content-security-policy": _POLICY})


ROUTES: Final[Sequence[HTTPRouteHandler]] = (openapi, docs)
