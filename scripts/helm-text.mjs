// Prints the templates that helm-templates.mjs derives.

/**
 * @param {import("./helm-templates.mjs").Tree} tree of a document
 * @param {{ conditions: Map<string, string>, values: Map<string, { text: string, isCount?: boolean, isJson?: boolean }> }} helm the
 * condition and the value of each setting, as expressions of Helm
 */
export function templateText(tree, helm) {
  return `${linesOf(tree, { helm, pad: "", isDocument: true }).join("\n")}\n`;
}

function linesOf(tree, at) {
  if (tree === undefined) return [];
  if ("if" in tree) return conditional(tree, at);
  const list = at.key === undefined ? listIn(tree, "splice" in tree) : undefined;
  if (list !== undefined && at.bound !== list) {
    const body = linesOf(tree, { ...at, bound: list });
    return [`${at.pad}{{- range $item := ${at.helm.values.get(list).text} }}`, ...body, `${at.pad}{{- end }}`];
  }
  if ("splice" in tree) return childrenOf(tree.splice).flatMap(([, item]) => linesOf(item, at));
  if (at.isDocument)
    return ["---", ...childrenOf(tree).flatMap(([key, child]) => linesOf(child, { ...at, isDocument: false, key }))];
  return entry(tree, at);
}

function conditional({ if: names, then, else: otherwise }, at) {
  // A range over a list that is not given prints nothing.
  if (otherwise === undefined && names.length === 1 && isRangeOver(then, names[0])) return linesOf(then, at);
  const conditions = names.map((name) => at.helm.conditions.get(name));
  const holds = conditions.length === 1 ? conditions[0] : `or ${conditions.map((one) => `(${one})`).join(" ")}`;
  const known = at.known?.get(holds);
  if (known !== undefined) return linesOf(known ? then : otherwise, at);
  const [yes, no] = [
    [then, true],
    [otherwise, false],
  ].map(([tree, is]) => linesOf(tree, { ...at, known: new Map([...(at.known ?? []), [holds, is]]) }));
  const isNot = yes.length === 0;
  const [first, second] = isNot ? [no, yes] : [yes, no];
  const middle = second.length === 0 ? [] : [`${at.pad}{{- else }}`, ...second];
  return [`${at.pad}{{- if ${isNot ? negated(holds) : holds} }}`, ...first, ...middle, `${at.pad}{{- end }}`];
}

function isRangeOver(tree, list) {
  return tree !== undefined && listIn(tree, "splice" in tree) === list;
}

function negated(condition) {
  return condition.startsWith("not ") && !condition.includes("(")
    ? condition.slice("not ".length)
    : `not (${condition})`;
}

/** A field, or an item of a list. */
function entry(tree, at) {
  const { pad, key } = at;
  const prefix = key === undefined ? "-" : `${keyText(key)}:`;
  if (isScalar(tree)) return [`${pad}${prefix} ${scalarText(tree.value, at)}`];
  const children = childrenOf(tree);
  if (children.length === 0) return [`${pad}${prefix} ${Array.isArray(tree.value) ? "[]" : "{}"}`];
  const within = { ...at, isDocument: false, pad: `${pad}  `, inArguments: key === "args" };
  const inner = children.flatMap(([name, child]) => linesOf(child, { ...within, key: name }));
  if (key !== undefined) return [`${pad}${prefix}`, ...inner];
  const [first] = inner;
  if (first.startsWith(`${pad}  {{-`)) return [`${pad}-`, ...inner];
  return [`${pad}- ${first.slice(pad.length + 2)}`, ...inner.slice(1)];
}

/** The fields of a map, or the items of a list, which have no key. */
function childrenOf(tree) {
  if ("map" in tree) return tree.map;
  if ("list" in tree) return tree.list.map((item) => [undefined, item]);
  if (Array.isArray(tree.value)) return tree.value.map((value) => [undefined, { value }]);
  return Object.entries(tree.value).map(([key, value]) => [key, { value }]);
}

function isScalar(tree) {
  return "value" in tree && (typeof tree.value !== "object" || tree.value === null);
}

/** The list of which a tree has an item, outside of the lists within it. */
function listIn(tree, isInList = false) {
  if (tree === undefined) return undefined;
  if ("if" in tree) return listIn(tree.then, isInList) ?? listIn(tree.else, isInList);
  if ("splice" in tree) return listIn(tree.splice, isInList);
  if (isScalar(tree)) return /⟦([^⟧]+)\[\]⟧/.exec(String(tree.value))?.[1];
  const children = childrenOf(tree);
  const isList = children.length > 0 && children[0][0] === undefined;
  if (isList && !isInList) return undefined;
  return children.map(([, child]) => listIn(child)).find((found) => found !== undefined);
}

function keyText(key) {
  return /^[A-Za-z][\w./-]*$/.test(key) && !reserved.test(key) ? key : JSON.stringify(key);
}

/** What YAML 1.1, which Helm reads, takes for another value. */
const reserved = /^(y|n|yes|no|on|off|true|false|null)$/i;

function scalarText(value, { helm, inArguments = false }) {
  if (typeof value !== "string") return JSON.stringify(value);
  const parts = value.split(/⟦([^⟧]+)⟧/);
  if (parts.length === 1) return plainText(value);
  const expressions = parts.map((part, at) => (at % 2 === 0 ? { literal: part } : valueOf(part, helm)));
  const [before, found, after] = expressions;
  if (parts.length === 3 && before.literal === "" && after.literal === "") {
    if (found.isJson) return `{{ ${found.text} }}`;
    if (!found.isCount) return `{{ ${found.text} | toJson }}`;
    return inArguments ? `{{ ${found.text} | int64 | toString | toJson }}` : `{{ ${found.text} | int64 }}`;
  }
  const printed = expressions
    .filter(({ literal }) => literal !== "")
    .map(({ literal, text }) => (literal === undefined ? text : JSON.stringify(literal)));
  return `{{ printf ${JSON.stringify("%s".repeat(printed.length))} ${printed.join(" ")} | toJson }}`;
}

function valueOf(key, helm) {
  return key.endsWith("[]") ? { text: "$item" } : helm.values.get(key);
}

function plainText(value) {
  if (/^[A-Za-z][\w./-]*$/.test(value) && !reserved.test(value)) return value;
  return JSON.stringify(value).replaceAll("{{", '{{ "{{" }}');
}
