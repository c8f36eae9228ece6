import { z } from "zod";
import { TimeLimitSeconds } from "./step-fields.ts";
import { withRules } from "../schema/rules.ts";

/** How long a wait lasts that does not say. */
export const waitTimeoutSeconds = 60;

/** Until something holds in the sandbox. */
export const WaitFor = withRules(
  z.object({
    port: z
      .int()
      .min(1)
      .max(65_535)
      .meta({ format: "int32" })
      .optional()
      .describe("Until this TCP port takes connections from outside the sandbox."),
    file: z.string().startsWith("/", "must be an absolute path").max(4096).optional().describe("Until this exists."),
    command: z.string().min(1).max(16_384).optional().describe("Until this command line ends with exit code 0."),
    timeoutSeconds: TimeLimitSeconds.optional().describe(
      `After this the step has failed. Default ${waitTimeoutSeconds}.`,
    ),
  }),
  [
    {
      cel: "(has(self.port) ? 1 : 0) + (has(self.file) ? 1 : 0) + (has(self.command) ? 1 : 0) == 1",
      message: "waitFor must name exactly one thing: port, file or command",
      holds: ({ port, file, command }) => [port, file, command].filter((one) => one !== undefined).length === 1,
    },
  ],
);
export type WaitFor = z.infer<typeof WaitFor>;
