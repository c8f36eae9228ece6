import { actionOf, type RecipeStep } from "../../../api/recipe/recipe.ts";

/** What `env`, `workdir` and `user` steps have set for the steps that follow. */
export interface StepContext {
  environment: Record<string, string>;
  workingDirectory?: string;
  user?: string;
}

/** What holds for the step at `index`, what it says itself included. */
export function stepContext(recipe: readonly RecipeStep[], index: number): StepContext {
  const before = recipe.slice(0, index).reduce<StepContext>((context, step) => set(context, step), { environment: {} });
  const { env, user, cwd, copy } = recipe[index] ?? {};
  const whose = copy?.user ?? user;
  return {
    ...before,
    environment: { ...before.environment, ...env },
    ...(whose !== undefined && { user: whose }),
    ...(cwd !== undefined && { workingDirectory: cwd }),
  };
}

function set(context: StepContext, step: RecipeStep): StepContext {
  switch (actionOf(step)) {
    case "env":
      return { ...context, environment: { ...context.environment, ...step.env } };
    case "workdir":
      return step.workdir === undefined ? context : { ...context, workingDirectory: step.workdir };
    case "user":
      return step.user === undefined ? context : { ...context, user: step.user };
    default:
      return context;
  }
}
