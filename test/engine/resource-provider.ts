import type { Values } from "./values.ts";

/** Applies resources of one kind. */
export interface ResourceProvider {
  /** @throws Error with the problems of the inputs */
  check(olds: Values, news: Values, urn: string): Promise<Values>;
  diff(id: string, old: { inputs: Values; outputs: Values }, news: Values): Promise<Difference>;
  /** @throws InitError if the resource was created but not initialized */
  create(inputs: Values): Promise<{ id: string; outputs: Values }>;
  update(id: string, old: Values, news: Values): Promise<Values>;
  /** Resolves to undefined if the resource no longer exists. */
  read(id: string, outputs: Values): Promise<Values | undefined>;
  delete(id: string, outputs: Values): Promise<void>;
}

export interface Difference {
  changes: boolean;
  replaces: string[];
  /** Whether the old resource must be deleted before its replacement is created. */
  deleteBeforeReplace: boolean;
}

/** Thrown if a resource was created but not initialized. */
export class InitError extends Error {
  override readonly name = "InitError";
  readonly id: string;
  readonly outputs: Values;
  readonly reasons: string[];

  constructor(message: string, { id, outputs, reasons }: { id: string; outputs: Values; reasons: string[] }) {
    super(message);
    this.id = id;
    this.outputs = outputs;
    this.reasons = reasons;
  }
}
