// Translates the code of a module to that of a script, which can run again in the same global scope.
import { parse } from "acorn";

const common = { ecmaVersion: "latest", allowHashBang: true };

/**
 * Returns a script whose value is that of the last expression, or a promise of it if the code awaits. Its declarations are global
 * variables. Code that cannot be parsed stays as it is: running it says why.
 */
export function asScript(code) {
  let body;
  try {
    ({ body } = parse(code, { ...common, sourceType: "module" }));
  } catch {
    return code;
  }
  const text = ({ start, end }) => code.slice(start, end);
  const names = [];
  const functions = [];
  const statements = body.flatMap((node) => statement(node, { text, names, functions }));
  const variables = names.length === 0 ? [] : [`var ${[...new Set(names)].join(", ")};`];
  const hoisted = [...functions, ...variables].join("\n");
  const script = [hoisted, ...statements].join("\n").trimStart();
  if (isScript(script)) return script;
  const last = body.at(-1)?.type === "ExpressionStatement" ? statements.pop() : undefined;
  const result = last === undefined ? "" : `return (${last.replace(/;\s*$/, "")}\n);`;
  return `${hoisted}\n(async () => {\n${statements.join("\n")}\n${result}\n})()`;
}

/** Whether the code runs without `await`. */
function isScript(code) {
  try {
    parse(code, { ...common, sourceType: "script" });
    return true;
  } catch {
    return false;
  }
}

function statement(node, parts) {
  const { text, names, functions } = parts;
  switch (node.type) {
    case "ImportDeclaration":
      return imported(node, parts);
    case "ExportNamedDeclaration":
      return node.declaration == null ? [] : statement(node.declaration, parts);
    case "ExportDefaultDeclaration":
      return [`(${text(node.declaration)});`];
    case "FunctionDeclaration":
      functions.push(text(node));
      return [];
    case "ClassDeclaration":
      names.push(node.id.name);
      return [`${node.id.name} = ${text(node)};`];
    case "VariableDeclaration":
      return node.declarations.flatMap(({ id, init }) => {
        names.push(...bound(id));
        const value = init == null ? "undefined" : text(init);
        // `void`, because a declaration has no value.
        return node.kind === "var" && init == null ? [] : [`void (${text(id)} = ${value});`];
      });
    default:
      return [text(node)];
  }
}

function imported({ source, specifiers }, { text, names }) {
  const from = `await import(${text(source)})`;
  names.push(...specifiers.map(({ local }) => local.name));
  if (specifiers.length === 0) return [`void (${from});`];
  return specifiers.map(({ type, local, imported: name }) => {
    if (type === "ImportNamespaceSpecifier") return `void (${local.name} = ${from});`;
    const key = type === "ImportDefaultSpecifier" ? "default" : text(name);
    return `void ({ ${key}: ${local.name} } = ${from});`;
  });
}

/** The names that a pattern declares. */
function bound(pattern) {
  switch (pattern?.type) {
    case "Identifier":
      return [pattern.name];
    case "ObjectPattern":
      return pattern.properties.flatMap((each) => bound(each.type === "RestElement" ? each.argument : each.value));
    case "ArrayPattern":
      return pattern.elements.flatMap(bound);
    case "AssignmentPattern":
      return bound(pattern.left);
    case "RestElement":
      return bound(pattern.argument);
    default:
      return [];
  }
}
