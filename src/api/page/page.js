// Makes the reference from the OpenAPI document. Text only ever becomes text: nothing that was read is taken for markup.
"use strict";

const base = new URL(".", location.href).href.replace(/\/$/, "");
const methods = ["get", "post", "put", "delete"];
let schemas = {};

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return made;
}

function resolved(schema) {
  const name = schema && schema.$ref && schema.$ref.split("/").pop();
  return name ? schemas[name] || {} : schema || {};
}

// All properties of an object, those of its parts included.
function merged(schema) {
  const whole = resolved(schema);
  const parts = (whole.allOf || []).map(merged);
  const properties = Object.assign({}, ...parts.map((part) => part.properties), whole.properties);
  return { ...whole, properties, required: [...parts.flatMap((part) => part.required || []), ...(whole.required || [])] };
}

function alternatives(schema) {
  const whole = resolved(schema);
  return (whole.oneOf || whole.anyOf || []).filter((one) => resolved(one).type !== "null");
}

function typeOf(schema) {
  const whole = resolved(schema);
  const types = [whole.type].flat().filter((type) => type && type !== "null");
  if (whole.enum) return whole.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (types[0] === "array") return `list of ${typeOf(whole.items)}`;
  const other = alternatives(schema);
  if (!types.length && other.length) return other.map(typeOf).join(" or ");
  return [types[0] || "object", whole.format && `(${whole.format})`].filter(Boolean).join(" ");
}

function limits(schema) {
  const whole = resolved(schema);
  const range = (least, most, unit) =>
    least !== undefined || most !== undefined ? `${least ?? ""}…${most ?? ""}${unit}` : undefined;
  return [
    range(whole.minimum, whole.maximum, ""),
    range(whole.minLength, whole.maxLength, " characters"),
    range(whole.minItems, whole.maxItems, " items"),
    whole.pattern,
  ].filter(Boolean).join(", ");
}

const samples = {
  uuid: "00000000-0000-4000-8000-000000000000", "date-time": "2026-01-01T00:00:00Z", ipv4: "10.0.0.4", byte: "I2Nsb3VkLWNvbmZpZwo=",
};
const named = { dnsNameservers: "1.1.1.1", prefix: "10.0.0.0/24", name: "example", nexthop: "10.0.0.1", publicKey: "ssh-ed25519 AAAA…", email: "somebody@example.org" };

function example(schema, name, depth = 0) {
  if (depth > 8) return {};
  const other = alternatives(schema);
  const whole = merged(schema);
  if (whole.example !== undefined) return whole.example;
  if (whole.enum) return whole.enum[0];
  const type = [whole.type].flat().find((one) => one && one !== "null");
  if (!type && other.length) return example(other[0], name, depth + 1);
  if (type === "array") return depth > 6 ? [] : [example(whole.items, name, depth + 1)];
  if (type === "integer" || type === "number") return whole.minimum ?? 1;
  if (type === "boolean") return false;
  if (type === "string") return samples[whole.format] || named[name] || "text";
  const required = new Set(whole.required || []);
  const made = {};
  for (const [key, inner] of Object.entries(whole.properties || {})) {
    if (required.has(key)) made[key] = example(inner, key, depth + 1);
  }
  return made;
}

function fields(schema, depth = 0) {
  const whole = merged(schema);
  const type = [whole.type].flat().find((one) => one && one !== "null");
  if (depth > 8) return undefined;
  if (type === "array") return fields(whole.items, depth + 1);
  const other = alternatives(schema);
  if (other.length && !Object.keys(whole.properties).length) return fields(other[0], depth + 1);
  const names = Object.keys(whole.properties || {});
  if (!names.length) return undefined;
  const required = new Set(whole.required || []);
  return element("ul", {}, names.map((name) => {
    const inner = whole.properties[name];
    const notes = [typeOf(inner), limits(inner), resolved(inner).description || inner.description].filter(Boolean).join(" · ");
    return element("li", {},
      element("span", { class: required.has(name) ? "required" : "" }, name), " ",
      element("span", { class: "note" }, notes), fields(inner, depth + 1));
  }));
}

function curl(method, path, parameters, body) {
  const query = parameters.filter((one) => one.in === "query" && one.required).map((one) => `${one.name}=…`).join("&");
  const address = `"$API${path.replace(/{(\w+)}/g, (_, name) => `$${name.replace(/([a-z])([A-Z])/g, "$1_$2").toUpperCase()}`)}${query ? `?${query}` : ""}"`;
  const lines = [`curl -sS ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${address} -H "Authorization: Bearer $TOKEN"`];
  if (body !== undefined) lines.push(`  -H "Content-Type: application/json" -d '${JSON.stringify(body, null, 2)}'`);
  return lines.join(" \\\n");
}

function copyable(text) {
  const code = element("pre", { class: "copyable" }, text);
  const button = element("button", { class: "copy", type: "button", onclick: async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } }, "copy");
  code.append(button);
  return code;
}

function trying(method, path, parameters, body) {
  const inputs = parameters.map((parameter) => [parameter, element("input", { "aria-label": parameter.name, placeholder: typeOf(parameter.schema) })]);
  const text = body === undefined ? undefined : element("textarea", { "aria-label": "body", spellcheck: "false" });
  if (text) text.value = JSON.stringify(body, null, 2);
  const answer = element("pre", { hidden: true });
  const send = async () => {
    const given = inputs.map(([parameter, input]) => [parameter, input.value]).filter(([, value]) => value !== "");
    const at = (place) => given.filter(([parameter]) => parameter.in === place);
    const filled = at("path").reduce((filled, [parameter, value]) => filled.replace(`{${parameter.name}}`, encodeURIComponent(value)), path);
    const query = new URLSearchParams(at("query").flatMap(([parameter, value]) =>
      (typeOf(parameter.schema).startsWith("list") ? value.split(",") : [value]).map((one) => [parameter.name, one.trim()])));
    const headers = Object.fromEntries(at("header").map(([parameter, value]) => [parameter.name, value]));
    const token = document.getElementById("token").value.trim();
    if (token) headers.Authorization = `Bearer ${token}`;
    if (text) headers["Content-Type"] = "application/json";
    answer.hidden = false;
    answer.textContent = "…";
    const request = { method: method.toUpperCase(), headers, body: text ? text.value : undefined };
    try {
      const response = await fetch(`${base}${filled}${query.size ? `?${query}` : ""}`, request);
      const told = ["etag", "link", "idempotency-replayed", "retry-after", "x-request-id"]
        .filter((name) => response.headers.has(name)).map((name) => `${name}: ${response.headers.get(name)}`);
      answer.textContent = [`${response.status} ${response.statusText}`, ...told, ""].join("\n");
      if ((response.headers.get("content-type") || "").startsWith("text/event-stream")) return follow(response, answer);
      const raw = await response.text();
      try { answer.textContent += `\n${JSON.stringify(JSON.parse(raw), null, 2)}`; } catch { answer.textContent += `\n${raw}`; }
    } catch (error) {
      answer.textContent = `${error}`;
    }
  };
  const rows = inputs.map(([parameter, input]) => element("tr", {},
    element("td", {}, element("code", { class: parameter.required ? "required" : "" }, parameter.name), ` ${parameter.in}`),
    element("td", {}, [parameter.description, limits(parameter.schema)].filter(Boolean).join(" · ")),
    element("td", {}, input)));
  return [
    rows.length ? element("table", {}, rows) : undefined,
    text,
    element("p", {}, element("button", { type: "button", onclick: send }, "Send")),
    answer,
  ];
}

// A stream has no end: what has come by a minute later is enough to see what it is.
async function follow(response, answer) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const timer = setTimeout(() => reader.cancel(), 60000);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    answer.textContent += value;
  }
  clearTimeout(timer);
}

function operation(path, method, described) {
  const parameters = described.parameters || [];
  const content = described.requestBody && described.requestBody.content["application/json"];
  const body = content && example(content.schema);
  const answers = Object.entries(described.responses || {}).map(([status, answer]) => {
    const schema = answer.content && Object.values(answer.content)[0].schema;
    return element("tr", {}, element("td", {}, element("code", {}, status)), element("td", {}, answer.description || ""),
      element("td", { class: "schema" }, status < 300 && schema ? element("details", {}, element("summary", {}, typeOf(schema)), fields(schema)) : ""));
  });
  const inside = element("div", {});
  const fill = () => {
    if (inside.childElementCount) return;
    inside.append(
      ...[described.description, described.summary].filter((text, place, all) => text && all.indexOf(text) === place).map((text) => element("p", {}, text)),
      element("h3", {}, "Example"), copyable(curl(method, path, parameters, body)),
      ...(content ? [element("h3", {}, "Body"), element("div", { class: "schema" }, fields(content.schema))] : []),
      element("h3", {}, "Answers"), element("table", {}, answers),
      element("h3", {}, "Try it"), ...trying(method, path, parameters, body).filter(Boolean));
  };
  const words = described.summary || (described.description || "").split(". ")[0];
  return element("details", {
    class: `operation${described.deprecated ? " deprecated" : ""}`, id: described.operationId, ontoggle: fill,
    "data-words": [path, method, words, described.operationId, (described.tags || []).join(" ")].join(" ").toLowerCase(),
  }, element("summary", {}, element("span", { class: `method ${method}` }, method), element("span", { class: "path" }, path),
    element("span", { class: "words" }, words)), inside);
}

async function start() {
  document.getElementById("address").textContent = `export API=${base}\nexport TOKEN=…`;
  for (const block of document.querySelectorAll("main pre")) block.replaceWith(copyable(block.textContent));
  const response = await fetch(`${base}/openapi.json`);
  const document_ = await response.json();
  schemas = (document_.components || {}).schemas || {};
  const groups = new Map();
  for (const [path, item] of Object.entries(document_.paths)) {
    for (const method of methods.filter((method) => item[method])) {
      const tag = (item[method].tags || ["Other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(path, method, item[method]));
    }
  }
  const contents = document.getElementById("contents");
  const operations = document.getElementById("operations");
  for (const tag of [...groups.keys()].sort()) {
    const id = `tag-${tag.replace(/\W+/g, "-").toLowerCase()}`;
    operations.append(element("section", { id }, element("h3", {}, tag), groups.get(tag)));
    contents.append(element("a", { class: "inner", href: `#${id}` }, tag));
  }
  document.getElementById("state").hidden = true;
  document.getElementById("search").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const one of operations.querySelectorAll(".operation")) {
      one.hidden = !wanted.every((word) => one.dataset.words.includes(word));
    }
    for (const group of operations.children) group.hidden = !group.querySelector(".operation:not([hidden])");
  });
  const linked = location.hash && document.getElementById(location.hash.slice(1));
  if (linked) { if ("open" in linked) linked.open = true; linked.scrollIntoView(); }
}

start().catch((error) => { document.getElementById("state").append(` It could not be made: ${error}`); });
