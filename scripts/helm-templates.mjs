// Derives Helm templates from a function that renders manifests. The function is called with many combinations of given and absent
// settings. Where its results differ, a template has a condition; where they have the sentinel of a setting, it has the value.

/** Stands for the value of a setting in a manifest, and `⟦key[]⟧` for each item of a list. */
export function sentinel(key) {
  return `⟦${key}⟧`;
}

/**
 * @typedef {{ if: string[], then?: Tree, else?: Tree } | { map: [string, Tree][] } | { list: Tree[] } | { splice: Tree } | { value: unknown } | undefined} Tree
 * `if` holds where one of the settings is given. A `splice` is a list whose items belong to the list around it.
 */

/**
 * @param {(given: Set<string>) => { kind: string, metadata: { name: string, namespace?: string } }[]} manifests
 * @param {{ names: string[], modes: string[], bases?: string[] }} settings that can be given; a mode changes the meaning of others,
 * and excludes the other modes; some have an effect only together with a base
 * @returns {{ kind: string, tree: Tree }[]} documents, in their order
 */
export function deriveTemplates(manifests, { names, modes, bases = [] }) {
  const rendered = new Map();
  const render = (given) => {
    const key = [...given].sort().join(" ");
    if (!rendered.has(key)) rendered.set(key, documentsOf(manifests(given)));
    return rendered.get(key);
  };
  const free = names.filter((name) => !modes.includes(name));
  const scopes = scopesOf(modes, { render, bases }, free);
  const samples = allScopes(scopes).flatMap((scope) => scope.samples);
  const keys = merged(samples.map(({ documents }) => [...documents.keys()]));
  return keys.map((key) => ({ kind: key.split(" ")[0], tree: treeIn(scopes, key) }));
}

/** The scope without a mode, below those with one of the modes. */
function scopesOf(modes, source, free) {
  const [mode, ...others] = modes;
  if (mode === undefined) return scopeOf(source, new Map(), free);
  return { mode, on: scopeOf(source, new Map([[mode, true]]), free), off: scopesOf(others, source, free) };
}

function allScopes(scopes) {
  return scopes.mode === undefined ? [scopes] : [...allScopes(scopes.off), scopes.on];
}

function treeIn(scopes, key) {
  if (scopes.mode === undefined) return documentIn(scopes, key);
  return either(scopes.mode, documentIn(scopes.on, key), treeIn(scopes.off, key));
}

const absent = Symbol("absent");

/** The combinations of settings that are compared: none, all, and each alone added to none and to the bases, and taken from all. */
function scopeOf(source, fixed, free) {
  const always = [...fixed].filter(([, on]) => on).map(([name]) => name);
  const sample = (given) => ({ documents: source.render(new Set([...always, ...given])) });
  const base = free.filter((one) => source.bases.includes(one));
  const [none, all, onBase] = [[], free, base].map(sample);
  const single = free.map((one) => ({
    alone: sample([one]),
    without: sample(free.filter((other) => other !== one)),
    added: base.length === 0 ? onBase : sample([...base, one]),
  }));
  const samples = [none, all, onBase, ...single.flatMap((one) => Object.values(one))];
  return { source, fixed, free, none, all, onBase, single, samples };
}

function documentsOf(manifests) {
  const plain = JSON.parse(JSON.stringify(manifests));
  return new Map(plain.map((one) => [`${one.kind} ${one.metadata.namespace ?? ""}/${one.metadata.name}`, one]));
}

function documentIn(scope, key) {
  const get = ({ documents }) => documents.get(key) ?? absent;
  return where(get, scope, (inner) => {
    // Only these settings matter in this document.
    const own = deciders(inner, textOf(get));
    return node(get, scopeOf(inner.source, inner.fixed, own));
  });
}

function narrowed({ source, fixed, free }, name, on) {
  const others = free.filter((other) => other !== name);
  return scopeOf(source, new Map([...fixed, [name, on]]), others);
}

function textOf(get) {
  return (sample) => JSON.stringify(get(sample)) ?? "absent";
}

/** The settings that change what `of` returns. */
function deciders({ free, none, all, onBase, single }, of) {
  return free.filter((_, at) => {
    const { alone, without, added } = single[at];
    return of(alone) !== of(none) || of(without) !== of(all) || of(added) !== of(onBase);
  });
}

/** What `make` returns, where there is a value. */
function where(get, scope, make) {
  const holds = (sample) => get(sample) !== absent;
  const found = scope.samples.map(holds);
  if (found.every(Boolean)) return make(scope);
  if (!found.some(Boolean)) return undefined;
  const names = deciders(scope, holds);
  const alone = (name) => scope.single[scope.free.indexOf(name)].alone;
  if (!holds(scope.none) && names.every((name) => holds(alone(name))))
    return { if: names, then: make(names.length === 1 ? narrowed(scope, names[0], true) : scope) };
  const [name] = names;
  return branch(name, where(get, narrowed(scope, name, true), make), where(get, narrowed(scope, name, false), make));
}

function branch(name, then, otherwise) {
  if (JSON.stringify(then) === JSON.stringify(otherwise)) return then;
  return { if: [name], then, else: otherwise };
}

/** As `branch`, but only around the fields that differ. */
function either(name, then, otherwise) {
  const [one, other] = [then, otherwise].map(fieldsOf);
  if (one === undefined || other === undefined || JSON.stringify(then) === JSON.stringify(otherwise))
    return branch(name, then, otherwise);
  return {
    map: merged([[...one.keys()], [...other.keys()]]).map((key) => [key, either(name, one.get(key), other.get(key))]),
  };
}

function fieldsOf(tree) {
  if (tree === undefined || "list" in tree || "if" in tree) return undefined;
  if ("map" in tree) return new Map(tree.map);
  if (typeof tree.value !== "object" || Array.isArray(tree.value)) return undefined;
  return new Map(Object.entries(tree.value).map(([key, value]) => [key, { value }]));
}

/** The template of a value that exists in some of the samples. */
function node(get, scope, key) {
  const values = scope.samples.map(get).filter((value) => value !== absent);
  if (new Set(values.map((value) => JSON.stringify(value))).size <= 1)
    return values.length === 0 ? undefined : { value: values[0] };
  const isFull = values.every((value) => typeof value === "object" && Object.keys(value).length > 0);
  if (isFull && values.every(Array.isArray)) return { list: items(get, scope, { key, values }) };
  if (isFull && !values.some(Array.isArray)) return { map: fields(get, scope, values) };
  const [name] = deciders(scope, textOf(get));
  if (name === undefined) throw new Error(`Cannot find the setting that changes ${key}: ${JSON.stringify(values)}`);
  return branch(name, node(get, narrowed(scope, name, true), key), node(get, narrowed(scope, name, false), key));
}

function fields(get, scope, values) {
  return merged(values.map(Object.keys)).map((key) => {
    const child = (sample) => valueIn(get(sample), (value) => value[key]);
    return [key, where(child, scope, (inner) => node(child, inner, key))];
  });
}

function items(get, scope, { key, values }) {
  const isArguments = key === "args";
  const length = values[0].length;
  if (!isArguments && values.every((value) => value.length === length)) {
    return values[0].map((_, at) => {
      const child = (sample) => valueIn(get(sample), (value) => value[at]);
      return where(child, scope, (inner) => node(child, inner));
    });
  }
  const partsOf = isArguments ? flagsOf : itemsOf;
  return merged(values.map((value) => [...partsOf(value).keys()])).map((name) => {
    const child = (sample) => valueIn(get(sample), (value) => partsOf(value).get(name));
    const tree = where(child, scope, (inner) => node(child, inner));
    return isArguments ? spliced(tree) : tree;
  });
}

function valueIn(value, child) {
  return value === absent ? absent : (child(value) ?? absent);
}

function spliced(tree) {
  if (tree === undefined) return undefined;
  return "if" in tree ? { if: tree.if, then: spliced(tree.then), else: spliced(tree.else) } : { splice: tree };
}

/** Flags with their values. */
function flagsOf(args) {
  const flags = new Map();
  for (const arg of args) {
    const last = [...flags.values()].at(-1);
    if (last === undefined || String(arg).startsWith("--")) flags.set(arg, [arg]);
    else last.push(arg);
  }
  return flags;
}

function itemsOf(list) {
  return new Map(list.map((item) => [item.name ?? JSON.stringify(item), item]));
}

/** All keys, in an order in which each sequence has its own. */
function merged(sequences) {
  const order = [];
  for (const sequence of sequences) {
    let next = 0;
    for (const key of sequence) {
      const at = order.indexOf(key);
      if (at < 0) order.splice(next, 0, key);
      next = (at < 0 ? next : at) + 1;
    }
  }
  return order;
}
