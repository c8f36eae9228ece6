// Writes plugin/schema.json, the schema of Pulumi's package, from the types of components/; with --check it only reports whether it is
// up to date.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { format } from "prettier";
import ts from "typescript";
import { readComponents } from "./reference-types.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const path = join(root, "plugin/schema.json");
const { version, description } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const { resources, types } = readComponents(root, ["Readiness", "ReadinessArgs", "SnapshotStackFacts"]);
/** The classes of resources, which no other language has as values. */
const classes = new Set(resources.map(({ name }) => name));
/** All but the provider, which a schema describes elsewhere. */
const described = resources.filter(({ name }) => name !== "Provider");
/** What other languages cannot pass or get: functions, and resources as values. */
const onlyNode = new Set(["transform", "nodes"]);
/** The object types of the schema, by name. */
const named = {};
/** Whether the types of a component are read. The inputs of other resources are known when their provider gets them. */
let isComponent = false;

const keywords = new Map([
  [ts.SyntaxKind.StringKeyword, { type: "string" }],
  [ts.SyntaxKind.BooleanKeyword, { type: "boolean" }],
  [ts.SyntaxKind.NumberKeyword, { type: "integer" }],
  [ts.SyntaxKind.UnknownKeyword, { $ref: "pulumi.json#/Any" }],
]);

const settings = {
  kubeconfig:
    "The kubeconfig: its text, or a path. Default: `KUBECONFIG`, `~/.kube/config` or the Pod's service account.",
  context: "The context of the kubeconfig. Default: its current one.",
  cluster: "The cluster of the kubeconfig. Default: that of the context.",
  namespace: "The namespace of resources without one. Default: that of the context.",
  organization:
    "The stack's organization, which makes the names of owners in the cluster unique. Default: none is part of them.",
  forgetCluster:
    "The UID of the namespace `kube-system` of a cluster that no longer exists: what a state has of it is forgotten.",
};
const variables = Object.fromEntries(
  Object.entries(settings).map(([name, text]) => [
    name,
    { type: "string", description: text, ...(name === "kubeconfig" && { secret: true }) },
  ]),
);
/** Inputs that programs in TypeScript do not write, because a class derives them from other resources. */
const derived = {
  NamedSnapshot: [
    {
      name: "source",
      type: "Record<string, unknown>",
      doc: "What `from` refers to, so that a preview knows the digest: `{ template }` with the spec of the SandboxTemplate, or `{ snapshot: { digest } }`.",
    },
    {
      name: "inheritedPorts",
      type: "number[]",
      doc: "The ports of the snapshot it is built from, which its clones have too.",
    },
  ],
  SandboxClone: [
    {
      name: "portsFollow",
      type: "boolean",
      doc: "Whether `ports` are those of the snapshot, whose changes do not replace the clone.",
    },
  ],
};

const schema = {
  name: "ramet",
  version,
  displayName: "Ramet",
  description,
  license: "Apache-2.0",
  language: Object.fromEntries(
    ["nodejs", "python", "csharp", "go", "java"].map((language) => [language, { respectSchemaVersion: true }]),
  ),
  config: { variables },
  provider: { inputProperties: variables },
  resources: Object.fromEntries(
    described.map((resource) => [`ramet:index:${resource.name}`, resourceSchema(resource)]),
  ),
};
schema.types = Object.fromEntries(Object.entries(named).map(([name, type]) => [`ramet:index:${name}`, type]));
const text = await format(JSON.stringify(schema), { parser: "json", printWidth: 120 });

let current = "";
try {
  current = readFileSync(path, "utf8");
} catch {
  // The first time.
}
if (!process.argv.includes("--check")) writeFileSync(path, text);
else if (current !== text) {
  console.error("plugin/schema.json is not up to date. Run: node scripts/generate-schema.mjs");
  process.exitCode = 1;
}

function resourceSchema({ name, doc, token, ...resource }) {
  isComponent = !token.startsWith("pulumi-nodejs:dynamic/");
  const outputs = resource.outputs.filter((field) => !onlyNode.has(field.name));
  const args = [
    ...resource.args.filter((field) => !onlyNode.has(field.name)),
    ...(derived[name] ?? []).map((field) => ({ ...field, optional: true, isInput: true })),
  ];
  return {
    description: doc,
    ...(isComponent && { isComponent }),
    properties: properties(
      outputs.map((field) => ({ ...field, isInput: true })),
      name,
    ),
    required: outputs.filter(({ type }) => !type.endsWith("| undefined")).map((field) => field.name),
    inputProperties: properties(args, name),
    requiredInputs: args.filter(({ optional }) => !optional).map((field) => field.name),
    ...(!isComponent && { aliases: [{ type: token }] }),
  };
}

function properties(fields, owner) {
  return Object.fromEntries(fields.map((field) => [field.name, property(field, owner)]));
}

function property({ name, type, doc, default: standard, isInput = true }, owner) {
  const known = typeOf(parsed(type), owner + name[0].toUpperCase() + name.slice(1));
  const { words, ...rest } = known;
  const notes = [
    doc,
    ...(words === undefined ? [] : [`One of ${words.map((word) => `\`${word}\``).join(", ")}.`]),
    ...(standard === undefined ? [] : [`Default: ${standard}.`]),
  ];
  const isSecret = (owner === "ApiKey" && name === "key") || (owner === "Copy" && name === "secret");
  return {
    ...rest,
    description: notes.filter((note) => note !== "").join(" "),
    ...(isSecret && { secret: true }),
    ...(isComponent && !isInput && { plain: true }),
  };
}

function parsed(type) {
  const [statement] = ts.createSourceFile("type.ts", `type T = ${type};`, ts.ScriptTarget.Latest, true).statements;
  if (!ts.isTypeAliasDeclaration(statement)) throw new Error(`not a type: ${type}`);
  return statement.type;
}

/** The schema of a type. All numbers of the kinds are whole. @param name the name of an object type that has none */
function typeOf(node, name) {
  if (ts.isParenthesizedTypeNode(node) || ts.isTypeOperatorNode(node)) return typeOf(node.type, name);
  const keyword = keywords.get(node.kind);
  if (keyword !== undefined) return keyword;
  if (ts.isLiteralTypeNode(node) && ts.isStringLiteral(node.literal))
    return { type: "string", words: [node.literal.text] };
  if (ts.isArrayTypeNode(node)) {
    const { words, ...items } = typeOf(node.elementType, name);
    return { type: "array", items, ...(words && { words }) };
  }
  if (ts.isTypeLiteralNode(node)) return objectOf(node.members, name);
  if (ts.isUnionTypeNode(node)) return unionOf(node.types, name);
  if (ts.isTypeReferenceNode(node)) return referenceOf(node);
  throw new Error(`no schema for the type ${node.getText()}`);
}

function unionOf(nodes, name) {
  const others = nodes.filter((node) => node.kind !== ts.SyntaxKind.UndefinedKeyword && !classes.has(node.getText()));
  const objects = others.filter(ts.isTypeLiteralNode);
  if (objects.length > 1 && objects.length === others.length)
    return objectOf(
      objects.flatMap(({ members }) => [...members]),
      name,
      true,
    );
  const all = others.map((node) => typeOf(node, name));
  if (all.length === 1) return all[0];
  if (all.every(({ words }) => words !== undefined))
    return { type: "string", words: all.flatMap(({ words }) => words) };
  return { oneOf: all };
}

function referenceOf(node) {
  const name = node.typeName.getText();
  if (name === "Input") return typeOf(node.typeArguments[0], "");
  // Parts of Pods, which the API server validates. Their own schema would need the plugin of Kubernetes.
  if (name.startsWith("types.input.")) return { $ref: "pulumi.json#/Any" };
  if (name === "Record") {
    const { words: _, ...additionalProperties } = typeOf(node.typeArguments[1], "");
    return { type: "object", additionalProperties };
  }
  const type = types.get(name);
  if (type === undefined) throw new Error(`no schema for the type ${name}`);
  const short = name.replace(/Args$/, "");
  if (type.fields === undefined) return typeOf(parsed(type.text), short);
  // Before its properties, because a type may contain itself.
  if (named[short] === undefined) {
    named[short] = { type: "object", description: type.doc };
    const required = type.fields.filter(({ optional }) => !optional).map((field) => field.name);
    Object.assign(named[short], { properties: properties(type.fields, short), required });
  }
  return { $ref: `#/types/ramet:index:${short}` };
}

/** @param isChoice whether the members are those of several types */
function objectOf(members, name, isChoice = false) {
  const fields = members.map((member) => ({
    name: member.name.getText(),
    type: member.type.getText(),
    optional: isChoice || member.questionToken !== undefined,
    doc: "",
  }));
  named[name] = {
    type: "object",
    properties: properties(fields, name),
    required: fields.filter(({ optional }) => !optional).map((field) => field.name),
  };
  return { $ref: `#/types/ramet:index:${name}` };
}
