interface Listed {
  namespace?: string | undefined;
  kind?: string | undefined;
  name: string;
}

/**
 * The order of all lists: by namespace, then by kind, then by name, each by its characters' codes. An API server sorts almost like
 * this, but promises no order, and puts the namespace `a-b` before `a`.
 */
export function inOrder<T>(items: readonly T[], of: (item: T) => Listed): T[] {
  return items.toSorted((a, b) => {
    const [one, other] = [of(a), of(b)];
    return compare(one.namespace, other.namespace) || compare(one.kind, other.kind) || compare(one.name, other.name);
  });
}

function compare(a = "", b = ""): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
