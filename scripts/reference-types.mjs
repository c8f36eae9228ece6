// Reads the exports of components/ from their syntax tree, which shows types as they are written, without resolving them.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

/**
 * `isPlain`: the value must be known to the program and cannot be the output of another resource. `isInput`: it can be one as a whole.
 * @typedef {{ name: string, type: string, optional: boolean, isPlain: boolean, isInput: boolean, doc: string, default: string | undefined }} Field
 * @typedef {{ name: string, doc: string, file: string, constructor: string, token: string, args: Field[], outputs: Field[], types: string[] }} Resource
 * @typedef {{ name: string, doc: string, fields: Field[] | undefined, text: string, types: string[] }} NamedType
 * @typedef {{ name: string, doc: string, signatures: string[], types: string[] }} Callable
 */

/** Aliases of unions of literals. The reference shows the literals instead of the alias. */
const wordsOf = new Map();

/**
 * The resources, types and functions that the package's root exports.
 * @param {string} root the repository
 * @param {string[]} others names that are read too, although they are not exported
 * @returns {{ resources: Resource[], types: Map<string, NamedType>, callables: Callable[] }}
 */
export function readComponents(root, others = []) {
  const files = globSync("components/**/*.ts", { cwd: root }).filter((file) => !file.endsWith(".test.ts"));
  const sources = files.sort().map((file) => parse(root, file));
  const index = sources.find(({ fileName }) => fileName === "components/index.ts");
  const exported = new Set([...namesExportedBy(index), ...others]);
  const handlers = globSync("provider/handlers/**/*.ts", { cwd: root }).map((file) => parse(root, file));
  const statements = [
    ...sources.flatMap((source) => source.statements),
    ...handlers
      .flatMap((source) => source.statements)
      .filter((node) => ts.isInterfaceDeclaration(node) && others.includes(node.name.text)),
  ];
  for (const source of [...sources, ...handlers]) {
    for (const { name, type } of source.statements.filter(ts.isTypeAliasDeclaration)) {
      const isOfWords = ts.isUnionTypeNode(type) && type.types.every(ts.isLiteralTypeNode);
      if (isOfWords && !exported.has(name.text)) wordsOf.set(name.text, typeText(type));
    }
  }
  const interfaces = new Map(statements.filter(ts.isInterfaceDeclaration).map((node) => [node.name.text, node]));
  const classes = new Map(statements.filter(ts.isClassDeclaration).map((node) => [node.name?.text, node]));
  const isExported = (node) => node.name !== undefined && exported.has(node.name.text);
  return {
    resources: [...classes.values()].filter(isExported).map((node) => resourceOf(node, { interfaces, classes })),
    types: new Map(
      statements
        .filter((node) => ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node))
        .filter(isExported)
        .map((node) => [node.name.text, namedTypeOf(node, interfaces)]),
    ),
    callables: callablesOf(statements.filter(ts.isFunctionDeclaration).filter(isExported)),
  };
}

function parse(root, file) {
  return ts.createSourceFile(file, readFileSync(join(root, file), "utf8"), ts.ScriptTarget.Latest, true);
}

function namesExportedBy(index) {
  const declarations = index.statements.filter(ts.isExportDeclaration);
  return new Set(declarations.flatMap(({ exportClause }) => exportClause.elements.map(({ name }) => name.text)));
}

function resourceOf(node, { interfaces, classes }) {
  const name = node.name.text;
  const inherited = parentsOf(node).flatMap((parent) => classes.get(parent)?.members ?? []);
  const properties = [...node.members, ...inherited]
    .filter(ts.isPropertyDeclaration)
    .filter((member) => !ts.isPrivateIdentifier(member.name));
  const args = fieldsOf(interfaces.get(`${name}Args`), interfaces);
  const outputs = properties.map(fieldOf).map((output) => {
    const doc = output.doc === "" ? (args.find((arg) => arg.name === output.name)?.doc ?? "") : output.doc;
    return { ...output, doc };
  });
  const isDynamic = node.heritageClauses?.some((clause) => clause.getText().includes("RametResource")) ?? false;
  const constructor = node.members.find(ts.isConstructorDeclaration);
  return {
    name,
    ...docOf(node),
    file: node.getSourceFile().fileName,
    constructor: `new ${name}(${constructor.parameters.map(parameterText).join(", ")})`,
    token: isDynamic ? `pulumi-nodejs:dynamic/ramet:${name}` : `ramet:index:${name}`,
    args,
    outputs,
    types: typesNamedIn(interfaces.get(`${name}Args`), interfaces),
  };
}

function callablesOf(declarations) {
  return declarations.map((one) => ({
    name: one.name.text,
    doc: docOf(one).doc,
    signatures: parameterListsOf(one).map((list) => `${one.name.text}(${list.join(", ")})`),
    types: namesIn(one),
  }));
}

/** Each way to call a function, whose rest parameter may be one of several tuples. */
function parameterListsOf({ parameters }) {
  const [first] = parameters;
  if (first?.dotDotDotToken === undefined) return [parameters.map(parameterText)];
  return first.type.types.map(({ elements }) => elements.map(parameterText));
}

function parameterText(parameter) {
  const optional = parameter.questionToken !== undefined || parameter.initializer !== undefined ? "?" : "";
  return `${parameter.name.getText()}${optional}: ${typeText(parameter.type)}`;
}

function namedTypeOf(node, interfaces) {
  const isInterface = ts.isInterfaceDeclaration(node);
  return {
    name: node.name.text,
    ...docOf(node),
    fields: isInterface ? fieldsOf(node, interfaces) : undefined,
    text: isInterface ? "" : typeText(node.type),
    types: typesNamedIn(node, interfaces),
  };
}

/** An interface's own fields, followed by inherited ones. */
function fieldsOf(node, interfaces) {
  if (node === undefined) return [];
  return [
    ...node.members.map(fieldOf),
    ...parentsOf(node).flatMap((name) => fieldsOf(interfaces.get(name), interfaces)),
  ];
}

function parentsOf(node) {
  return (node.heritageClauses ?? []).flatMap((clause) => clause.types.map(({ expression }) => expression.getText()));
}

function fieldOf(member) {
  return {
    name: member.name.getText(),
    type: typeText(member.type),
    optional: member.questionToken !== undefined,
    isPlain: !/\bInput<|Args\b/.test(member.type?.getText() ?? ""),
    isInput: isInput(member.type),
    ...docOf(member),
  };
}

function isInput(node) {
  if (node === undefined) return false;
  if (ts.isUnionTypeNode(node)) return node.types.some(isInput);
  return ts.isTypeReferenceNode(node) && node.typeName.getText() === "Input";
}

function typesNamedIn(node, interfaces) {
  if (node === undefined) return [];
  if (!ts.isInterfaceDeclaration(node)) return namesIn(node);
  const inherited = parentsOf(node).flatMap((name) => typesNamedIn(interfaces.get(name), interfaces));
  return [...node.members.flatMap(namesIn), ...inherited];
}

function namesIn(node) {
  const names = [];
  const visit = (inner) => {
    if (ts.isTypeReferenceNode(inner)) names.push(inner.typeName.getText());
    ts.forEachChild(inner, visit);
  };
  visit(node);
  return [...new Set(names)];
}

/** Renders a type without `Input` and `Output`, which the index page explains once. */
function typeText(node) {
  if (node === undefined) return "unknown";
  if (ts.isTypeReferenceNode(node)) return referenceText(node);
  if (ts.isUnionTypeNode(node)) return node.types.map(typeText).join(" | ");
  if (ts.isIntersectionTypeNode(node)) return node.types.map(typeText).join(" & ");
  if (ts.isTypeLiteralNode(node)) return `{ ${node.members.map(memberText).join("; ")} }`;
  if (!ts.isArrayTypeNode(node)) return oneLine(node.getText());
  const element = typeText(node.elementType);
  return element.includes(" | ") ? `(${element})[]` : `${element}[]`;
}

function referenceText(node) {
  const name = node.typeName.getText();
  const parameters = (node.typeArguments ?? []).map(typeText);
  if (name === "Input" || name === "Output") return parameters[0];
  return parameters.length === 0 ? (wordsOf.get(name) ?? name) : `${name}<${parameters.join(", ")}>`;
}

function memberText(member) {
  if (member.name === undefined || member.type === undefined) return oneLine(member.getText());
  return `${member.name.getText()}${member.questionToken === undefined ? "" : "?"}: ${typeText(member.type)}`;
}

/** Returns the doc comment and its `@default`. */
function docOf(node) {
  const [comment] = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc).slice(-1);
  const tag = comment?.tags?.find(({ tagName }) => tagName.text === "default");
  return {
    doc: oneLine(ts.getTextOfJSDocComment(comment?.comment) ?? ""),
    default: tag === undefined ? undefined : oneLine(ts.getTextOfJSDocComment(tag.comment) ?? ""),
  };
}

function oneLine(text) {
  return text.replaceAll(/\s+/g, " ").trim();
}
