// Writes the Helm chart into a directory (default: dist/chart), from the manifests and the settings of `ramet manifests`.
// With --registry HOST the images of this version in that registry are the defaults.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { stringify } from "yaml";
import * as z from "zod";
import { systemNamespace } from "../src/api/names/system-names.ts";
import { besideKeys, besideLastingManifests, besideServerManifests } from "../src/install/beside-manifests.ts";
import { accessFields, identities } from "../src/install/install-options.ts";
import { privateRanges } from "../src/install/manifest.ts";
import { lastingManifests, serverManifests, storeIsNotMounted } from "../src/install/manifests.ts";
import * as schemas from "../src/install/setting-schemas.ts";
import { flagName, keysOf, setAt, settingOf } from "../src/install/setting-values.ts";
import { deriveTemplates, sentinel } from "./helm-templates.mjs";
import { templateText } from "./helm-text.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { version, description, license } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const { values: flags, positionals } = parseArgs({ options: { registry: { type: "string" } }, allowPositionals: true });
const directory = resolve(positionals[0] ?? join(root, "dist/chart"));

// Helm has the namespace of a release, and a chart writes no files.
const keys = keysOf("manifests").filter((key) => !["namespace", "noClusterRanges", "out"].includes(key));
const defaults = {
  clusterRanges: privateRanges,
  ...(flags.registry && {
    image: `${flags.registry}/ramet:v${version}`,
    cellImage: `${flags.registry}/ramet-cell:v${version}`,
  }),
};
/** Values that a release always has. The number of replicas decides whether there is a client API. */
const present = new Set([
  "image",
  "cellImage",
  ...keys.filter((key) => key !== "clientApi.replicas" && hasDefault(key)),
]);
/** Whether the namespace of the lease and the keys is another one than that of the release. */
const isElsewhere = "isElsewhere";
/** Whether `gateway.gatewayApi` names a listener of its Gateway. */
const hasListener = "hasListener";
const gatewayParts = ["gateway.namespace", "gateway.name", "gateway.listener"];

rmSync(directory, { recursive: true, force: true });
write("Chart.yaml", stringify(chart()));
write("values.yaml", valuesText());
write("values.schema.json", `${JSON.stringify(schema(), undefined, 2)}\n`);
write("templates/NOTES.txt", notes());
write("templates/_helpers.tpl", requirements());
for (const [kind, text] of templates()) write(`templates/${kind}.yaml`, text);

function write(name, text) {
  const path = join(directory, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

function chart() {
  return {
    apiVersion: "v2",
    name: "ramet",
    type: "application",
    description,
    version,
    appVersion: version,
    kubeVersion: ">=1.33.0-0",
    annotations: { licenses: license },
  };
}

/** One file for each kind of object, as `ramet manifests --out` writes them. */
function templates() {
  const names = [isElsewhere, hasListener, ...keys.filter((key) => !present.has(key))];
  const derived = [
    ...deriveTemplates(lastingFor, { names: [isElsewhere], modes: ["beside"] }),
    ...deriveTemplates(serversFor, {
      names,
      modes: ["beside", "gateway.ingress", "gateway.gatewayApi"],
      bases: ["gateway.domain"],
    }),
  ];
  const helm = { conditions: new Map(names.map((name) => [name, condition(name)])), values: expressions() };
  const files = Map.groupBy(derived, ({ kind }) => kind.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "-").toLowerCase());
  return [...files].map(([kind, documents]) => [kind, documents.map(({ tree }) => templateText(tree, helm)).join("")]);
}

/** The CRDs, and the namespace of the lease and the keys if it is not that of the release, which Helm creates. */
function lastingFor(given) {
  const options = { namespace: sentinel("namespace") };
  const all = given.has("beside") ? besideLastingManifests(options) : lastingManifests(options);
  return all.filter(
    ({ kind, metadata: { name } }) => kind !== "Namespace" || (given.has(isElsewhere) && name === systemNamespace),
  );
}

function serversFor(given) {
  /** @type {any} */
  const options = { namespace: sentinel("namespace"), store: {} };
  const used = given.has("beside") ? besideKeys() : keys;
  for (const key of used.filter((one) => present.has(one) || given.has(one))) setAt(options, key, sampleOf(key));
  if (given.has("gateway.gatewayApi") && used.includes("gateway.gatewayApi")) {
    const parts = given.has(hasListener) ? gatewayParts : gatewayParts.slice(0, 2);
    setAt(options, "gateway.gatewayApi", parts.map(sentinel).join("/"));
  }
  if (given.has("namespaceSelector")) setAt(options, "namespaceRequirements", sentinel("namespaceRequirements"));
  if (!given.has("clientApi.replicas")) delete options["clientApi"];
  const { directory: mounted, claim, ...remote } = options.store;
  options.store = given.has("store.address") ? remote : { directory: mounted, claim };
  return given.has("beside") ? besideServerManifests(options) : serverManifests(options);
}

function sampleOf(key) {
  const { kind } = settingOf(key, "manifests");
  return { text: sentinel(key), number: sentinel(key), list: [sentinel(`${key}[]`)], on: true, off: false }[kind];
}

/** The expression of Helm that is true where a setting is given. */
function condition(key) {
  if (key === isElsewhere) return `ne $.Release.Namespace ${JSON.stringify(systemNamespace)}`;
  if (key === hasListener) return 'eq (len (splitList "/" (toString $.Values.gateway.gatewayApi))) 3';
  if (key === "clientApi.replicas") return "gt (int $.Values.clientApi.replicas) 0";
  const { kind } = settingOf(key, "manifests");
  if (kind === "on" || kind === "list") return `$.Values.${key}`;
  if (kind === "off") return `not $.Values.${key}`;
  const [name, group] = key.split(".").reverse();
  return `hasKey $.Values${group === undefined ? "" : `.${group}`} "${name}"`;
}

function expressions() {
  const values = new Map();
  for (const key of keys) {
    values.set(key, { text: `$.Values.${key}`, isCount: settingOf(key, "manifests").kind === "number" });
  }
  gatewayParts.forEach((name, at) =>
    values.set(name, { text: `index (splitList "/" $.Values.gateway.gatewayApi) ${at}` }),
  );
  values.set("namespace", { text: "$.Release.Namespace" });
  values.set("namespaceRequirements", { text: 'include "ramet.requirements" $', isJson: true });
  return values;
}

/** The default of a value. Undefined: it is absent. */
function standard(key) {
  const setting = settingOf(key, "manifests");
  return defaults[key] ?? setting.default ?? { on: false, off: true }[setting.kind];
}

function helpOf(key) {
  const { help } = settingOf(key, "manifests");
  return help.replaceAll(/--[-a-z]+/g, (flag) => keys.find((other) => flagName(other, "manifests") === flag) ?? flag);
}

function groups() {
  return [...Map.groupBy(keys, (key) => (key.includes(".") ? key.split(".")[0] : ""))];
}

function valuesText() {
  const lines = groups().flatMap(([group, own]) => {
    const pad = group === "" ? "" : "  ";
    const fields = own.flatMap((key) => {
      const value = standard(key);
      const name = pad === "" ? key : key.split(".")[1];
      const field = value === undefined ? `${pad}# ${name}:` : `${pad}${name}: ${JSON.stringify(value)}`;
      return [`${pad}# ${helpOf(key)}`, field];
    });
    if (group === "") return fields;
    return [own.some((key) => standard(key) !== undefined) ? `${group}:` : `${group}: {}`, ...fields];
  });
  return `# Values without a default are commented out.\n${lines.join("\n")}\n`;
}

function schema() {
  const properties = {};
  for (const [group, own] of groups()) {
    const fields = Object.fromEntries(own.map((key) => [key.split(".").at(-1), propertyOf(key)]));
    if (group === "") Object.assign(properties, fields);
    else {
      const required = own.filter(hasDefault).map((key) => key.split(".")[1]);
      properties[group] = {
        type: "object",
        additionalProperties: false,
        properties: fields,
        required,
        ...rulesOf(group),
      };
    }
  }
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    type: "object",
    additionalProperties: false,
    properties: { ...properties, global: { type: "object" } },
    required: [
      "image",
      ...groups().flatMap(([group]) => (group === "" ? [] : [group])),
      ...keys.filter((key) => !key.includes(".") && hasDefault(key)),
    ],
    anyOf: [{ required: ["cellImage"] }, { required: ["beside"] }],
    if: { required: ["beside"] },
    then: { properties: withoutEffect() },
    not: { required: ["metricsNamespace"], properties: { metricsFromAllNamespaces: { const: true } } },
  };
}

function hasDefault(key) {
  return settingOf(key, "manifests").default !== undefined;
}

/** Beside other controllers, the values of other settings are the defaults. */
function withoutEffect() {
  const properties = {};
  const used = new Set(besideKeys());
  for (const key of keys.filter((one) => !used.has(one))) {
    const only = standard(key) === undefined ? false : { const: standard(key) };
    const [name, group] = key.split(".").reverse();
    if (group === undefined) properties[name] = only;
    else (properties[group] ??= { properties: {} }).properties[name] = only;
  }
  return properties;
}

/** What a value needs beside it. */
function rulesOf(group) {
  if (group === "cells") return { dependencies: { nodeCacheSize: ["nodeCachePath"] } };
  if (group === "gateway") {
    const ways = ["tlsIssuer", "ingress", "gatewayApi"];
    return {
      dependencies: Object.fromEntries(ways.map((way) => [way, ["domain"]])),
      not: { required: ["ingress", "gatewayApi"] },
    };
  }
  if (group !== "store") return {};
  const schemes = { s3: "^s3://", gcs: "^gs://", azure: "^azblob://" };
  return {
    dependencies: Object.fromEntries(accessFields.map((field) => [field, ["address"]])),
    allOf: Object.entries(identities).map(([field, { driver }]) => ({
      if: { required: [field] },
      then: { properties: { address: { pattern: schemes[driver] } } },
    })),
  };
}

function propertyOf(key) {
  const { kind, schema: named, choices, default: fallback } = settingOf(key, "manifests");
  const own = {
    ...(named && jsonSchema(schemas[named])),
    ...(choices && { enum: choices }),
    // Without replicas, the client API is not installed.
    ...(fallback === 0 && { minimum: 0 }),
    type: kind === "number" ? "integer" : "string",
  };
  const types = {
    list: { type: "array", items: own, ...(key === "servedNamespaces" && { minItems: 1, uniqueItems: true }) },
  };
  const boolean = { type: "boolean" };
  return { description: helpOf(key), ...({ ...types, on: boolean, off: boolean }[kind] ?? own) };
}

/** What JSON Schema and the regular expressions of Go can express. The servers check the rest. */
function jsonSchema(type) {
  const {
    type: _,
    pattern,
    enum: words,
    minimum,
    maxLength,
  } = z.toJSONSchema(type, { unrepresentable: "any", io: "input" });
  const isOfGo = pattern !== undefined && !pattern.includes("(?!") && !pattern.includes("(?=");
  return JSON.parse(JSON.stringify({ pattern: isOfGo ? pattern : undefined, enum: words, minimum, maxLength }));
}

function notes() {
  return `Wait for the servers:

  kubectl wait --namespace {{ $.Release.Namespace }} --for condition=Available --timeout 3m deployment --all
  ramet doctor
{{ if not (or $.Values.beside (hasKey $.Values.store "address")) }}
${storeIsNotMounted}.
{{ end }}`;
}

/** Parses a label selector, as \`parseLabelSelector\` does. */
function requirements() {
  return String.raw`{{- define "ramet.requirements" -}}
{{- $found := list }}
{{- range regexFindAll "([^,(]|\\([^)]*\\))+" $.Values.namespaceSelector -1 }}
{{- $part := trim . }}
{{- if regexMatch "^!?\\s*[^\\s=!()]+$" $part }}
{{- $operator := ternary "DoesNotExist" "Exists" (hasPrefix "!" $part) }}
{{- $found = append $found (dict "key" (trim (trimPrefix "!" $part)) "operator" $operator) }}
{{- else if regexMatch "^[^\\s=!()]+\\s*(==?|!=)\\s*[^\\s=!()]*$" $part }}
{{- $operator := ternary "NotIn" "In" (contains "!=" $part) }}
{{- $value := regexReplaceAll "^[^=]*=+\\s*" $part "" }}
{{- $found = append $found (dict "key" (regexFind "^[^\\s=!]+" $part) "operator" $operator "values" (list $value)) }}
{{- else if regexMatch "^[^\\s=!()]+\\s+(in|notin)\\s*\\([^()]*\\)$" $part }}
{{- $operator := ternary "NotIn" "In" (regexMatch "\\snotin\\s*\\(" $part) }}
{{- $values := list }}
{{- range splitList "," (trimAll "()" (regexFind "\\([^()]*\\)" $part)) }}
{{- $values = append $values (trim .) }}
{{- end }}
{{- $found = append $found (dict "key" (regexFind "^[^\\s=!()]+" $part) "operator" $operator "values" $values) }}
{{- else }}
{{- fail (printf "namespaceSelector is not a label selector: %s" $part) }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}
`;
}
