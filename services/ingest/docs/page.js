// Draws the OpenAPI document of this server; every text goes in as text, never as markup.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];
const MOST_SHOWN = 200000;

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function resolved(api, schema) {
  if (!schema || !schema.$ref) return schema || {};
  return schema.$ref.split("/").slice(1).reduce((place, word) => place[word] || {}, api);
}

function typeOf(api, schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  const choices = schema.anyOf || schema.oneOf;
  if (choices) return choices.map((choice) => typeOf(api, choice)).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return `list of ${typeOf(api, schema.items) || "anything"}`;
  return schema.format ? `${schema.type} (${schema.format})` : schema.type || "anything";
}

function example(api, schema, depth) {
  const found = resolved(api, schema);
  if (depth > 4) return null;
  if (found.default !== undefined) return found.default;
  if (found.enum) return found.enum[0];
  const choices = found.anyOf || found.oneOf;
  if (choices) return choices.some((choice) => choice.type === "null") ? null : example(api, choices[0], depth + 1);
  if (found.type === "object") {
    const required = found.required || [];
    const names = Object.keys(found.properties || {}).filter((name) => !required.length || required.includes(name));
    return Object.fromEntries(names.map((name) => [name, example(api, found.properties[name], depth + 1)]));
  }
  if (found.type === "array") return [example(api, found.items, depth + 1)];
  return { string: "", integer: 0, number: 0, boolean: false }[found.type] ?? null;
}

function fields(api, schema) {
  const found = resolved(api, schema);
  const properties = Object.entries(found.properties || {});
  if (!properties.length) return null;
  const required = found.required || [];
  const rows = properties.map(([name, field]) => make("tr", {},
    make("td", {}, make("code", {}, name), required.includes(name) ? " *" : ""),
    make("td", {}, typeOf(api, field)),
    make("td", {}, field.description || "")));
  return make("table", {}, ...rows);
}

function parameters(api, operation) {
  const inputs = [];
  const rows = (operation.parameters || []).map((parameter) => {
    const input = make("input", { "aria-label": parameter.name });
    inputs.push({ parameter, input });
    return make("tr", {},
      make("td", {}, make("code", {}, parameter.name), parameter.required ? " *" : ""),
      make("td", {}, `${parameter.in}, ${typeOf(api, parameter.schema)}`),
      make("td", {}, parameter.description || ""),
      make("td", {}, input));
  });
  return { inputs, table: rows.length ? make("table", {}, ...rows) : null };
}

async function send(method, path, inputs, body, kind, output) {
  const query = new URLSearchParams();
  const headers = {};
  let address = path;
  for (const { parameter, input } of inputs) {
    if (!input.value) continue;
    if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, input.value.split("/").map(encodeURIComponent).join("/"));
    else if (parameter.in === "query") query.append(parameter.name, input.value);
    else if (parameter.in === "header") headers[parameter.name] = input.value;
  }
  const key = document.getElementById("key").value;
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body && body.value) headers["Content-Type"] = kind;
  output.textContent = "…";
  try {
    const stopping = AbortSignal.timeout(30000);
    const target = query.size ? `${address}?${query}` : address;
    const answer = await fetch(target, { method: method.toUpperCase(), headers, body: body && body.value ? body.value : undefined, signal: stopping });
    const text = await answer.text();
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: as it is */ }
    output.textContent = `${answer.status} ${answer.statusText}\n\n${shown.slice(0, MOST_SHOWN)}`;
  } catch (problem) {
    output.textContent = String(problem);
  }
}

function drawn(api, path, method, operation) {
  const { inputs, table } = parameters(api, operation);
  const content = (operation.requestBody || {}).content || {};
  const kind = Object.keys(content)[0];
  const schema = kind ? content[kind].schema : null;
  const body = kind ? make("textarea", { "aria-label": "body", spellcheck: "false" }) : null;
  if (body && kind === "application/json") body.value = JSON.stringify(example(api, schema, 0), null, 2);
  const output = make("pre", { hidden: "" });
  const button = make("button", { type: "button" }, "Send");
  button.addEventListener("click", () => { output.hidden = false; send(method, path, inputs, body, kind, output); });
  const answers = Object.entries(operation.responses || {}).map(([status, answer]) =>
    make("tr", {}, make("td", {}, make("code", {}, status)), make("td", {}, answer.description || "")));
  const inside = make("div", { class: "body" },
    make("p", {}, operation.description || ""),
    table,
    kind ? make("p", { class: "muted" }, `Body: ${kind}, ${typeOf(api, schema)}`) : null,
    schema ? fields(api, schema) : null,
    body,
    make("p", {}, button),
    output,
    make("table", {}, ...answers));
  return make("details", { "data-words": `${method} ${path} ${operation.description || ""}`.toLowerCase() },
    make("summary", {}, make("span", { class: `method ${method}` }, method.toUpperCase()), make("code", {}, path)),
    inside);
}

async function draw() {
  const about = document.getElementById("about");
  const answer = await fetch("/api/v1/openapi.json");
  const api = await answer.json();
  about.textContent = api.info.description || "";
  const groups = new Map();
  for (const [path, operations] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((name) => operations[name])) {
      const tag = (operations[method].tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, make("section", {}, make("h2", {}, tag)));
      groups.get(tag).append(drawn(api, path, method, operations[method]));
    }
  }
  document.getElementById("operations").append(...groups.values());
  document.getElementById("find").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const each of document.querySelectorAll("details")) each.hidden = !each.dataset.words.includes(wanted);
  });
}

draw().catch((problem) => { document.getElementById("about").textContent = `The description cannot be read: ${problem}`; });
