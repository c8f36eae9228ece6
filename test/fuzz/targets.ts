import { answerTargets } from "./answer-targets.ts";
import { clientApiTargets } from "./client-api-targets.ts";
import { documentTargets } from "./document-targets.ts";
import { serverTargets } from "./server-targets.ts";
import { storeTargets } from "./store-targets.ts";
import type { FuzzTarget } from "./target.ts";
import { textTargets } from "./text-targets.ts";

/** All targets in TypeScript. Those in Go are in `native`. */
export const targets: readonly FuzzTarget[] = [
  ...textTargets,
  ...documentTargets,
  ...serverTargets,
  ...clientApiTargets,
  ...answerTargets,
  ...storeTargets,
];
