import type { Operation, Step } from "./deployment.ts";

/** One line for each step that does something: sign, name, type, operation, and which inputs change. */
export function renderSteps(steps: readonly Step[]): string[] {
  return steps
    .filter(({ operation }) => operation !== "same")
    .map(({ operation, name, type, changes }) => {
      const properties = changes.map(({ property }) => property).join(", ");
      const what = `${signs[operation]} ${name}  ${type.split(":").at(-1) ?? ""}  ${operation}`;
      return properties === "" ? what : `${what}  [${properties}]`;
    });
}

const signs = {
  same: " ",
  create: "+",
  update: "~",
  replace: "+-",
  "delete-replaced": "--",
  delete: "-",
  retain: "[retain]",
} as const satisfies Record<Operation, string>;
