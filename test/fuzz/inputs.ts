import fc from "fast-check";

/** Values that parsers tend to forget. */
const hostileValues: readonly unknown[] = [
  null,
  true,
  -1,
  0,
  0.5,
  1e308,
  2 ** 53,
  "",
  " ",
  "\0",
  "__proto__",
  "constructor",
  "../..",
  "9".repeat(400),
  "1".repeat(20_000),
  "a-".repeat(5_000),
  "é\ud800",
  [],
  {},
  [[[[]]]],
];

const hostileTexts: readonly string[] = [
  ...hostileValues.filter((value) => typeof value === "string"),
  "\r\n",
  "\r\n\r\n",
  "\n",
  "\t",
  ":",
  "::",
  "/",
  "//",
  "%",
  "%00",
  "%2e%2e",
  "@",
  ".",
  "..",
  ",",
  "-",
  "--",
  "*",
  "0",
  "-1",
  "1e999",
  "{",
  "[",
  "[".repeat(5_000),
  '{"a":'.repeat(3_000),
  '"',
  "<",
  "&x;",
  "\x7f",
  "\xff",
  "\u2028",
];

/** How one place of an input is changed. `at` and `length` are fractions of what there is. */
interface Edit {
  kind: "insert" | "delete" | "repeat" | "replace" | "move";
  at: number;
  length: number;
  text: string;
}

const fraction = fc.double({ min: 0, max: 1, noNaN: true });

function edits(tokens: readonly string[]): fc.Arbitrary<Edit[]> {
  const text = fc.oneof(
    { arbitrary: fc.constantFrom(...tokens), weight: 4 },
    { arbitrary: fc.constantFrom(...hostileTexts), weight: 2 },
    { arbitrary: fc.string({ maxLength: 8 }), weight: 2 },
    { arbitrary: fc.string({ unit: "binary", maxLength: 4 }), weight: 1 },
  );
  const kind = fc.constantFrom<Edit["kind"]>("insert", "delete", "repeat", "replace", "move");
  return fc.array(fc.record({ kind, at: fraction, length: fraction, text }), { maxLength: 5 });
}

function edited(text: string, { kind, at, length, text: given }: Edit): string {
  const from = Math.floor(at * text.length);
  // Mostly short parts.
  const to = Math.min(text.length, from + 1 + Math.floor(length ** 4 * text.length));
  const [before, part, after] = [text.slice(0, from), text.slice(from, to), text.slice(to)];
  if (kind === "insert") return before + given + part + after;
  if (kind === "delete") return before + after;
  if (kind === "repeat") return before + part.repeat(1 + Math.floor(length * 8)) + after;
  if (kind === "replace") return before + given + after;
  return after + part + before;
}

/** Texts like the samples: sometimes one of them, mostly one with some places changed. Longer ones are cut off. */
export function textsLike(samples: readonly string[], tokens: readonly string[] = [" "]): fc.Arbitrary<string> {
  const changed = fc
    .tuple(fc.constantFrom(...samples), edits([...tokens, ...samples]))
    .map(([sample, changes]) => changes.reduce(edited, sample).slice(0, longest));
  return fc.oneof({ arbitrary: changed, weight: 9 }, { arbitrary: fc.string(), weight: 1 });
}

/** Bytes like the samples, each character of which is one byte. */
export function bytesLike(samples: readonly string[], tokens: readonly string[] = [" "]): fc.Arbitrary<Buffer> {
  return textsLike(samples, tokens).map((text) => Buffer.from(text, "latin1"));
}

const longest = 200_000;

interface JsonEdit {
  at: number;
  kind: "replace" | "remove" | "add";
  name: string;
  value: unknown;
}

/** JSON values like the samples: some of their parts are replaced, removed or added. */
export function valuesLike(samples: readonly unknown[]): fc.Arbitrary<unknown> {
  const parts = samples.flatMap((sample) => partsOf(sample));
  const names = [...new Set(parts.flatMap((part) => (isObject(part) ? Object.keys(part) : [])))];
  const value = fc.oneof(
    { arbitrary: fc.constantFrom(...hostileValues), weight: 3 },
    { arbitrary: fc.constantFrom(...parts), weight: 2 },
    { arbitrary: fc.jsonValue({ maxDepth: 2 }), weight: 1 },
  );
  const edit = fc.record<JsonEdit>({
    at: fraction,
    kind: fc.constantFrom<JsonEdit["kind"]>("replace", "remove", "add"),
    name: fc.oneof(fc.constantFrom("x", "__proto__", "constructor", ...names), fc.string()),
    value,
  });
  return fc
    .tuple(fc.constantFrom(...samples), fc.array(edit, { maxLength: 4 }))
    .map(([sample, changes]) => changes.reduce(changedJson, sample));
}

/** The texts of such values, some of which are no longer JSON. */
export function jsonLike(samples: readonly unknown[]): fc.Arbitrary<string> {
  const written = valuesLike(samples).map((value) => JSON.stringify(value));
  return fc.oneof(
    { arbitrary: written, weight: 3 },
    { arbitrary: textsLike(samples.map((sample) => JSON.stringify(sample))), weight: 1 },
  );
}

function changedJson(value: unknown, { at, kind, name, value: given }: JsonEdit): unknown {
  const copy: unknown = structuredClone(value);
  const places = placesIn(copy);
  const place = places[Math.floor(at * places.length)];
  if (place === undefined) return given;
  const [holder, key] = place;
  if (kind === "remove") Reflect.deleteProperty(holder, key);
  else if (kind === "replace") define(holder, key, given);
  else if (isObject(holder)) define(holder, name, given);
  return copy;
}

/** As JSON.parse does: `__proto__` is an ordinary name. */
function define(holder: object, key: PropertyKey, value: unknown): void {
  Object.defineProperty(holder, key, { value, configurable: true, enumerable: true, writable: true });
}

function placesIn(value: unknown): [holder: object, key: string][] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [[value, key], ...placesIn(inner)] as [object, string][]);
}

function partsOf(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [value];
  return [value, ...Object.values(value).flatMap((inner) => partsOf(inner))];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
