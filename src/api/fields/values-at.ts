/** A value inside an object. */
export interface ValueAt {
  value: unknown;
  /** Its path with the indices of lists: `spec.runtimes[0].name`. */
  at: string;
  /** The last name in the path. */
  key: string;
}

/**
 * Returns the values at a path. `x[]` is each item of a list, `x[0]` the first, `x[y]` the entry y of a map, and `x.*` each field of an
 * object. Values of other types than the path expects have nothing there: a Pod template has no schema.
 */
export function valuesAt(root: unknown, path: string): ValueAt[] {
  return stepsOf(path).reduce<ValueAt[]>(
    (all, step) => all.flatMap((place) => next(place, step)),
    [{ value: root, at: "", key: "" }],
  );
}

type Step = { field: string } | { entry: string };

function stepsOf(path: string): Step[] {
  return [...path.matchAll(/\[([^\]]*)\]|[^.[\]]+/g)].map(([field, entry]) =>
    entry === undefined ? { field } : { entry },
  );
}

function next({ value, at }: ValueAt, step: Step): ValueAt[] {
  if (typeof value !== "object" || value === null) return [];
  if ("field" in step) {
    const dot = at === "" ? "" : ".";
    const fields = step.field === "*" ? Object.keys(value) : [step.field];
    return fields.flatMap((field) => own(value, field, `${at}${dot}${field}`));
  }
  if (step.entry !== "") return own(value, step.entry, `${at}[${step.entry}]`);
  return Array.isArray(value) ? value.flatMap((_, index) => own(value, `${index}`, `${at}[${index}]`)) : [];
}

function own(value: object, key: string, at: string): ValueAt[] {
  return Object.hasOwn(value, key) ? [{ value: (value as Record<string, unknown>)[key], at, key }] : [];
}
