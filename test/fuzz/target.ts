import fc from "fast-check";
import { RametError } from "../../src/base/errors.ts";

/** One parser or server, and what must hold for every input. */
export interface FuzzTarget {
  /** Names it in reports. */
  name: string;
  /** How many inputs it gets compared with a parser of texts, which has 1. Inputs that need a connection cost more. */
  share: number;
  /** How many inputs it gets in `npm test`. */
  shortInputs: number;
  open: () => Promise<OpenTarget>;
}

export interface OpenTarget {
  run(parameters: fc.Parameters<unknown>): Promise<fc.RunDetails<unknown>>;
  close(): Promise<void>;
}

interface TargetOptions<Input, World> {
  name: string;
  share?: number;
  /** @default 300, or 100 with a world */
  shortInputs?: number;
  inputs: fc.Arbitrary<Input>;
  /** How many inputs one of `inputs` is, if it is a batch. @default 1 */
  batch?: number;
  /** Inputs that once failed. */
  examples?: readonly NoInfer<Input>[];
  /** Starts what the inputs are sent to. */
  world?: () => Promise<World>;
  /** Fails by an exception. */
  check: (input: Input, world: World) => Promise<void> | void;
  close?: (world: World) => Promise<void> | void;
}

/** Thousands of times more than an input needs, because the machine may be busy. */
const inputMilliseconds = 10_000;

export function target<Input, World = undefined>(options: TargetOptions<Input, World>): FuzzTarget {
  const { name, share = 1, batch = 1, inputs, examples = [], check } = options;
  return {
    name,
    share,
    shortInputs: options.shortInputs ?? (options.world === undefined ? 300 : 100),
    open: async () => {
      const world = (await options.world?.()) as World;
      const property = fc.asyncProperty(inputs, async (input) => {
        const since = performance.now();
        const checked = check(input, world);
        if (checked !== undefined) await withinLimit(checked);
        const took = performance.now() - since;
        if (took > inputMilliseconds) throw new Error(`a hang: the input took ${Math.round(took)} ms`);
      });
      return {
        run: (parameters) =>
          fc.check(property, {
            examples: examples.map((example): [Input] => [example]),
            ...(parameters as fc.Parameters<[Input]>),
            numRuns: Math.max(Math.ceil((parameters.numRuns ?? 1) / batch), examples.length),
          }) as Promise<fc.RunDetails<unknown>>,
        close: async () => {
          await options.close?.(world);
        },
      };
    },
  };
}

async function withinLimit(checked: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`a hang: the input took more than ${inputMilliseconds} ms`));
    }, inputMilliseconds);
  });
  try {
    await Promise.race([checked, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Runs a parser, which may only throw errors with a code. @returns its result, undefined if it threw */
export function coded<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    assertCoded(error);
    return undefined;
  }
}

/** The same for a promise. */
export async function codedLater<T>(parse: () => Promise<T>): Promise<T | undefined> {
  try {
    return await parse();
  } catch (error) {
    assertCoded(error);
    return undefined;
  }
}

function assertCoded(error: unknown): void {
  if (!(error instanceof RametError)) throw new Error(`an error without a code: ${String(error)}`, { cause: error });
  if (error.code === "Internal" && defects.some((defect) => error.cause instanceof defect)) {
    throw new Error(`a defect: ${error.message}`, { cause: error });
  }
  if (error.message === "" || error.message.length > longestMessage) {
    throw new Error(`a message of ${error.message.length} characters: ${error.message.slice(0, 200)}`);
  }
}

/** The errors that JavaScript throws when a program makes a mistake. */
const defects = [TypeError, RangeError, ReferenceError, SyntaxError, EvalError, URIError];

/** A message goes into conditions and logs. */
const longestMessage = 100_000;

export function assertThat(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}
