/**
 * What one sort of resource does at each step of its life, without Pulumi: `provider/*.ts` hands it to Pulumi's process for
 * dynamic resources. All values are plain JSON; secrets are in clear here, and go no further than where they belong.
 */
export interface ResourceHandler {
  /** Judges what the program wishes, and adds what follows from it. Called in previews too, with unknown values. */
  check(olds: Values, news: Values): Promise<CheckResult>;
  /** @param olds what the state holds: what `create`, `update` or `read` answered */
  diff(id: string, olds: Values, news: Values): Promise<DiffResult>;
  create(inputs: Values): Promise<{ id: string; outs: Values }>;
  /** An empty id: it is gone. */
  read(id: string, props: Values): Promise<{ id: string; props: Values; inputs?: Values }>;
  update(id: string, olds: Values, news: Values): Promise<{ outs: Values }>;
  delete(id: string, props: Values): Promise<void>;
}

export type Values = Record<string, unknown>;

export interface CheckResult {
  inputs: Values;
  failures: { property: string; reason: string }[];
}

export interface DiffResult {
  changes: boolean;
  replaces: string[];
  deleteBeforeReplace: boolean;
}

/** The configuration of the stack, all namespaces, as Pulumi's process hands it over. */
export interface StackConfiguration {
  get(key: string): string | undefined;
}

/** What a handler is made from. */
export interface HandlerParts {
  configuration: StackConfiguration;
  environment: Readonly<Record<string, string | undefined>>;
  /** Tells a person what is going on, one line at a time. */
  say: (line: string) => void;
}
