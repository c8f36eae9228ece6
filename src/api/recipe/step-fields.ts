import { z } from "zod";
import { withRules } from "../schema/rules.ts";

/** Bounded, as the API server bounds what its rules may cost by the most that they could see. */
export const EnvironmentVariables = withRules(
  z.record(z.string().max(256), z.string().max(32_768)).meta({ maxProperties: 100 }),
  [
    {
      cel: "self.size() <= 100 && self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]{0,255}$'))",
      message: "env holds at most 100 names of letters, digits and '_' that do not begin with a digit",
      holds: (env) => {
        const names = Object.keys(env);
        return names.length <= 100 && names.every((name) => /^[A-Za-z_][A-Za-z0-9_]{0,255}$/.test(name));
      },
    },
  ],
).meta({ maxProperties: 100 });

/** As the image knows it. */
export const UserName = z
  .string()
  .regex(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/, "must be a name or a number that the image knows");

/** How long one step may last: a day at most. */
export const TimeLimitSeconds = z.int().min(1).max(86_400).meta({ format: "int32" });
